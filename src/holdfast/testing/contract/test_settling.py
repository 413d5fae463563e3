"""Section 6 and claims: a commit completes what it consumed, wholly or not at all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from holdfast import (
    InvalidArgument,
    QueuedWorkClaimSuperseded,
    QueuedWorkCompletion,
    RuntimeTurnCommitConflict,
    SessionBindingMismatch,
    TurnInputClaimSuperseded,
    TurnInputCompletion,
    UnsettledQueuedWorkClaim,
    UnsettledTurnInputClaim,
    turn_commit_hash,
)
from holdfast.testing.clock import ManualClock
from holdfast.testing.contract.lanes import (
    enqueue,
    names,
    queued,
    renewed,
    settle,
    states,
    submit,
    work,
)
from holdfast.testing.contract.samples import chain, commit, lease_on, path_ids, put, turn
from holdfast.testing.world import World


class Taken:
    """A session with a batch and an input claimed under one lease."""

    def __init__(self, store: Any, session_id: str = "s1") -> None:
        enqueue(store, "work", session_id=session_id)
        submit(store, "input", session_id=session_id)
        self.lease = lease_on(store, session_id)
        self.work = store.queue.claim(self.lease)
        self.inputs = store.inputs.claim_next(self.lease)

    @property
    def both(self) -> dict[str, Any]:
        """What completes them."""
        return {
            "completed_queue_claims": [self.work],
            "completed_turn_input_claims": [self.inputs],
        }


@pytest.fixture
def taken(store: Any) -> Taken:
    return Taken(store)


def test_what_was_claimed_is_completed_with_the_commit(store: Any, taken: Taken) -> None:
    assert (queued(store), states(store)) == (["work"], {"input": "deferred_next_turn"})

    done = settle(store, taken.lease, graph=chain("a"), **taken.both)

    assert (done.head_revision, done.enqueued_queue_batches) == (1, [])
    assert (queued(store), states(store)) == ([], {"input": "completed"})


@pytest.mark.invariant("INV-1")
@pytest.mark.scenario("COM-T10")
def test_a_stale_completion_takes_everything_with_it(
    world: World, store: Any, clock: ManualClock, taken: Taken
) -> None:
    lease = renewed(store, clock, taken.lease)
    fresh = store.queue.claim(lease)
    before = world.dump(store)
    whole = {"graph": chain("a"), "turn_commit": turn("t1")}

    with pytest.raises(QueuedWorkClaimSuperseded) as refused:
        settle(store, lease, **whole, **taken.both)

    told = refused.value
    assert (told.session_id, told.claim_id) == ("s1", taken.work.claim_id)
    assert told.unowned_batch_ids == taken.work.batch_ids
    assert world.dump(store) == before
    assert store.sessions.load("s1") is None
    done = settle(store, lease, **whole, **taken.both | {"completed_queue_claims": [fresh]})
    assert (done.replayed, done.head_revision, path_ids(store)) == (False, 1, ["a"])
    assert (queued(store), states(store)) == ([], {"input": "completed"})


def test_a_stale_completion_of_inputs_takes_everything_with_it(
    world: World, store: Any, taken: Taken
) -> None:
    store.inputs.abandon(taken.inputs)
    before = world.dump(store)

    with pytest.raises(TurnInputClaimSuperseded) as refused:
        settle(store, taken.lease, graph=chain("a"), turn_commit=turn("t1"), **taken.both)

    assert refused.value.unowned_input_ids == taken.inputs.input_ids
    assert world.dump(store) == before


@pytest.mark.scenario("COM-T11")
def test_a_draft_for_another_session_keeps_the_claims_open(
    world: World, store: Any, taken: Taken
) -> None:
    before = world.dump(store)

    with pytest.raises(SessionBindingMismatch) as refused:
        settle(
            store,
            taken.lease,
            enqueued_queue_batches=[work("mine"), work("theirs", session_id="s2")],
            **taken.both,
        )

    assert (refused.value.bound_session_id, refused.value.attempted_session_id) == ("s1", "s2")
    assert world.dump(store) == before
    settle(store, taken.lease, **taken.both)


class TestOriginatingClaims:
    """COM-T13: what a commit contains it has to settle."""

    def refuse(
        self, world: World, store: Any, error: type[Exception], claim_id: str, **fields: Any
    ) -> None:
        before = world.dump(store)
        world.backend(store).counts.clear()
        with pytest.raises(error) as refused:
            store.sessions.commit(commit("s1", **fields))
        told: Any = refused.value
        assert (told.session_id, told.claim_id) == ("s1", claim_id)
        assert not +world.backend(store).counts
        assert world.dump(store) == before

    @pytest.mark.scenario("COM-T13")
    @pytest.mark.parametrize("completed", [False, True], ids=["none", "the other family"])
    def test_unsettled_work_is_named_before_any_io(
        self, world: World, store: Any, taken: Taken, completed: bool
    ) -> None:
        other = {"completed_turn_input_claims": [taken.inputs]} if completed else {}
        fields = {"session_execution_lease": taken.lease, "originating_claims": [taken.work]}

        self.refuse(world, store, UnsettledQueuedWorkClaim, taken.work.claim_id, **fields, **other)

    @pytest.mark.scenario("COM-T13")
    @pytest.mark.parametrize("completed", [False, True], ids=["none", "the other family"])
    def test_unsettled_inputs_are_named_before_any_io(
        self, world: World, store: Any, taken: Taken, completed: bool
    ) -> None:
        other = {"completed_queue_claims": [taken.work]} if completed else {}
        fields = {"session_execution_lease": taken.lease, "originating_claims": [taken.inputs]}

        self.refuse(world, store, UnsettledTurnInputClaim, taken.inputs.claim_id, **fields, **other)

    @pytest.mark.scenario("COM-T13")
    def test_a_claim_of_another_session_is_not_settled_here(self, store: Any, taken: Taken) -> None:
        elsewhere = msgspec.structs.replace(taken.work, session_id="s2")

        with pytest.raises(UnsettledQueuedWorkClaim) as refused:
            settle(store, taken.lease, originating_claims=[elsewhere], **taken.both)

        assert (refused.value.session_id, refused.value.claim_id) == ("s2", taken.work.claim_id)

    def test_settled_ones_pass(self, store: Any, taken: Taken) -> None:
        settle(store, taken.lease, originating_claims=[taken.inputs, taken.work], **taken.both)

        assert (queued(store), states(store)) == ([], {"input": "completed"})

    def test_what_is_no_claim_is_refused(self, store: Any, taken: Taken) -> None:
        with pytest.raises(InvalidArgument) as refused:
            settle(store, taken.lease, originating_claims=[taken.lease])

        assert refused.value.field == "originating_claims[0]"


@pytest.mark.scenario("COM-T16")
@pytest.mark.parametrize("stamp", ["computed", "given"])
def test_work_claimed_again_makes_the_same_turn(
    store: Any, clock: ManualClock, taken: Taken, stamp: str
) -> None:
    def a_turn(now: Any, claims: dict[str, Any]) -> Any:
        return commit(
            "s1",
            session_execution_lease=now,
            graph=chain("a"),
            turn_commit=turn("t1"),
            originating_claims=[*claims["completed_queue_claims"]],
            **claims,
        )

    first = a_turn(taken.lease, taken.both)
    lease = renewed(store, clock, taken.lease)
    again = {
        "completed_queue_claims": [store.queue.claim(lease)],
        "completed_turn_input_claims": [store.inputs.claim_next(lease)],
    }
    assert again["completed_queue_claims"][0].claim_token != taken.work.claim_token
    second = a_turn(lease, again)
    assert turn_commit_hash(second) == turn_commit_hash(first)
    if stamp == "given":
        given = turn("t1", turn_commit_hash=turn_commit_hash(first))
        second = msgspec.structs.replace(second, turn_commit=given)

    assert not store.sessions.commit(second).replayed

    assert store.sessions.commit(first).replayed
    other = msgspec.structs.replace(first, completed_queue_claims=[], originating_claims=[])
    with pytest.raises(RuntimeTurnCommitConflict):
        store.sessions.commit(other)


@pytest.mark.invariant("INV-18")
def test_a_replay_settles_nothing_again(store: Any, taken: Taken) -> None:
    fields = {"turn_commit": turn("t1"), **taken.both}
    settle(store, taken.lease, **fields)
    enqueue(store, "later")
    submit(store, "later")

    assert settle(store, taken.lease, **fields).replayed

    assert queued(store) == ["later"]
    assert states(store) == {"input": "completed", "later": "deferred_next_turn"}


def test_a_commit_without_a_lease_settles_what_nobody_took_since(
    store: Any, clock: ManualClock, taken: Taken
) -> None:
    clock.advance(30_000)

    done = put(store, "s1", graph=chain("a"), **taken.both)

    assert done.head_revision == 1
    assert (queued(store), states(store)) == ([], {"input": "completed"})


def test_a_commit_without_a_lease_ends_the_claims_it_does_not_settle(
    store: Any, clock: ManualClock, taken: Taken
) -> None:
    clock.advance(30_000)

    put(store, "s1", completed_queue_claims=[taken.work])

    assert names(store.queue.list_pending("s1")) == []
    assert [each.input_id for each in store.inputs.list_pending("s1")] == taken.inputs.input_ids
    lease = lease_on(store, "s1")
    assert store.inputs.claim_next(lease).claim_count == 2


def work_of(**fields: Any) -> Callable[[Taken], dict[str, Any]]:
    def completing(_: Taken) -> dict[str, Any]:
        given = {"session_id": "s1", "claim_id": "c", "claim_token": "t", "batch_ids": ["b"]}
        return {"completed_queue_claims": [QueuedWorkCompletion(**given | fields)]}

    return completing


def inputs_of(**fields: Any) -> Callable[[Taken], dict[str, Any]]:
    def completing(_: Taken) -> dict[str, Any]:
        given = {"session_id": "s1", "claim_id": "c", "claim_token": "t", "input_ids": ["i"]}
        return {"completed_turn_input_claims": [TurnInputCompletion(**given | fields)]}

    return completing


WRONG: dict[str, tuple[Callable[[Taken], dict[str, Any]], type[Exception]]] = {
    "work of another session": (work_of(session_id="s2"), QueuedWorkClaimSuperseded),
    "inputs of another session": (inputs_of(session_id="s2"), TurnInputClaimSuperseded),
    "no batches": (work_of(batch_ids=[]), InvalidArgument),
    "no inputs": (inputs_of(input_ids=[]), InvalidArgument),
    "a batch twice": (work_of(batch_ids=["b", "b"]), InvalidArgument),
    "an input twice": (inputs_of(input_ids=["i", "i"]), InvalidArgument),
    "a claim twice": (lambda t: {"completed_queue_claims": [t.work, t.work]}, InvalidArgument),
    "inputs as work": (lambda t: {"completed_queue_claims": [t.inputs]}, InvalidArgument),
    "work as inputs": (lambda t: {"completed_turn_input_claims": [t.work]}, InvalidArgument),
    "no turn": (lambda _: {"interrupted_turn_input_turn_id": ""}, InvalidArgument),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_completion_wrong_in_itself_is_refused_before_any_io(
    world: World, store: Any, taken: Taken, name: str
) -> None:
    completing, error = WRONG[name]
    world.backend(store).counts.clear()

    with pytest.raises(error):
        settle(store, taken.lease, **completing(taken))

    assert not +world.backend(store).counts
