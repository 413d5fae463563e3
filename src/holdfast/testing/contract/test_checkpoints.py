"""Section 7.1: checkpoints, their components, and the frames that refer to them."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import pytest

from holdfast import BlobCorrupt, Component, CorruptRecord, InvalidArgument, MissingBlob
from holdfast.testing.contract.samples import chain, checkpoint, put
from holdfast.testing.world import World

BODIES = {
    "tool_state": b"tools",
    "plugin_snapshot": b"plugins" * 1_000,
    "execution_state": b"",
    "a role of one's own": bytes(range(256)),
}


def ref(body: bytes) -> str:
    """The address of some bytes."""
    return sha256(body).hexdigest()


def carried(refs: dict[str, str]) -> dict[str, Component]:
    """Components that are stored already."""
    return {role: Component(ref=each) for role, each in refs.items()}


def loaded(store: Any, **options: Any) -> Any:
    """The session's checkpoint."""
    return store.sessions.load("s1", **options).checkpoint


@pytest.mark.invariant("INV-28")
@pytest.mark.scenario("CHK-T1")
def test_bodies_are_stored_under_their_hashes_and_come_back(store: Any) -> None:
    result = put(store, "s1", checkpoint=checkpoint(1, **BODIES))

    assert result.component_refs == {role: ref(body) for role, body in BODIES.items()}
    assert loaded(store).components == BODIES
    assert loaded(store).component_refs == result.component_refs
    assert loaded(store).turn_state == {"turn_index": 1}


@pytest.mark.scenario("CHK-T1")
def test_the_address_of_a_checkpoint_is_the_contracts_vector(store: Any) -> None:
    result = put(store, "s1", checkpoint=checkpoint(1, tool_state=b"abc"))

    vector = "4e1f1bb00a5aa720c5be57099bd5be353a1933b3a3ab925405fde736082dc1a8"
    assert result.checkpoint_ref == store.sessions.load("s1").checkpoint_ref == vector


@pytest.mark.scenario("CHK-T2")
def test_carried_components_are_still_there(store: Any) -> None:
    refs = put(store, "s1", checkpoint=checkpoint(1, **BODIES)).component_refs

    result = put(store, "s1", checkpoint=checkpoint(2, **carried(refs)))

    assert result.component_refs == refs
    assert loaded(store).components == BODIES
    assert loaded(store).turn_state == {"turn_index": 2}


@pytest.mark.scenario("CHK-T2")
def test_a_kept_checkpoint_stays_as_it_is(store: Any) -> None:
    first = put(store, "s1", checkpoint=checkpoint(1, **BODIES))

    second = put(store, "s1", graph=chain("a"))

    assert second.checkpoint_ref == first.checkpoint_ref
    assert loaded(store).components == BODIES


@pytest.mark.scenario("CHK-T3")
def test_a_ref_without_bytes_is_refused(store: Any) -> None:
    put(store, "s1", graph=chain("a"))
    missing = ref(b"never stored")

    with pytest.raises(MissingBlob) as refused:
        put(store, "s1", checkpoint=checkpoint(1, plugin_snapshot=Component(ref=missing)))

    assert (refused.value.ref, refused.value.role) == (missing, "plugin_snapshot")
    assert store.sessions.load("s1").head_revision == 1


@pytest.mark.scenario("CHK-T4")
def test_a_body_wins_over_a_ref(store: Any) -> None:
    other = store.blobs.put(b"other")

    result = put(
        store, "s1", checkpoint=checkpoint(1, tool_state=Component(body=b"body", ref=other))
    )

    assert result.component_refs == {"tool_state": ref(b"body")}
    assert loaded(store).components == {"tool_state": b"body"}


@pytest.mark.scenario("CHK-T5")
def test_a_component_that_is_not_given_is_gone_while_others_stay(store: Any) -> None:
    refs = put(store, "s1", checkpoint=checkpoint(1, **BODIES)).component_refs
    del refs["tool_state"]

    result = put(store, "s1", checkpoint=checkpoint(2, tool_state=Component(), **carried(refs)))

    assert result.component_refs == refs
    assert loaded(store).components == {role: BODIES[role] for role in refs}


