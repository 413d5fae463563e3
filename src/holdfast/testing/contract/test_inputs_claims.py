"""Section 12.4: claims of turn inputs, which live as long as the lease they were taken with."""

from __future__ import annotations

import re
from typing import Any

import pytest

from holdfast import InvalidArgument, LeaseLost, TurnInputClaimSuperseded, TurnInputCompletion
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
from holdfast.testing.contract.samples import ALICE, BOB, lease_on
from holdfast.testing.world import World

ATTACHED = {"text": "look", "attachments": [{"id": "a" * 64, "media_type": "image/png"}]}


@pytest.mark.scenario("INP-T7")
def test_inputs_for_the_next_turn_are_claimed_in_order_and_hidden(store: Any) -> None:
    submit(store, "first", input_id="i1")
    submit(store, input=ATTACHED, input_id="i2")
    lease = lease_on(store, "s1")

    claim = store.inputs.claim_next(lease)

    assert claim.input_ids == ["i1", "i2"]
    assert claim.inputs[1].input == ATTACHED
    assert {each.state for each in claim.inputs} == {"deferred_next_turn"}
    assert (claim.session_id, claim.owner, claim.claim_count) == ("s1", ALICE, 1)
    assert (claim.turn_id, claim.checkpoint) == (None, None)
    assert claim.session_lease_generation == lease.generation
    assert claim.claim_id == f"tic:{claim.inputs[0].enqueue_seq}:1"
    assert store.inputs.list_pending("s1") == []
    assert [cancel_one(store, id).outcome for id in ("i1", "i2")] == ["already_claimed"] * 2


@pytest.mark.scenario("INP-T7")
def test_an_abandoned_claim_is_over_and_the_next_one_counts_on(store: Any) -> None:
    submit(store, "first", input_id="i1")
    submit(store, "second", input_id="i2")
    lease = lease_on(store, "s1")
    first = store.inputs.claim_next(lease)

    assert store.inputs.abandon(first) == 2
    assert pending(store) == ["first", "second"]
    assert store.inputs.abandon(first) == 0
    second = store.inputs.claim_next(lease)

    assert (second.claim_count, second.input_ids) == (2, ["i1", "i2"])
    assert second.claim_id == f"tic:{second.inputs[0].enqueue_seq}:2"
    assert second.claim_token != first.claim_token
    with pytest.raises(TurnInputClaimSuperseded) as refused:
        settle(store, lease, completed_turn_input_claims=[first])
    assert refused.value.unowned_input_ids == ["i1", "i2"]
    assert store.inputs.abandon(first) == 0
    assert store.inputs.list_pending("s1") == []
    settle(store, lease, completed_turn_input_claims=[second])
    assert states(store) == {"first": "completed", "second": "completed"}


def test_an_abandoned_input_of_a_turn_pends_for_it_again(store: Any) -> None:
    record = submit(store, "hi", "t1", boundary="before_completion")
    lease = lease_on(store, "s1")
    claim = store.inputs.claim_active(lease, "t1", "before_completion")
    assert states(store) == {"hi": "accepted"}

    assert store.inputs.abandon(claim) == 1

    assert store.inputs.list_pending("s1") == [record]


def test_claims_of_several_sessions_are_given_back_together(store: Any) -> None:
    claims = []
    for session_id in ("s2", "s1"):
        submit(store, session_id, session_id=session_id)
        submit(store, session_id, "t1", session_id=session_id)
        lease = lease_on(store, session_id)
        claims.append(store.inputs.claim_next(lease))
        claims.append(store.inputs.claim_active(lease, "t1", "after_work"))

    assert store.inputs.abandon_many(claims[:3]) == 3
    assert store.inputs.abandon_many(claims) == 1
    assert store.inputs.abandon_many([]) == 0

    assert (pending(store, "s1"), pending(store, "s2")) == (["s1", "s1"], ["s2", "s2"])


def test_a_claim_is_given_back_with_the_right_token_only(store: Any) -> None:
    submit(store, "hi")
    claim = store.inputs.claim_next(lease_on(store, "s1"))
    given = {"session_id": "s1", "claim_id": claim.claim_id, "input_ids": claim.input_ids}

    forged = TurnInputCompletion(**given, claim_token="guessed")

    assert store.inputs.abandon(forged) == 0
    assert pending(store) == []


@pytest.mark.invariant("INV-39")
@pytest.mark.scenario("INP-T8")
@pytest.mark.parametrize("end", ENDINGS)
def test_the_next_generation_takes_what_a_lost_one_had(
    store: Any, clock: ManualClock, end: Any
) -> None:
    submit(store, "hi", input_id="i")
    first_lease = lease_on(store, "s1", mortal() if end is taken_over else ALICE)
    first = store.inputs.claim_next(first_lease)
    lease = succeeded(store, clock, first_lease, end)

    second = store.inputs.claim_next(lease)

    assert (second.input_ids, second.claim_count) == (["i"], 2)
    assert second.session_lease_generation == lease.generation > first_lease.generation
    with pytest.raises(TurnInputClaimSuperseded) as refused:
        settle(store, lease, completed_turn_input_claims=[first])
    assert (refused.value.claim_id, refused.value.unowned_input_ids) == (first.claim_id, ["i"])
    assert store.inputs.claim_next(lease) is None


@pytest.mark.scenario("INP-T8")
def test_one_generation_is_granted_an_input_once(store: Any) -> None:
    submit(store, "hi")
    lease = lease_on(store, "s1")
    assert store.inputs.claim_next(lease) is not None

    assert store.inputs.claim_next(lease) is None
    assert store.inputs.claim_next(store.sessions.renew_lease(lease)) is None


