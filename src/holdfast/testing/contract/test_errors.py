"""Section 2: damaged records are told as such, with their kind and key; errors carry facts."""

from __future__ import annotations

from typing import Any

import pytest

import holdfast
from holdfast import (
    CheckpointDraft,
    Child,
    CorruptRecord,
    Fault,
    HeadRevisionConflict,
    HoldfastError,
    InvalidArgument,
    LeaseLost,
    LeaseOwner,
    LocalProcess,
    Refused,
    SessionBusy,
    TurnStamp,
    UnsupportedRecordVersion,
    local_process,
)
from holdfast.testing.contract.samples import (
    ALICE,
    BOB,
    chain,
    commit,
    create,
    lease_on,
    message,
    put,
)
from holdfast.testing.world import World

UNPARSABLE = b'{"cut off'


def _damage(world: World, store: Any, text: str, value: Any) -> None:
    world.sql(store, text, value)


def _refused(kind: str, key: str, call: Any) -> None:
    with pytest.raises(CorruptRecord) as told:
        call()
    assert (told.value.record_kind, told.value.key) == (kind, key)


@pytest.mark.invariant("INV-8")
@pytest.mark.scenario("GEN-T4")
def test_a_damaged_node_is_told_by_every_read_that_meets_it(world: World, store: Any) -> None:
    put(store, "s1", graph=chain("a", "b"))
    _damage(world, store, "UPDATE {node} SET body = ? WHERE node_id = 'b'", UNPARSABLE)

    _refused("session_node", "b", lambda: store.sessions.load("s1"))
    _refused("session_node", "b", lambda: store.sessions.load("s1", scope="full_graph"))
    _refused("session_node", "b", lambda: store.sessions.load_node("s1", "b"))
    _refused("session_node", "b", lambda: store.sessions.list_nodes("s1"))
    _refused("session_node", "b", lambda: store.sessions.find_path("b"))
    assert store.sessions.load_node("s1", "a").node_id == "a"


@pytest.mark.scenario("GEN-T4")
def test_a_damaged_cause_of_a_node_is_told(world: World, store: Any) -> None:
    node = message("a", caused_by={"by": "x"})
    put(store, "s1", graph=holdfast.Append([node]))
    _damage(world, store, "UPDATE {node} SET caused_by = ?", UNPARSABLE.decode())

    _refused("session_node", "a", lambda: store.sessions.load("s1"))


@pytest.mark.scenario("GEN-T4")
def test_a_damaged_config_is_told_by_load_and_listing(world: World, store: Any) -> None:
    put(store, "s1", config={"model": "m"})
    _damage(world, store, "UPDATE {head_state} SET config = ?", UNPARSABLE)

    _refused("session_config", "s1", lambda: store.sessions.load("s1"))
    _refused("session_config", "s1", lambda: store.sessions.list(with_config=True))


@pytest.mark.scenario("GEN-T4")
def test_damaged_frames_are_told(world: World, store: Any) -> None:
    put(store, "s1", agent_frames=[{"frame_id": "f"}], current_agent_frame_id="f")
    for damaged in (UNPARSABLE.decode(), "7", '["no frame"]', "[{}]"):
        _damage(world, store, "UPDATE {head_state} SET frames = ?", damaged)
        _refused("agent_frames", "s1", lambda: store.sessions.load("s1"))


@pytest.mark.scenario("GEN-T4")
def test_a_damaged_relation_is_told_and_never_read_as_root(world: World, store: Any) -> None:
    create(store, relation=Child("parent"))
    for damaged in (UNPARSABLE.decode(), '{"kind":"cousin"}', "null"):
        _damage(world, store, "UPDATE {session_meta} SET relation = ?", damaged)
        _refused("session_meta", "s1", lambda: store.sessions.load_meta("s1"))
        _refused("session_meta", "s1", lambda: store.sessions.picker_info("s1"))
        _refused("session_meta", "s1", lambda: store.sessions.list())


@pytest.mark.scenario("GEN-T4")
def test_a_damaged_scope_is_told(world: World, store: Any) -> None:
    create(store, scope=("a",))
    _damage(world, store, "UPDATE {listing} SET scope = ?", b"\xff\0")

    _refused("session_scope", "s1", lambda: store.sessions.load_meta("s1"))
    _refused("session_scope", "s1", lambda: store.sessions.list())


@pytest.mark.scenario("GEN-T4")
def test_a_damaged_liveness_is_told_and_never_read_as_opaque(world: World, store: Any) -> None:
    owner = LeaseOwner("o", "i", LocalProcess("host", "boot", 1, "1"))
    held = lease_on(store, "s1", owner)
    _damage(world, store, "UPDATE {session} SET liveness = ?", UNPARSABLE.decode())

    _refused("lease_liveness", "s1", lambda: store.sessions.lease("s1"))
    _refused("lease_liveness", "s1", lambda: store.sessions.claim_lease("s1", BOB))
    assert store.sessions.release_lease(held)


