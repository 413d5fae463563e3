"""INP-12 to INP-14: what a commit completes and defers, and what is taken back from the dead."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast import (
    ActiveTurn,
    HeadRevisionConflict,
    InvalidArgument,
    LeaseLost,
    NextTurn,
    TurnInputClaimSuperseded,
    TurnInputCompletion,
)
from holdfast.testing.clock import ManualClock
from holdfast.testing.contract.lanes import (
    ENDINGS,
    cancel_one,
    mortal,
    pending,
    renewed,
    settle,
    states,
    submit,
    succeeded,
    taken_over,
    texts,
)
from holdfast.testing.contract.samples import ALICE, BOB, chain, lease_on, put, turn
from holdfast.testing.world import World


@pytest.mark.scenario("INP-T11")
@pytest.mark.parametrize("stamped", [False, True], ids=["unstamped", "stamped"])
def test_a_terminal_commit_completes_its_claim_and_defers_the_rest(
    store: Any, stamped: bool
) -> None:
    submit(store, "accepted", "t1")
    submit(store, "before completion", "t1", boundary="before_completion")
    lease = lease_on(store, "s1")
    claim = store.inputs.claim_active(lease, "t1", "after_work")
    submit(store, "other turn", "t2")
    submit(store, "unaccepted", "t1")
    fields = {"turn_commit": turn("t1")} if stamped else {}

    settle(
        store,
        lease,
        completed_turn_input_claims=[claim],
        interrupted_turn_input_turn_id="t1",
        **fields,
    )

    left = store.inputs.list_pending("s1")
    assert texts(left) == ["before completion", "other turn", "unaccepted"]
    assert [each.ingress for each in left] == [NextTurn(), ActiveTurn("t2"), NextTurn()]
    assert [each.submitted_ingress for each in left] == [
        ActiveTurn("t1", "before_completion"),
        ActiveTurn("t2"),
        ActiveTurn("t1"),
    ]
    assert states(store)["accepted"] == "completed"
    assert texts(store.inputs.claim_next(lease).inputs) == ["before completion", "unaccepted"]


@pytest.mark.scenario("INP-T12")
def test_what_is_deferred_while_claimed_can_be_claimed_again_under_the_same_lease(
    store: Any,
) -> None:
    submit(store, "hi", "t", input_id="hi")
    lease = lease_on(store, "s1")
    accepted = store.inputs.claim_active(lease, "t", "after_work")

    settle(store, lease, interrupted_turn_input_turn_id="t")
    claim = store.inputs.claim_next(lease)

    assert (claim.input_ids, claim.claim_count) == (["hi"], 2)
    with pytest.raises(TurnInputClaimSuperseded):
        settle(store, lease, completed_turn_input_claims=[accepted])
    settle(store, lease, completed_turn_input_claims=[claim])


def test_what_was_cancelled_or_completed_is_not_deferred(store: Any) -> None:
    submit(store, "cancelled", "t1", input_id="i")
    submit(store, "completed", "t1")
    cancel_one(store, "i")
    lease = lease_on(store, "s1")
    claim = store.inputs.claim_active(lease, "t1", "after_work")
    settle(store, lease, completed_turn_input_claims=[claim])
    before = store.inputs.list("s1")

    settle(store, lease, interrupted_turn_input_turn_id="t1")

    assert store.inputs.list("s1") == before
    assert states(store) == {"cancelled": "cancelled", "completed": "completed"}


def test_a_deferral_leaves_other_turns_and_the_next_one_alone(store: Any) -> None:
    submit(store, "other", "t2")
    submit(store, "next")
    submit(store, "elsewhere", "t1", session_id="s2")
    lease = lease_on(store, "s1")
    store.inputs.claim_active(lease, "t2", "after_work")
    before = [store.inputs.list("s1"), store.inputs.list("s2")]

    settle(store, lease, interrupted_turn_input_turn_id="t1")

    assert [store.inputs.list("s1"), store.inputs.list("s2")] == before


def test_a_refused_commit_completes_and_defers_nothing(world: World, store: Any) -> None:
    submit(store, "a", "t1")
    submit(store, "b", "t1", boundary="before_completion")
    lease = lease_on(store, "s1")
    claim = store.inputs.claim_active(lease, "t1", "after_work")
    before = world.dump(store)

    with pytest.raises(HeadRevisionConflict):
        settle(
            store,
            lease,
            expected_head_revision=7,
            completed_turn_input_claims=[claim],
            interrupted_turn_input_turn_id="t1",
        )

    assert world.dump(store) == before


class TestCompletion:
    """INP-12: a completion owns exactly its rows, whatever became of the generation."""

    @pytest.fixture
    def claim(self, store: Any) -> Any:
        submit(store, "a", input_id="a")
        submit(store, "b", input_id="b")
        self.lease = lease_on(store, "s1")
        return store.inputs.claim_next(self.lease)

    def complete(self, store: Any, claim: Any, **changed: Any) -> Any:
        given = {
            "session_id": "s1",
            "claim_id": claim.claim_id,
            "claim_token": claim.claim_token,
            "input_ids": claim.input_ids,
        }
        completion = TurnInputCompletion(**given | changed)
        return settle(store, self.lease, completed_turn_input_claims=[completion])

    def test_what_is_left_of_a_claim_completes_it(self, store: Any, claim: Any) -> None:
        self.complete(store, claim, input_ids=["b", "a"])

        assert states(store) == {"a": "completed", "b": "completed"}
        (first, _) = store.inputs.list("s1")
        assert (first.claim.claim_id, first.claim.claim_owner) == (None, None)

    def test_it_may_not_leave_any_of_its_inputs(self, store: Any, claim: Any) -> None:
        with pytest.raises(InvalidArgument) as refused:
            self.complete(store, claim, input_ids=["a"])

        assert (refused.value.field, refused.value.reason) == ("input_ids", "partial completion")
        assert states(store) == {"a": "deferred_next_turn", "b": "deferred_next_turn"}

    @pytest.mark.parametrize(
        ("changed", "unowned"),
        [
            ({"claim_token": "guessed"}, ["a", "b"]),
            ({"claim_id": "tic:1:7"}, ["a", "b"]),
            ({"input_ids": ["a", "b", "c"]}, ["c"]),
        ],
    )
    def test_what_it_does_not_own_is_named(
        self, store: Any, claim: Any, changed: Any, unowned: list[str]
    ) -> None:
        with pytest.raises(TurnInputClaimSuperseded) as refused:
            self.complete(store, claim, **changed)

        assert refused.value.unowned_input_ids == unowned
        assert refused.value.claim_id == changed.get("claim_id", claim.claim_id)
        assert set(states(store).values()) == {"deferred_next_turn"}

    def test_a_claim_nobody_took_since_can_be_settled_under_a_later_lease(
        self, store: Any, clock: ManualClock, claim: Any
    ) -> None:
        self.lease = renewed(store, clock, self.lease)

        self.complete(store, claim)

        assert states(store) == {"a": "completed", "b": "completed"}

    def test_a_commit_without_a_lease_settles_it_too(
        self, store: Any, clock: ManualClock, claim: Any
    ) -> None:
        clock.advance(30_000)

        put(store, "s1", completed_turn_input_claims=[claim], graph=chain("a"))

        assert states(store) == {"a": "completed", "b": "completed"}

    def test_a_cancelled_input_is_not_the_claims_any_more(
        self, store: Any, clock: ManualClock, claim: Any
    ) -> None:
        clock.advance(30_000)
        cancel_one(store, "a")
        self.lease = lease_on(store, "s1", BOB)

        with pytest.raises(TurnInputClaimSuperseded) as refused:
            self.complete(store, claim)

        assert refused.value.unowned_input_ids == ["a"]


@pytest.fixture
def vanished(store: Any, clock: ManualClock, request: pytest.FixtureRequest) -> Any:
    """Accepted inputs of two turns whose owner is gone; the lease of whoever came after."""
    end = getattr(request, "param", ENDINGS[1])
    submit(store, "mine", "t", input_id="mine")
    submit(store, "another", "t2", input_id="another")
    lease = lease_on(store, "s1", mortal() if end is taken_over else ALICE)
    for turn_id in ("t", "t2"):
        assert store.inputs.claim_active(lease, turn_id, "after_work")
    return succeeded(store, clock, lease, end)


@pytest.mark.scenario("INP-T13")
@pytest.mark.parametrize("vanished", ENDINGS, indirect=True)
def test_what_a_vanished_owner_accepted_is_deferred_by_a_later_commit(
    store: Any, vanished: Any
) -> None:
    assert pending(store) == []

    settle(store, vanished, interrupted_turn_input_turn_id="t", turn_commit=turn("t"))

    assert states(store) == {"mine": "deferred_next_turn", "another": "accepted"}
    (deferred,) = store.inputs.list_pending("s1")
    assert (deferred.input_id, deferred.ingress) == ("mine", NextTurn())
    assert store.inputs.claim_next(vanished).input_ids == ["mine"]


@pytest.mark.scenario("INP-T13")
@pytest.mark.parametrize("vanished", ENDINGS, indirect=True)
def test_recovery_returns_a_turns_inputs_to_it_and_defers_the_others(
    store: Any, vanished: Any
) -> None:
    found = store.inputs.recover_orphaned(vanished, "t")

    assert [each.input_id for each in found] == ["mine", "another"]
    assert [each.state for each in found] == ["pending_active", "deferred_next_turn"]
    assert [each.ingress for each in found] == [ActiveTurn("t"), NextTurn()]
    assert store.inputs.list_pending("s1") == found
    claim = store.inputs.claim_active(vanished, "t", "after_work")
    assert (claim.input_ids, claim.claim_count) == (["mine"], 2)
    assert store.inputs.claim_next(vanished).input_ids == ["another"]


@pytest.mark.usefixtures("vanished")
def test_without_a_turn_recovery_defers_everything(store: Any) -> None:
    found = store.inputs.recover_orphaned(lease_on(store, "s1", BOB))

    assert {each.state for each in found} == {"deferred_next_turn"}
    assert store.inputs.list_pending("s1") == found
    assert texts(found) == ["mine", "another"]


@pytest.mark.scenario("INP-T14")
def test_recovery_leaves_what_the_live_generation_has(store: Any, vanished: Any) -> None:
    submit(store, "new", "t3", input_id="new")
    claim = store.inputs.claim_active(vanished, "t3", "after_work")

    found = store.inputs.recover_orphaned(vanished, "t3")

    assert [each.input_id for each in found] == ["mine", "another"]
    assert states(store)["new"] == "accepted"
    assert store.inputs.recover_orphaned(vanished, "t3") == []
    settle(store, vanished, completed_turn_input_claims=[claim])


@pytest.mark.usefixtures("vanished")
def test_only_the_live_lease_recovers(world: World, store: Any, clock: ManualClock) -> None:
    lease = lease_on(store, "s1", BOB)
    clock.advance(30_000)
    before = world.dump(store)

    with pytest.raises(LeaseLost) as lost:
        store.inputs.recover_orphaned(lease)

    assert lost.value.reason == "expired"
    assert world.dump(store) == before


def test_what_was_recovered_is_no_longer_the_old_claims(store: Any, clock: ManualClock) -> None:
    submit(store, "hi", "t")
    first = lease_on(store, "s1")
    claim = store.inputs.claim_active(first, "t", "after_work")
    lease = renewed(store, clock, first)
    store.inputs.recover_orphaned(lease, "t")

    with pytest.raises(TurnInputClaimSuperseded):
        settle(store, lease, completed_turn_input_claims=[claim])
    assert store.inputs.abandon(claim) == 0
    assert states(store) == {"hi": "pending_active"}
