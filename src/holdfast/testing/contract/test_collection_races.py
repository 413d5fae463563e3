"""GCX-5: whatever the collector does, a commit that succeeds has all it refers to."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from holdfast import Component, MissingBlob
from holdfast.testing.contract.samples import checkpoint, put
from holdfast.testing.world import World, racing

SESSIONS = 4
COMMITS = 50
COMMON = b"common to all"


def write_and_carry(store: Any, session_id: str) -> int:
    """Commits that write, carry and deduplicate; each that applies is loaded. How many did."""
    applied, earlier = 0, dict[bytes, str]()
    for number in range(COMMITS):
        # Every second body was superseded two commits ago: stored, gone, or just going.
        body = b"%s: %d" % (session_id.encode(), number % 4)
        component = Component(ref=earlier[body]) if body in earlier and number % 3 else body
        ref = store.blobs.put(COMMON) if number % 4 == 0 else earlier.get(b"common")
        others = {"other": Component(ref=ref)} if ref else {}
        draft = checkpoint(number, tool_state=component, **others)
        try:
            answer = put(store, session_id, checkpoint=draft)
        except MissingBlob:
            earlier.pop(b"common", None)
            continue
        applied += 1
        earlier[body] = answer.component_refs["tool_state"]
        if ref:
            earlier[b"common"] = ref
        found = store.sessions.load(session_id).checkpoint
        assert found.turn_state == {"turn_index": number}
        assert found.components == {"tool_state": body} | ({"other": COMMON} if ref else {})
    return applied


@pytest.mark.invariant("INV-29")
@pytest.mark.scenario("GCX-T8")
def test_every_commit_that_applied_beside_collections_loads_fully(store: Any, world: World) -> None:
    finished = threading.Event()
    other = world.open() if world.is_durable else store

    def collect() -> int:
        deleted = 0
        while not finished.is_set():
            deleted += other.maintenance.collect_garbage(limit=3).deleted_blob_count
        return deleted

    def race(number: int) -> int:
        if number == SESSIONS:
            return collect()
        try:
            return write_and_carry(store, f"s{number}")
        finally:
            unfinished.remove(number)
            if not unfinished:
                finished.set()

    unfinished = set(range(SESSIONS))
    *applied, deleted = racing(SESSIONS + 1, race)

    assert all(isinstance(count, int) and count > COMMITS // 4 for count in applied), applied
    assert deleted > 0
    for number in range(SESSIONS):
        assert store.sessions.load(f"s{number}").checkpoint.components["tool_state"]
