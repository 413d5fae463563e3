"""COM-1: of several faults at once, the first one in the contract's order decides."""

from __future__ import annotations

import itertools
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
    MissingBlob,
    QueuedWorkBatchDraft,
    QueuedWorkClaimSuperseded,
    QueuedWorkCompletion,
    RuntimeTurnCommitConflict,
    SessionBindingMismatch,
    SessionBusy,
    SessionDeleted,
    Tag,
    TurnInputClaimSuperseded,
    TurnInputCompletion,
    UnsettledQueuedWorkClaim,
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

STALE = {"session_id": "s1", "claim_id": "c", "claim_token": "stale"}
#: A fault of each of COM-1's steps; what a commit needs to have none of them is its lease.
STATIC: dict[str, Any] = {"usage_deltas": [spent("chat", "m", -1)]}
REPLAYED: dict[str, Any] = {"turn_commit": turn("t1", turn_commit_hash="other")}
UNLEASED: dict[str, Any] = {"session_execution_lease": None}
BEHIND: dict[str, Any] = {"expected_head_revision": 0}
WORK_TAKEN: dict[str, Any] = {
    "completed_queue_claims": [QueuedWorkCompletion(**STALE, batch_ids=["b"])]
}
INPUTS_TAKEN: dict[str, Any] = {
    "completed_turn_input_claims": [TurnInputCompletion(**STALE, input_ids=["i"])]
}
DANGLING: dict[str, Any] = {"graph": Append([message("x", parent_node_id="none")])}
UNSTORED: dict[str, Any] = {
    "checkpoint": CheckpointDraft(turn_state={}, components={"tool_state": Component(ref="00")})
}
#: In the order of COM-1, each with what a commit is told that has this fault first.
IN_ORDER: list[tuple[dict[str, Any], type[Exception]]] = [
    (STATIC, InvalidArgument),
    (REPLAYED, RuntimeTurnCommitConflict),
    (UNLEASED, LeaseLost),
    (BEHIND, HeadRevisionConflict),
    (WORK_TAKEN, QueuedWorkClaimSuperseded),
    (INPUTS_TAKEN, TurnInputClaimSuperseded),
    (DANGLING, GraphIntegrity),
    (UNSTORED, MissingBlob),
]

ELSEWHERE = {"session_id": "other", "claim_id": "c", "claim_token": "t"}
TWICE = [TurnInputCompletion(**STALE, input_ids=["i"])] * 2
#: The same within the first step, with the field that is named where an argument is refused.
STATIC_ORDER: dict[str, tuple[dict[str, Any], type[Exception], str | None]] = {
    "counters": (STATIC, InvalidArgument, "usage_deltas[0].usage.input_tokens"),
    "outbox": (
        {
            "enqueued_queue_batches": [
                QueuedWorkBatchDraft(session_id="other", payloads=[{"type": "x"}])
            ]
        },
        SessionBindingMismatch,
        None,
    ),
    "stamp": ({"turn_commit": turn("t1", "other")}, RuntimeTurnCommitConflict, None),
    "completion": (
        {"completed_queue_claims": [QueuedWorkCompletion(**ELSEWHERE, batch_ids=["b"])]},
        QueuedWorkClaimSuperseded,
        None,
    ),
    "repeated": (
        {"completed_turn_input_claims": TWICE},
        InvalidArgument,
        "completed_turn_input_claims",
    ),
    "originating": (
        {"originating_claims": [QueuedWorkCompletion(**STALE, batch_ids=["b"])]},
        UnsettledQueuedWorkClaim,
        None,
    ),
    "release": (
        {"session_execution_lease": None, "release_session_execution_lease": True},
        InvalidArgument,
        "release_session_execution_lease",
    ),
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


def step(number: int) -> str:
    return IN_ORDER[number][1].__name__


@pytest.mark.scenario("COM-T14")
@pytest.mark.parametrize(
    ("first", "second"), list(itertools.combinations(range(len(IN_ORDER)), 2)), ids=step
)
def test_of_two_faults_the_first_decides(store: Any, lease: Any, first: int, second: int) -> None:
    (fault, error), (other, _) = IN_ORDER[first], IN_ORDER[second]

    with pytest.raises(error):
        attempt(store, lease, other, fault)


@pytest.mark.scenario("COM-T14")
@pytest.mark.parametrize("first", range(len(IN_ORDER)), ids=step)
def test_of_all_faults_left_the_first_decides(store: Any, lease: Any, first: int) -> None:
    with pytest.raises(IN_ORDER[first][1]):
        attempt(store, lease, *(fault for fault, _ in IN_ORDER[first:]))


@pytest.mark.scenario("COM-T14")
def test_what_is_wrong_in_itself_comes_before_all_that_is_stored(store: Any, lease: Any) -> None:
    with pytest.raises(InvalidArgument):
        attempt(store, lease, STATIC, REPLAYED, UNLEASED, BEHIND, DANGLING, UNSTORED)


@pytest.mark.scenario("COM-T14")
@pytest.mark.parametrize("first", STATIC_ORDER)
def test_of_what_is_wrong_in_itself_the_first_decides(store: Any, lease: Any, first: str) -> None:
    names = list(STATIC_ORDER)
    _, error, field = STATIC_ORDER[first]

    with pytest.raises(error) as refused:
        attempt(store, lease, *(STATIC_ORDER[name][0] for name in names[names.index(first) :]))

    assert getattr(refused.value, "field", None) == field


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
