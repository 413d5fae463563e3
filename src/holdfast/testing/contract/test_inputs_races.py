"""Section 12 under contention: one record a key, one holder an input."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.testing.contract.lanes import cancel_one, said, states, submit, texts
from holdfast.testing.contract.samples import lease_on
from holdfast.testing.world import World, racing


def stores(world: World, count: int) -> list[Any]:
    """Stores of their own on the database where it can have several."""
    if not world.is_durable:
        return [world.open()] * count
    return [world.open() for _ in range(count)]


@pytest.mark.invariant("INV-42")
@pytest.mark.scenario("INP-T1")
def test_racing_identical_submissions_make_one_record(world: World) -> None:
    own = stores(world, 4)

    found = racing(12, lambda n: submit(own[n % 4], "hi", "t1", source_key="k"))

    assert found == [found[0]] * 12
    assert own[0].inputs.list_pending("s1") == [found[0]]


@pytest.mark.invariant("INV-41")
def test_sequences_rise_in_the_order_of_answers(world: World) -> None:
    own = stores(world, 4)

    racing(
        4, lambda n: [submit(own[n], f"{n}-{each}", input_id=f"{n}-{each}") for each in range(8)]
    )

    listed = own[0].inputs.list_pending("s1")
    assert len(listed) == 32
    for number in range(4):
        mine = [text for text in texts(listed) if text.startswith(f"{number}-")]
        assert mine == [f"{number}-{each}" for each in range(8)]


@pytest.mark.invariant("INV-40")
@pytest.mark.scenario("INP-T15")
@pytest.mark.parametrize("mode", ["next", "active"])
def test_of_a_racing_claim_and_cancel_one_wins(world: World, mode: str) -> None:
    claimer, canceller = stores(world, 2)
    turn_id = "t" if mode == "active" else None
    lease = lease_on(claimer, "s1", ttl_ms=10_000_000)
    for number in range(30):
        input_id = f"i{number}"
        submit(claimer, input_id, turn_id, input_id=input_id)

        def act(who: int, input_id: str = input_id) -> Any:
            if who == number % 2:  # noqa: B023
                return cancel_one(canceller, input_id)
            if mode == "active":
                return claimer.inputs.claim_active(lease, "t", "after_work")
            return claimer.inputs.claim_next(lease)

        answers = racing(2, act)
        outcome, claim = answers if number % 2 == 0 else reversed(answers)

        if claim is None:
            assert outcome.outcome == "cancelled"
            assert states(claimer)[input_id] == "cancelled"
        else:
            assert claim.input_ids == [input_id]
            assert (outcome.outcome, outcome.claim.claim_id) == ("already_claimed", claim.claim_id)


def test_racing_claims_never_grant_an_input_twice(world: World) -> None:
    own = stores(world, 4)
    for number in range(24):
        own[0].inputs.enqueue(said(str(number), input_id=str(number)))
    lease = lease_on(own[0], "s1")

    claims = racing(8, lambda n: [own[n % 4].inputs.claim_next(lease, 2) for _ in range(4)])

    granted = [id for taken in claims for claim in taken if claim for id in claim.input_ids]
    assert sorted(granted, key=int) == [str(number) for number in range(24)]
    assert own[0].inputs.claim_next(lease) is None


def test_of_racing_cancellations_one_did_it(world: World) -> None:
    own = stores(world, 4)
    submit(own[0], "hi", input_id="i")

    found = racing(8, lambda n: cancel_one(own[n % 4], "i").outcome)

    assert sorted(found) == ["already_cancelled"] * 7 + ["cancelled"]
