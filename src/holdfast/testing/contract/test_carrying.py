"""Section 7.1: what a checkpoint carries without bringing it, and how its manifest is spelled."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any

import pytest

from holdfast import BlobCorrupt, Component, MissingBlob
from holdfast.testing.contract.samples import checkpoint, put
from holdfast.testing.world import World

BODIES = {"tool_state": b"tools", "plugin_snapshot": b"", "other/é": b"more \x00\xff"}
ABSENT = "0" * 64


def ref(content: bytes) -> str:
    """The address of some content."""
    return sha256(content).hexdigest()


def components(store: Any, session_id: str = "s1") -> dict[str, bytes]:
    """The bodies of a session's checkpoint."""
    found: dict[str, bytes] = store.sessions.load(session_id).checkpoint.components
    return found


def test_a_carried_ref_writes_no_body(world: World, store: Any) -> None:
    refs = put(store, "s1", checkpoint=checkpoint(1, **BODIES)).component_refs
    carried = {role: Component(ref=each) for role, each in refs.items()}
    before = set(world.sql(store, "SELECT ref FROM {blob}"))

    result = put(store, "s1", checkpoint=checkpoint(2, **carried))

    assert set(world.sql(store, "SELECT ref FROM {blob}")) - before == {(result.checkpoint_ref,)}


def test_a_ref_may_be_carried_into_another_session_and_role(store: Any) -> None:
    stored = Component(ref=store.blobs.put(b"from elsewhere"))

    put(store, "s1", checkpoint=checkpoint(1, tool_state=stored))
    put(store, "s2", checkpoint=checkpoint(1, other=stored))

    assert components(store, "s1") == {"tool_state": b"from elsewhere"}
    assert components(store, "s2") == {"other": b"from elsewhere"}


def test_a_ref_may_name_bytes_that_the_same_commit_brings(store: Any) -> None:
    same = Component(ref=ref(b"same"))

    put(store, "s1", checkpoint=checkpoint(1, tool_state=b"same", other=same))

    assert components(store) == {"tool_state": b"same", "other": b"same"}


@pytest.mark.scenario("CHK-T3")
@pytest.mark.parametrize("role", ["tool_state", "plugin_snapshot", "execution_state", "other"])
def test_a_ref_without_bytes_refuses_the_commit(world: World, store: Any, role: str) -> None:
    put(store, "s1", checkpoint=checkpoint(1, tool_state=b"t"))
    before = world.dump(store)
    draft = checkpoint(2, **{"fresh": b"body", role: Component(ref=ABSENT)})

    with pytest.raises(MissingBlob) as missing:
        put(store, "s1", checkpoint=draft)

    assert (missing.value.ref, missing.value.role, missing.value.session_id) == (ABSENT, role, "s1")
    assert store.sessions.load("s1").head_revision == 1
    assert world.dump(store) == before


@pytest.mark.scenario("CHK-T4")
def test_of_a_body_and_another_ref_the_body_counts(store: Any) -> None:
    other = store.blobs.put(b"other")
    refs = {"tool_state": other, "plugin_snapshot": ABSENT}
    both = {role: Component(body=role.encode(), ref=each) for role, each in refs.items()}

    result = put(store, "s1", checkpoint=checkpoint(1, **both))

    assert result.component_refs == {role: ref(role.encode()) for role in refs}
    assert components(store) == {role: role.encode() for role in refs}


def test_a_manifest_is_canonical_json(store: Any) -> None:
    draft = checkpoint(1, execution_state=b"e", other=b"o")

    result = put(store, "s1", checkpoint=draft)

    expected = {
        "components": {"other": ref(b"o")},
        "execution_state_ref": ref(b"e"),
        "schema_version": 1,
        "turn_state": {"turn_index": 1},
    }
    stored = store.blobs.get(result.checkpoint_ref)
    assert stored == json.dumps(expected, separators=(",", ":"), sort_keys=True).encode()


@pytest.mark.invariant("INV-8")
@pytest.mark.scenario("CHK-T7")
@pytest.mark.parametrize("at", [0, -1], ids=["first", "last"])
def test_a_flipped_byte_of_the_manifest_is_corruption(world: World, store: Any, at: int) -> None:
    manifest = put(store, "s1", checkpoint=checkpoint(1, **BODIES)).checkpoint_ref
    ((stored,),) = world.sql(store, "SELECT body FROM {blob} WHERE ref = ?", manifest)
    damaged = bytearray(stored)
    damaged[at] ^= 1
    world.sql(store, "UPDATE {blob} SET body = ? WHERE ref = ?", bytes(damaged), manifest)

    with pytest.raises(BlobCorrupt) as corrupt:
        store.sessions.load("s1")

    assert corrupt.value.ref == manifest
