"""COM-1: of several faults at once, the first one in the contract's order decides."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from holdfast import (
    Append,
    CheckpointDraft,
    Component,
    GraphIntegrity,
    HeadRevisionConflict,
    InvalidArgument,
    LeaseLost,
    RuntimeTurnCommitConflict,
    SessionBindingMismatch,
    SessionBusy,
    SessionDeleted,
    Tag,
)
from holdfast.testing.contract.samples import (
    chain,
    commit,
    create,
    lease_on,
    message,
    put,
    spent,
    turn,
)

#: A fault of each of COM-1's steps; what a commit needs to have none of them is its lease.
STATIC: dict[str, Any] = {"usage_deltas": [spent("chat", "m", -1)]}
REPLAYED: dict[str, Any] = {"turn_commit": turn("t1", turn_commit_hash="other")}
UNLEASED: dict[str, Any] = {"session_execution_lease": None}
BEHIND: dict[str, Any] = {"expected_head_revision": 0}
DANGLING: dict[str, Any] = {"graph": Append([message("x", parent_node_id="none")])}
UNSTORED: dict[str, Any] = {
    "checkpoint": CheckpointDraft(turn_state={}, components={"tool_state": Component(ref="00")})
}


@pytest.fixture
def lease(store: Any) -> Iterator[Any]:
    """A live lease on a session with a stamped turn behind it; nothing may change it."""
    put(store, "s1", graph=chain("a"), turn_commit=turn("t1", turn_commit_hash="first"))
    lease = lease_on(store, "s1")
    before = store.sessions.load("s1")
    yield lease
    assert store.sessions.load("s1") == before


def attempt(store: Any, lease: Any, *faults: dict[str, Any]) -> None:
    """A commit with these faults."""
    fields: dict[str, Any] = {"session_execution_lease": lease}
    for fault in faults:
        fields |= fault
    store.sessions.commit(commit("s1", **fields))


@pytest.mark.scenario("COM-T14")
def test_what_is_wrong_in_itself_comes_before_all_that_is_stored(store: Any, lease: Any) -> None:
    with pytest.raises(InvalidArgument):
        attempt(store, lease, STATIC, REPLAYED, UNLEASED, BEHIND, DANGLING, UNSTORED)


@pytest.mark.scenario("COM-T14")
def test_what_is_wrong_in_itself_comes_before_the_binding(store: Any, lease: Any) -> None:
    bound = store.session("s2")

    with pytest.raises(InvalidArgument):
        bound.commit(commit("s1", session_execution_lease=lease, **STATIC))


@pytest.mark.scenario("COM-T14")
def test_the_binding_comes_before_a_replay(store: Any, lease: Any) -> None:
    bound = store.session("s2")

    with pytest.raises(SessionBindingMismatch):
        bound.commit(commit("s1", session_execution_lease=lease, **REPLAYED))


@pytest.mark.scenario("COM-T14")
def test_a_deleted_session_comes_before_the_lease(store: Any) -> None:
    view = create(store, "s1")
    view.commit_with_fresh_lease(commit("s1"))
    store.sessions.delete("s1")

    with pytest.raises(SessionDeleted):
        view.commit(commit("s1", **UNLEASED, **BEHIND))


@pytest.mark.scenario("COM-T14")
def test_another_turn_under_a_known_id_comes_before_the_lease(store: Any, lease: Any) -> None:
    with pytest.raises(RuntimeTurnCommitConflict):
        attempt(store, lease, REPLAYED, UNLEASED, BEHIND, DANGLING, UNSTORED)


@pytest.mark.scenario("COM-T14")
@pytest.mark.usefixtures("lease")
def test_a_replay_needs_neither_lease_nor_revision_nor_graph(store: Any) -> None:
    same = {"turn_commit": turn("t1", turn_commit_hash="first")}

    answer = store.sessions.commit(commit("s1", **same, **BEHIND, **DANGLING, **UNSTORED))

    assert answer.replayed


@pytest.mark.scenario("COM-T14")
def test_the_lease_comes_before_the_revision(store: Any, lease: Any) -> None:
    with pytest.raises(LeaseLost):
        attempt(store, lease, UNLEASED, BEHIND, DANGLING, UNSTORED)


@pytest.mark.scenario("COM-T14")
@pytest.mark.usefixtures("lease")
def test_somebody_elses_lease_comes_before_the_revision(store: Any) -> None:
    with pytest.raises(SessionBusy):
        put(store, "s1", **BEHIND, **DANGLING, **UNSTORED)


@pytest.mark.scenario("COM-T14")
@pytest.mark.parametrize("expected", [0, Tag("none")], ids=["revision", "tag"])
def test_the_revision_comes_before_the_graph(store: Any, lease: Any, expected: Any) -> None:
    with pytest.raises(HeadRevisionConflict):
        attempt(store, lease, {"expected_head_revision": expected}, DANGLING, UNSTORED)


@pytest.mark.scenario("COM-T14")
def test_the_graph_comes_before_what_a_checkpoint_refers_to(store: Any, lease: Any) -> None:
    with pytest.raises(GraphIntegrity):
        attempt(store, lease, DANGLING, UNSTORED)
