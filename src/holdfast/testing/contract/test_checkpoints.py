"""Section 7.1: what a checkpoint stores, carries forward, gives up, and gives back."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

from holdfast import BlobCorrupt, BlobKind, Component, MissingBlob
from holdfast.testing.contract.samples import checkpoint, put
from holdfast.testing.world import World

ROLES = {
    "tool_state": b"tools",
    "plugin_snapshot": b"",
    "execution_state": bytes(range(256)) * 40,
    "any other role/é": b"more \x00\xff",
}
ABSENT = "0" * 64


def sha256(content: bytes) -> str:
    """The address of some content."""
    return hashlib.sha256(content).hexdigest()


def loaded(store: Any, session_id: str = "s1", **options: Any) -> Any:
    """The checkpoint a load returns."""
    return store.sessions.load(session_id, **options).checkpoint


def carried(refs: dict[str, str]) -> dict[str, Component]:
    """Components that are stored already."""
    return {role: Component(ref=ref) for role, ref in refs.items()}


@pytest.mark.scenario("CHK-T1")
def test_bodies_of_all_roles_come_back_and_their_refs_are_their_hashes(store: Any) -> None:
    result = put(store, "s1", checkpoint=checkpoint(3, **ROLES))

    assert result.component_refs == {role: sha256(body) for role, body in ROLES.items()}
    found = loaded(store)
    assert found.components == ROLES
    assert found.component_refs == result.component_refs
    assert found.turn_state == {"turn_index": 3}


@pytest.mark.scenario("CHK-T2")
def test_a_commit_that_carries_refs_alone_keeps_every_body(store: Any) -> None:
    refs = put(store, "s1", checkpoint=checkpoint(1, **ROLES)).component_refs

    result = put(store, "s1", checkpoint=checkpoint(2, **carried(refs)))

    assert result.component_refs == refs
    found = loaded(store)
    assert (found.components, found.turn_state) == (ROLES, {"turn_index": 2})


def test_a_carried_ref_writes_no_body(world: World, store: Any) -> None:
    refs = put(store, "s1", checkpoint=checkpoint(1, **ROLES)).component_refs
    before = set(world.sql(store, "SELECT ref FROM {blob}"))

    result = put(store, "s1", checkpoint=checkpoint(2, **carried(refs)))

    assert set(world.sql(store, "SELECT ref FROM {blob}")) - before == {(result.checkpoint_ref,)}


def test_a_ref_may_be_carried_into_another_session_and_role(store: Any) -> None:
    ref = store.blobs.put(b"from elsewhere")

    put(store, "s1", checkpoint=checkpoint(1, tool_state=Component(ref=ref)))
    put(store, "s2", checkpoint=checkpoint(1, other=Component(ref=ref)))

    assert loaded(store, "s1").components == {"tool_state": b"from elsewhere"}
    assert loaded(store, "s2").components == {"other": b"from elsewhere"}


def test_a_ref_may_name_bytes_that_the_same_commit_brings(store: Any) -> None:
    same = Component(ref=sha256(b"same"))

    put(store, "s1", checkpoint=checkpoint(1, tool_state=b"same", other=same))

    assert loaded(store).components == {"tool_state": b"same", "other": b"same"}


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
    both = {role: Component(body=role.encode(), ref=ref) for role, ref in refs.items()}

    result = put(store, "s1", checkpoint=checkpoint(1, **both))

    assert result.component_refs == {role: sha256(role.encode()) for role in refs}
    assert loaded(store).components == {role: role.encode() for role in refs}


@pytest.mark.scenario("CHK-T5")
@pytest.mark.parametrize("role", ROLES)
def test_a_component_without_body_and_ref_is_gone_while_others_stay(store: Any, role: str) -> None:
    refs = put(store, "s1", checkpoint=checkpoint(1, **ROLES)).component_refs

    put(store, "s1", checkpoint=checkpoint(2, **carried(refs) | {role: Component()}))

    left = {each: body for each, body in ROLES.items() if each != role}
    assert loaded(store).components == left
    assert set(loaded(store).component_refs) == set(left)


@pytest.mark.scenario("CHK-T5")
def test_a_role_left_out_is_gone(store: Any) -> None:
    put(store, "s1", checkpoint=checkpoint(1, tool_state=b"t", other=b"o"))

    put(store, "s1", checkpoint=checkpoint(2, other=b"o"))

    assert loaded(store).components == {"other": b"o"}


@pytest.mark.scenario("CHK-T6")
def test_equal_checkpoints_share_a_ref_and_a_manifest(world: World, store: Any) -> None:
    refs = {
        put(store, session_id, checkpoint=checkpoint(1, **ROLES)).checkpoint_ref
        for session_id in ("s1", "s1", "s2")
    }

    (ref,) = refs
    kind = BlobKind.CHECKPOINT_MANIFEST.value
    assert world.sql(store, "SELECT ref FROM {blob} WHERE kind = ?", kind) == [(ref,)]
    assert store.sessions.load("s1").head_revision == 2


def test_a_checkpoint_has_the_ref_the_contract_computes(store: Any) -> None:
    result = put(store, "s1", checkpoint=checkpoint(1, tool_state=b"abc"))

    assert result.checkpoint_ref == (
        "4e1f1bb00a5aa720c5be57099bd5be353a1933b3a3ab925405fde736082dc1a8"
    )


def test_a_manifest_is_canonical_json(store: Any) -> None:
    draft = checkpoint(1, execution_state=b"e", other=b"o")

    result = put(store, "s1", checkpoint=draft)

    expected = {
        "components": {"other": sha256(b"o")},
        "execution_state_ref": sha256(b"e"),
        "schema_version": 1,
        "turn_state": {"turn_index": 1},
    }
    stored = store.blobs.get(result.checkpoint_ref)
    assert stored == json.dumps(expected, separators=(",", ":"), sort_keys=True).encode()


class TestDamage:
    """CHK-T7: a checkpoint with a hole is an error, never an empty component."""

    @pytest.fixture
    def refs(self, store: Any) -> dict[str, str]:
        result = put(store, "s1", checkpoint=checkpoint(1, tool_state=b"t" * 5_000, other=b"o"))
        return {"checkpoint_manifest": result.checkpoint_ref, **result.component_refs}

    @pytest.mark.scenario("CHK-T7")
    @pytest.mark.parametrize("role", ["checkpoint_manifest", "tool_state", "other"])
    def test_deleted_bytes_are_missing(
        self, world: World, store: Any, refs: dict[str, str], role: str
    ) -> None:
        world.sql(store, "DELETE FROM {blob} WHERE ref = ?", refs[role])

        with pytest.raises(MissingBlob) as missing:
            store.sessions.load("s1")

        found = missing.value
        assert (found.ref, found.role, found.session_id) == (refs[role], role, "s1")

    @pytest.mark.scenario("CHK-T7")
    @pytest.mark.parametrize("role", ["checkpoint_manifest", "tool_state", "other"])
    @pytest.mark.parametrize("at", [0, -1], ids=["first", "last"])
    def test_a_flipped_byte_is_corruption(
        self, world: World, store: Any, refs: dict[str, str], role: str, at: int
    ) -> None:
        select = "SELECT body FROM {blob} WHERE ref = ?"
        ((stored,),) = world.sql(store, select, refs[role])
        damaged = bytearray(stored)
        damaged[at] ^= 1
        world.sql(store, "UPDATE {blob} SET body = ? WHERE ref = ?", bytes(damaged), refs[role])

        with pytest.raises(BlobCorrupt) as corrupt:
            store.sessions.load("s1")

        assert corrupt.value.ref == refs[role]


@pytest.mark.parametrize("revision", [None, 0, -3, 7])
def test_the_plugin_revision_comes_back_with_and_without_its_snapshot(
    store: Any, revision: int | None
) -> None:
    ref = store.blobs.put(b"plugins")

    given: list[dict[str, Any]] = [{"plugin_snapshot": b"p"}, carried({"plugin_snapshot": ref}), {}]
    for components in given:
        draft = checkpoint(1, **components)
        put(
            store,
            "s1",
            checkpoint=msgspec.structs.replace(draft, plugin_snapshot_revision=revision),
        )

        assert loaded(store).plugin_snapshot_revision == revision


def test_a_session_without_a_checkpoint_has_none(store: Any) -> None:
    result = put(store, "s1", config={})

    session = store.sessions.load("s1")
    assert (session.checkpoint_ref, session.checkpoint, result.checkpoint_ref) == (None, None, None)
