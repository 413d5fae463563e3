"""Extensions 2: checkpoints of many components under roles of the caller's (EXT-17)."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast import CheckpointDraft, Component
from holdfast.testing.clock import ManualClock
from holdfast.testing.contract.samples import put
from holdfast.testing.world import World

ROLES = [f"role {number}/\u00e9" for number in range(40)]


def draft(**changed: bytes) -> CheckpointDraft:
    """Forty components, of which some are not what they were."""
    bodies: dict[str, Component | bytes] = {role: role.encode() * 20 for role in ROLES}
    bodies.update(changed)
    return CheckpointDraft(turn_state={"n": len(changed)}, components=bodies)


def blobs(world: World, store: Any) -> dict[str, str]:
    """The kinds of stored blobs by ref."""
    return dict(world.sql(store, "SELECT ref, kind FROM {blob}"))


@pytest.mark.scenario("EXT-T17")
def test_of_forty_components_only_the_changed_one_is_written(world: World, store: Any) -> None:
    first = put(store, "s1", checkpoint=draft())
    before = blobs(world, store)

    second = put(store, "s1", checkpoint=draft(**{ROLES[7]: b"changed"}))

    written = {ref: kind for ref, kind in blobs(world, store).items() if ref not in before}
    manifest = written.pop(second.checkpoint_ref)
    assert manifest == "checkpoint_manifest"
    assert list(written) == [second.component_refs[ROLES[7]]]
    changed = {role for role in ROLES if first.component_refs[role] != second.component_refs[role]}
    assert changed == {ROLES[7]}


@pytest.mark.scenario("EXT-T17")
def test_the_collector_frees_what_was_superseded_without_reading_a_manifest(
    world: World, store: Any, clock: ManualClock
) -> None:
    first = put(store, "s1", checkpoint=draft())
    second = put(store, "s1", checkpoint=draft(**{ROLES[7]: b"changed"}))
    clock.advance(1)
    for ref in (first.checkpoint_ref, second.checkpoint_ref):
        ((length,),) = world.sql(store, "SELECT length(body) FROM {blob} WHERE ref = ?", ref)
        world.sql(store, "UPDATE {blob} SET body = ? WHERE ref = ?", b"?" * length, ref)

    report = store.maintenance.collect_garbage()

    assert report.deleted_blob_count == 2
    left = blobs(world, store)
    assert set(left) == {second.checkpoint_ref, *second.component_refs.values()}
    assert first.component_refs[ROLES[7]] not in left


def test_components_are_read_by_their_roles(store: Any) -> None:
    put(store, "s1", checkpoint=draft(**{"tool_state": b"tools"}))

    loaded = store.sessions.load("s1", hydrate=[ROLES[3], "tool_state"])

    assert loaded.checkpoint.components == {
        ROLES[3]: ROLES[3].encode() * 20,
        "tool_state": b"tools",
    }
    assert set(loaded.checkpoint.component_refs) == {*ROLES, "tool_state"}