@pytest.mark.scenario("CHK-T6")
def test_identical_checkpoints_share_one_manifest(world: World, store: Any) -> None:
    first = put(store, "s1", checkpoint=checkpoint(1, **BODIES))
    second = put(store, "s1", checkpoint=checkpoint(1, **BODIES))
    other = put(store, "s2", checkpoint=checkpoint(1, **carried(first.component_refs)))

    assert first.checkpoint_ref == second.checkpoint_ref == other.checkpoint_ref
    manifests = "SELECT count(*) FROM {blob} WHERE kind = 'checkpoint_manifest'"
    assert world.sql(store, manifests) == [(1,)]


@pytest.mark.invariant("INV-7")
@pytest.mark.scenario("CHK-T7")
def test_a_lost_component_is_never_silently_empty(world: World, store: Any) -> None:
    refs = put(store, "s1", checkpoint=checkpoint(1, **BODIES)).component_refs
    world.sql(store, "DELETE FROM {blob} WHERE ref = ?", refs["execution_state"])

    with pytest.raises(MissingBlob) as fault:
        store.sessions.load("s1")

    assert (fault.value.ref, fault.value.role) == (refs["execution_state"], "execution_state")


@pytest.mark.scenario("CHK-T7")
def test_a_lost_manifest_is_reported(world: World, store: Any) -> None:
    manifest = put(store, "s1", checkpoint=checkpoint(1)).checkpoint_ref
    world.sql(store, "DELETE FROM {blob} WHERE ref = ?", manifest)

    with pytest.raises(MissingBlob) as fault:
        store.sessions.load("s1")

    assert (fault.value.ref, fault.value.role) == (manifest, "checkpoint_manifest")


@pytest.mark.scenario("CHK-T7")
@pytest.mark.parametrize("role", ["tool_state", "plugin_snapshot"])
def test_a_flipped_byte_is_noticed(world: World, store: Any, role: str) -> None:
    refs = put(store, "s1", checkpoint=checkpoint(1, **BODIES)).component_refs
    ((stored,),) = world.sql(store, "SELECT body FROM {blob} WHERE ref = ?", refs[role])
    damaged = stored[:-1] + bytes([stored[-1] ^ 1])
    world.sql(store, "UPDATE {blob} SET body = ? WHERE ref = ?", damaged, refs[role])

    with pytest.raises(BlobCorrupt) as fault:
        store.sessions.load("s1")

    assert fault.value.ref == refs[role]


@pytest.mark.scenario("CHK-T7")
@pytest.mark.parametrize("hydrate", ["all", "none"])
@pytest.mark.parametrize(
    "damage",
    [
        "DELETE FROM {blob_ref} WHERE slot = 'component:execution_state'",
        "UPDATE {blob_ref} SET ref = 'another' WHERE slot = 'component:execution_state'",
        "UPDATE {blob_ref} SET slot = 'component:new' WHERE slot = 'component:execution_state'",
        "UPDATE {blob_ref} SET ref = (SELECT r.ref FROM {blob_ref} r JOIN {session} s"
        " ON s.key = r.session AND s.id = 's2' WHERE r.slot = 'checkpoint')",
        "UPDATE {session} SET checkpoint_ref = 'another'",
    ],
    ids=["lost", "changed", "renamed", "another's", "head"],
)
def test_references_that_are_not_the_manifests_are_noticed(
    world: World, store: Any, damage: str, hydrate: str
) -> None:
    put(store, "s2", checkpoint=checkpoint(2))
    put(store, "s1", checkpoint=checkpoint(1, **BODIES))
    world.sql(store, damage)
    ((manifest,),) = world.sql(store, "SELECT checkpoint_ref FROM {session} WHERE id = 's1'")

    with pytest.raises(CorruptRecord) as fault:
        store.sessions.load("s1", hydrate=hydrate)

    assert (fault.value.record_kind, fault.value.key) == ("checkpoint_manifest", manifest)


@pytest.mark.scenario("CHK-T7")
def test_a_lost_reference_to_the_manifest_is_noticed(world: World, store: Any) -> None:
    manifest = put(store, "s1", checkpoint=checkpoint(1, **BODIES)).checkpoint_ref
    world.sql(store, "DELETE FROM {blob_ref} WHERE slot = 'checkpoint'")

    with pytest.raises(MissingBlob) as fault:
        store.sessions.load("s1")

    assert (fault.value.ref, fault.value.role) == (manifest, "checkpoint_manifest")