@pytest.mark.scenario("INP-T9")
@pytest.mark.parametrize("end", ENDINGS)
def test_when_its_lease_ends_a_claimed_input_pends_and_can_be_cancelled(
    store: Any, clock: ManualClock, end: Any
) -> None:
    record = submit(store, "hi", input_id="i")
    lease = lease_on(store, "s1", mortal() if end is taken_over else ALICE)
    store.inputs.claim_next(lease)
    assert store.inputs.list_pending("s1") == []

    end(store, clock, lease)

    assert store.inputs.list_pending("s1") == [record]
    assert cancel_one(store, "i").outcome == "cancelled"


@pytest.mark.scenario("INP-T10")
def test_a_checkpoint_takes_what_it_admits_and_skips_the_rest(store: Any) -> None:
    submit(store, "late", "t", boundary="before_completion")
    submit(store, "early", "t")
    submit(store, "other", "t2")
    submit(store, "next")
    lease = lease_on(store, "s1")

    early = store.inputs.claim_active(lease, "t", "after_work")
    late = store.inputs.claim_active(lease, "t", "before_completion")

    assert (texts(early.inputs), texts(late.inputs)) == (["early"], ["late"])
    assert (early.turn_id, early.checkpoint) == ("t", "after_work")
    assert (late.turn_id, late.checkpoint) == ("t", "before_completion")
    assert {each.state for each in early.inputs} == {"accepted"}
    assert pending(store) == ["other", "next"]
    assert store.inputs.claim_active(lease, "t", "before_completion") is None


@pytest.mark.scenario("INP-T10")
def test_the_last_checkpoint_admits_both_kinds(store: Any) -> None:
    submit(store, "late", "t", boundary="before_completion")
    submit(store, "early", "t")

    claim = store.inputs.claim_active(lease_on(store, "s1"), "t", "before_completion")

    assert texts(claim.inputs) == ["late", "early"]


def test_what_is_skipped_does_not_use_up_the_maximum(store: Any) -> None:
    for number in range(3):
        submit(store, f"late {number}", "t", boundary="before_completion")
    submit(store, "early", "t")
    submit(store, "early too", "t")
    lease = lease_on(store, "s1")

    assert texts(store.inputs.claim_active(lease, "t", "after_work", 1).inputs) == ["early"]


@pytest.mark.scenario("INP-T16")
def test_single_claims_reach_every_input_in_order(store: Any) -> None:
    for number in range(34):
        submit(store, str(number))
    lease = lease_on(store, "s1")

    taken = [store.inputs.claim_next(lease, 1) for _ in range(35)]

    assert taken.pop() is None
    assert [texts(claim.inputs) for claim in taken] == [[str(number)] for number in range(34)]


@pytest.mark.parametrize(
    "claim",
    [
        lambda at, lease, n: at.claim_next(lease, n),
        lambda at, lease, n: at.claim_active(lease, "t", "after_work", n),
    ],
    ids=["next", "active"],
)
class TestBounds:
    """What a claim may ask for, and under which lease."""

    def test_none_at_all_is_granted_unseen(self, world: World, store: Any, claim: Any) -> None:
        submit(store)
        lease = lease_on(store, "s1", ttl_ms=0)
        world.backend(store).counts.clear()

        assert claim(store.inputs, lease, 0) is None

        assert not +world.backend(store).counts

    def test_a_lost_lease_takes_nothing(
        self, world: World, store: Any, clock: ManualClock, claim: Any
    ) -> None:
        submit(store, "one", "t")
        submit(store, "two")
        lease = lease_on(store, "s1")
        clock.advance(30_000)
        before = world.dump(store)

        with pytest.raises(LeaseLost) as lost:
            claim(store.inputs, lease, 1)
        assert (lost.value.reason, lost.value.presented_generation) == ("expired", 1)

        assert world.dump(store) == before
        lease_on(store, "s1", BOB)
        with pytest.raises(LeaseLost) as lost:
            claim(store.inputs, lease, 1)
        assert lost.value.reason == "superseded"

    @pytest.mark.parametrize("maximum", [-1, 10_001, True, "1"])
    def test_a_number_that_is_none_is_refused(self, store: Any, claim: Any, maximum: Any) -> None:
        with pytest.raises(InvalidArgument) as refused:
            claim(store.inputs, lease_on(store, "s1"), maximum)

        assert refused.value.field == "max_inputs"


def test_only_the_claim_itself_shows_its_token(store: Any, clock: ManualClock) -> None:
    for text in ("a", "b"):
        submit(store, text, input_id=text)
    submit(store, "c", "t1", input_id="c")
    lease = lease_on(store, "s1")
    claims = [
        store.inputs.claim_next(lease),
        store.inputs.claim_active(lease, "t1", "after_work"),
    ]
    told: list[Any] = [
        *store.inputs.list("s1"),
        *store.inputs.cancel("s1", ["a", "c"]),
        *store.inputs.cancel_suffix("s1", "a"),
        *claims,
        [each.inputs for each in claims],
    ]
    renewed(store, clock, lease)
    with pytest.raises(LeaseLost) as lost:
        settle(store, lease, completed_turn_input_claims=claims)
    told += [lost.value, vars(lost.value)]

    assert all(re.fullmatch(r"[0-9a-f]{32}", each.claim_token) for each in claims)
    shown = repr(told) + "".join(map(str, told))
    assert not [each for each in claims if each.claim_token in shown]
    assert claims[0].claim_id in shown