@pytest.mark.scenario("GEN-T4")
def test_an_undecodable_payload_is_told(world: World, store: Any) -> None:
    node = holdfast.Node(node_id="a", body=holdfast.Payload("text", "tag"))
    put(store, "s1", graph=holdfast.Append([node]))
    _damage(world, store, "UPDATE {node} SET body = ?", b"\xff")

    _refused("session_node", "a", lambda: store.sessions.load("s1"))


def _manifest(world: World, store: Any, content: bytes) -> str:
    """Make the head of `s1` refer to other bytes, which are stored as they should be."""
    ref: str = store.blobs.put(content)
    world.sql(store, "UPDATE {blob_ref} SET ref = ? WHERE slot = 'checkpoint'", ref)
    world.sql(store, "UPDATE {session} SET checkpoint_ref = ?", ref)
    return ref


@pytest.mark.scenario("GEN-T4", "GEN-T5")
@pytest.mark.parametrize(
    "content",
    [UNPARSABLE, b"[]", b'{"turn_state":{}}', b'{"schema_version":"1","turn_state":{}}'],
    ids=["cut_off", "no_object", "without_version", "textual_version"],
)
def test_a_damaged_manifest_is_corrupt(world: World, store: Any, content: bytes) -> None:
    put(store, "s1", checkpoint=CheckpointDraft(turn_state={}))
    ref = _manifest(world, store, content)

    _refused("checkpoint_manifest", ref, lambda: store.sessions.load("s1"))


@pytest.mark.scenario("GEN-T5")
def test_a_manifest_of_a_newer_library_is_told_as_such(world: World, store: Any) -> None:
    put(store, "s1", checkpoint=CheckpointDraft(turn_state={}))
    ref = _manifest(world, store, b'{"schema_version":2,"turn_state":{}}')

    with pytest.raises(UnsupportedRecordVersion) as told:
        store.sessions.load("s1")

    facts = (told.value.record_kind, told.value.key, told.value.found, told.value.supported_max)
    assert facts == ("checkpoint_manifest", ref, 2, 1)


def _stamped(store: Any) -> Any:
    return put(store, "s1", graph=chain("a"), turn_commit=TurnStamp("s1", "t1"))


@pytest.mark.scenario("GEN-T4", "GEN-T5")
@pytest.mark.parametrize(
    "stored",
    ['{"cut off', "[]", '{"head_revision":1}', '{"head_revision":1,"schema_version":"1"}'],
    ids=["cut_off", "no_object", "without_version", "textual_version"],
)
def test_a_damaged_stamp_is_corrupt(world: World, store: Any, stored: str) -> None:
    _stamped(store)
    _damage(world, store, "UPDATE {turn_commit} SET result = ?", stored)

    _refused("turn_commit", "t1", lambda: store.sessions.load_turn_commit("s1", "t1"))
    _refused("turn_commit", "t1", lambda: _stamped(store))


@pytest.mark.scenario("GEN-T5")
def test_a_stamp_of_a_newer_library_is_told_as_such(world: World, store: Any) -> None:
    _stamped(store)
    newer = '{"head_revision":1,"schema_version":2,"what":"ever"}'
    _damage(world, store, "UPDATE {turn_commit} SET result = ?", newer)

    with pytest.raises(UnsupportedRecordVersion) as told:
        store.sessions.load_turn_commit("s1", "t1")

    assert (told.value.record_kind, told.value.key, told.value.found) == ("turn_commit", "t1", 2)


def test_errors_form_one_tree_with_two_branches() -> None:
    named = [getattr(holdfast, name) for name in holdfast.__all__]
    errors: list[Any] = [
        each for each in named if isinstance(each, type) and issubclass(each, Exception)
    ]

    assert all(issubclass(each, HoldfastError) for each in errors)
    leaves = set(errors) - {HoldfastError, Refused, Fault}
    assert all(issubclass(each, (Refused, Fault)) for each in leaves)
    assert issubclass(InvalidArgument, ValueError)
    assert HeadRevisionConflict.code == "head_revision_conflict"
    assert len({each.code for each in errors}) == len(errors)


@pytest.mark.invariant("INV-12")
def test_no_error_carries_a_token(store: Any) -> None:
    held = lease_on(store, "s1", local_process("alice"))

    with pytest.raises(SessionBusy) as busy:
        store.sessions.delete("s1")
    with pytest.raises(SessionBusy) as busy_too:
        put(store, "s1")
    stale = holdfast.Lease("s1", ALICE, "stale token", 7, 0, 0)
    with pytest.raises(LeaseLost) as lost:
        store.sessions.commit(commit("s1", session_execution_lease=stale))

    for told in (busy.value, busy_too.value, lost.value):
        text = f"{told} {told!r} {vars(told)} {told.args}"
        assert held.token not in text
        assert "stale token" not in text