@pytest.mark.parametrize("role", ["checkpoint", "component:tool_state", "frame:0"])
def test_a_role_may_be_called_as_something_of_ours_is(store: Any, role: str) -> None:
    bodies = {role: b"one", "tool_state": b"two"}
    put(store, "s1", checkpoint=checkpoint(1, **bodies))

    assert loaded(store).components == bodies
    store.maintenance.collect_garbage()
    assert loaded(store, hydrate=[role]).components == {role: b"one"}


@pytest.mark.scenario("CHK-T8")
def test_after_a_frame_switch_the_old_frame_keeps_its_state(store: Any) -> None:
    old = _run(store, 1, b"one", [{"frame_id": "f1"}], "f1")
    frames = store.sessions.load("s1").agent_frames

    new = _run(store, 2, b"two", [*frames, {"frame_id": "f2"}], "f2")

    assert _states(store) == {"f1": old, "f2": new}
    assert old != new
    store.maintenance.collect_garbage()
    assert store.blobs.get(old) == b"one"


@pytest.mark.scenario("CHK-T8")
def test_a_kept_current_frame_carries_the_newer_state(store: Any) -> None:
    _run(store, 1, b"one", [{"frame_id": "f1"}, {"frame_id": "f2"}], "f2")

    new = put(store, "s1", checkpoint=checkpoint(2, execution_state=b"two")).component_refs

    assert _states(store) == {"f1": None, "f2": new["execution_state"]}


def _run(store: Any, turn: int, state: bytes, frames: list[Any], current: str) -> str:
    """Commit frames with a checkpoint; the ref of its execution state."""
    found: str = put(
        store,
        "s1",
        checkpoint=checkpoint(turn, execution_state=state),
        agent_frames=frames,
        current_agent_frame_id=current,
    ).component_refs["execution_state"]
    return found


def _states(store: Any) -> dict[str, str | None]:
    frames = store.sessions.load("s1").agent_frames
    return {frame["frame_id"]: frame.get("execution_state_ref") for frame in frames}


def test_a_frame_may_not_refer_to_what_is_not_stored(store: Any) -> None:
    missing = ref(b"never stored")
    frames = [{"frame_id": "f1", "execution_state_ref": missing}]

    with pytest.raises(MissingBlob) as refused:
        put(store, "s1", agent_frames=frames, current_agent_frame_id="")

    assert refused.value.ref == missing


@pytest.mark.parametrize(
    ("frames", "current"),
    [
        ([{"frame_id": "f1"}, {"frame_id": "f1"}], "f1"),
        ([{"frame_id": "f1"}], "f2"),
        ([{"name": "f1"}], ""),
        (["f1"], ""),
        ([{"frame_id": "f1", "execution_state_snapshot": {}}], "f1"),
    ],
    ids=["repeated", "current-unlisted", "nameless", "no-object", "body"],
)
def test_malformed_frames_are_refused(store: Any, frames: list[Any], current: str) -> None:
    with pytest.raises(InvalidArgument):
        put(store, "s1", agent_frames=frames, current_agent_frame_id=current)


@pytest.mark.parametrize(
    ("hydrate", "roles"),
    [("none", set()), ({"tool_state"}, {"tool_state"}), (["nobody"], set()), ("all", set(BODIES))],
    ids=["none", "one", "unknown", "all"],
)
def test_only_the_components_asked_for_are_loaded(
    store: Any, hydrate: Any, roles: set[str]
) -> None:
    refs = put(store, "s1", checkpoint=checkpoint(1, **BODIES)).component_refs

    found = loaded(store, hydrate=hydrate)

    assert set(found.components) == roles
    assert found.component_refs == refs


@pytest.mark.parametrize("components", [{}, {"plugin_snapshot": b"p"}], ids=["absent", "given"])
def test_the_plugin_revision_comes_back_as_given(store: Any, components: dict[str, bytes]) -> None:
    from holdfast import CheckpointDraft

    put(
        store,
        "s1",
        checkpoint=CheckpointDraft(
            turn_state=None, components=components, plugin_snapshot_revision=7
        ),
    )

    assert loaded(store).plugin_snapshot_revision == 7


def test_a_session_without_a_checkpoint_has_none(store: Any) -> None:
    put(store, "s1", graph=chain("a"))

    session = store.sessions.load("s1")

    assert (session.checkpoint, session.checkpoint_ref) == (None, None)
