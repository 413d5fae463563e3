"""Section 8: what a collection frees, and what it never touches."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast import CheckpointDraft, Component, GcAborted, MissingBlob
from holdfast.testing.contract.samples import checkpoint, put
from holdfast.testing.world import World


def carry(ref: str) -> Component:
    """A component that is stored already."""
    return Component(ref=ref)


def collect(store: Any, **options: Any) -> Any:
    """Collect garbage; the report."""
    return store.maintenance.collect_garbage(**options)


def bodies(store: Any, session_id: str = "s1") -> dict[str, bytes]:
    """The components of the session's checkpoint."""
    found: dict[str, bytes] = store.sessions.load(session_id).checkpoint.components
    return found


@pytest.mark.scenario("GCX-T1")
def test_a_superseded_state_goes_and_the_newer_stays(store: Any) -> None:
    old = put(store, "s1", checkpoint=checkpoint(1, tool_state=b"older")).component_refs
    put(store, "s1", checkpoint=checkpoint(2, tool_state=b"newer"))

    report = collect(store)

    assert (report.root_count, report.retained_blob_count, report.deleted_blob_count) == (1, 2, 2)
    assert report.missing_root_count == 0
    assert report.freed_bytes > len(b"older")
    assert not store.blobs.has(old["tool_state"])
    assert bodies(store) == {"tool_state": b"newer"}


@pytest.mark.scenario("GCX-T1")
def test_a_second_run_finds_nothing(store: Any) -> None:
    put(store, "s1", checkpoint=checkpoint(1, tool_state=b"older"))
    put(store, "s1", checkpoint=checkpoint(2, tool_state=b"newer"))
    collect(store)

    again = collect(store)

    assert (again.deleted_blob_count, again.freed_bytes) == (0, 0)
    assert again.retained_blob_count == 2


@pytest.mark.scenario("GCX-T2")
def test_of_an_orphan_and_a_live_checkpoint_only_the_orphan_goes(store: Any) -> None:
    roles = {"tool_state": b"t", "plugin_snapshot": b"p", "execution_state": b"e", "other": b"o"}
    put(store, "s1", checkpoint=checkpoint(1, **roles))
    orphan = store.blobs.put(b"nobody refers to this")

    report = collect(store)

    assert report.deleted_blob_count == 1
    assert not store.blobs.has(orphan)
    assert bodies(store) == roles


class TestSharedComponents:
    """GCX-T3: what one session lets go of may still be another one's."""

    @pytest.fixture(autouse=True)
    def two_sessions(self, store: Any) -> None:
        for session_id in ("s1", "s2"):
            put(store, session_id, checkpoint=checkpoint(1, tool_state=b"shared"))

    @pytest.mark.scenario("GCX-T3")
    def test_superseded_in_one_it_stays_for_the_other(self, store: Any) -> None:
        put(store, "s1", checkpoint=checkpoint(2, tool_state=b"own"))

        collect(store)

        assert bodies(store, "s2") == {"tool_state": b"shared"}
        assert bodies(store, "s1") == {"tool_state": b"own"}

    @pytest.mark.scenario("GCX-T3")
    def test_deleted_with_one_it_stays_for_the_other(self, store: Any) -> None:
        store.sessions.delete("s1")

        assert collect(store).deleted_blob_count == 0
        assert bodies(store, "s2") == {"tool_state": b"shared"}

    @pytest.mark.scenario("GCX-T3")
    def test_deleted_with_both_it_goes(self, store: Any) -> None:
        store.sessions.delete("s1")
        store.sessions.delete("s2")

        report = collect(store)

        assert (report.root_count, report.deleted_blob_count) == (0, 2)


@pytest.mark.scenario("GCX-T4")
def test_the_execution_state_of_a_superseded_frame_survives(store: Any) -> None:
    first = put(
        store,
        "s1",
        agent_frames=[{"frame_id": "outer"}],
        current_agent_frame_id="outer",
        checkpoint=checkpoint(1, execution_state=b"outer stack"),
    )
    ref = first.component_refs["execution_state"]
    put(
        store,
        "s1",
        agent_frames=[{"frame_id": "outer", "execution_state_ref": ref}, {"frame_id": "inner"}],
        current_agent_frame_id="inner",
        checkpoint=checkpoint(2, execution_state=b"inner stack"),
    )

    report = collect(store)

    assert report.root_count == 2
    assert store.blobs.get(ref) == b"outer stack"
    put(store, "s1", agent_frames=[{"frame_id": "inner"}], current_agent_frame_id="inner")
    collect(store)
    assert not store.blobs.has(ref)


DAMAGE = ("codec = 9", "body = substr(body, 2)", "raw_len = -1")


class TestDamagedRoots:
    """GCX-T5: a live root that cannot be decoded stops a run before it deletes anything."""

    @pytest.mark.scenario("GCX-T5")
    @pytest.mark.parametrize(
        ("damage", "codec"),
        [
            *((damage, codec) for damage in DAMAGE for codec in (0, 1)),
            # How long compressed bytes become is only told by reading them.
            ("raw_len = raw_len + 1", 0),
        ],
    )
    def test_nothing_is_deleted(self, world: World, damage: str, codec: int) -> None:
        store = world.open(compression="compact" if codec else "low_latency")
        draft = CheckpointDraft(turn_state="x" * 2_000)
        ref = put(store, "s1", checkpoint=draft).checkpoint_ref
        assert world.sql(store, "SELECT codec FROM {blob}") == [(codec,)]
        orphan = store.blobs.put(b"orphan")
        world.sql(store, f"UPDATE {{blob}} SET {damage} WHERE ref = ?", ref)  # noqa: S608

        with pytest.raises(GcAborted) as aborted:
            collect(store)

        assert aborted.value.ref == ref
        assert store.blobs.has(orphan)


@pytest.mark.scenario("GCX-T6")
def test_a_root_without_bytes_is_counted_and_passed_over(store: Any, world: World) -> None:
    ref = put(store, "s1", checkpoint=checkpoint(1, tool_state=b"t")).checkpoint_ref
    put(store, "s2", checkpoint=checkpoint(2, tool_state=b"whole"))
    orphan = store.blobs.put(b"orphan")
    world.sql(store, "DELETE FROM {blob} WHERE ref = ?", ref)

    report = collect(store)

    assert (report.root_count, report.missing_root_count) == (2, 1)
    assert not store.blobs.has(orphan)
    assert bodies(store, "s2") == {"tool_state": b"whole"}
    with pytest.raises(MissingBlob):
        store.sessions.load("s1")


@pytest.mark.scenario("GCX-T7")
def test_the_bytes_of_a_replaced_artifact_go(store: Any) -> None:
    old = store.artifacts.put("docs", "readme", b"first")
    new = store.artifacts.put("docs", "readme", b"second")

    report = collect(store)

    assert (report.root_count, report.deleted_blob_count) == (1, 1)
    assert (store.blobs.has(old), store.blobs.has(new)) == (False, True)
    assert store.artifacts.get("docs", "readme") == b"second"


@pytest.mark.scenario("GCX-T11")
def test_a_young_blob_is_spared_for_its_grace_period(store: Any) -> None:
    ref = store.blobs.put(b"about to be referred to")

    assert collect(store, grace_ms=60_000).deleted_blob_count == 0
    assert store.blobs.has(ref)
    assert collect(store, grace_ms=0).deleted_blob_count == 1
    assert not store.blobs.has(ref)


@pytest.mark.scenario("GCX-T11")
def test_grace_is_an_age(store: Any, world: World) -> None:
    ref = store.blobs.put(b"aging")
    world.clock.advance(59_999)
    assert collect(store, grace_ms=60_000).deleted_blob_count == 0

    world.clock.advance(2)

    assert collect(store, grace_ms=60_000).deleted_blob_count == 1
    assert not store.blobs.has(ref)


@pytest.mark.scenario("GCX-T11")
def test_content_that_is_put_again_gets_a_new_grace_period(store: Any, world: World) -> None:
    ref = store.blobs.put(b"about to be referred to, again")
    world.clock.advance(60_001)
    assert store.blobs.put(b"about to be referred to, again") == ref

    assert collect(store, grace_ms=60_000).deleted_blob_count == 0
    world.clock.advance(60_001)
    assert collect(store, grace_ms=60_000).deleted_blob_count == 1


def test_a_collection_works_in_batches_without_looking_at_single_blobs(
    store: Any, world: World
) -> None:
    for number in range(30):
        store.blobs.put(b"orphan %d" % number)
    put(store, "s1", checkpoint=checkpoint(1, tool_state=b"t"))
    counts = world.backend(store).counts
    counts.clear()

    report = collect(store, limit=10)

    assert (report.deleted_blob_count, report.retained_blob_count) == (30, 2)
    assert counts["collect_blobs"] == 4
