"""Section 10: the session lease, several callers at once."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from holdfast import Acquired, Busy, Lease, LeaseLost, LeaseOwner
from holdfast.testing.contract.samples import ALICE, BOB, lease_on
from holdfast.testing.processes import spawn, together
from holdfast.testing.world import World, racing


def several(world: World, count: int) -> list[Any]:
    """Stores on the one database; in memory one store, which several threads use."""
    if world.is_durable:
        return [world.open() for _ in range(count)]
    return [world.open()] * count


def claim(store: Any, number: int) -> str:
    """Claim as an owner of one's own; the kind of outcome."""
    outcome = store.sessions.claim_lease("s1", LeaseOwner(f"o{number}", "1"), 30_000)
    return type(outcome).__name__


@pytest.mark.invariant("INV-11")
@pytest.mark.scenario("LEA-T12")
def test_of_racing_first_claims_exactly_one_acquires(world: World) -> None:
    stores = several(world, 4)

    outcomes = racing(4, lambda number: claim(stores[number], number))

    assert sorted(outcomes) == ["Acquired", "Busy", "Busy", "Busy"]
    assert stores[0].sessions.lease("s1").generation == 1


@pytest.mark.scenario("LEA-T12")
def test_of_processes_racing_for_the_first_claim_one_acquires(world: World) -> None:
    if world.is_durable:
        outcomes = together(*(spawn(world, claim, number) for number in range(2)))
    else:
        store = world.open()
        outcomes = racing(2, lambda number: claim(store, number))

    assert sorted(outcomes) == ["Acquired", "Busy"]


def taken_over_while_renewing(world: World, store: Any, held: Lease) -> Any:
    """What a renewal answers that began while a takeover was under way, and ended after it."""
    answers: list[Any] = []

    def renew() -> None:
        try:
            answers.append(store.sessions.renew_lease(held))
        except LeaseLost as lost:
            answers.append(lost)

    thread = threading.Thread(target=renew)
    with world.beneath(store) as run:
        run("BEGIN" if world.is_server else "BEGIN IMMEDIATE")
        run(
            "UPDATE {session} SET generation = generation + 1, owner_id = ?, token = ?",
            BOB.owner_id,
            "another token",
        )
        thread.start()
        time.sleep(0.1)  # time to reach the lock
        assert not answers
        run("COMMIT")
    thread.join()
    return answers[0]


@pytest.mark.scenario("LEA-T15")
def test_a_renewal_that_waited_for_a_takeover_reports_the_loss(world: World) -> None:
    store = world.open()
    held = lease_on(store, "s1", ALICE)

    answer = taken_over_while_renewing(world, store, held)

    assert isinstance(answer, LeaseLost)
    assert (answer.reason, answer.current_generation) == ("superseded", held.generation + 1)


@pytest.mark.scenario("LEA-T15")
def test_a_renewal_racing_a_claim_at_the_end_of_the_lease_never_has_both(world: World) -> None:
    stores = several(world, 2)
    for _ in range(10):
        held = lease_on(stores[0], "s1", ALICE)
        world.clock.advance(29_999)

        def act(number: int, held: Lease = held) -> Any:
            if number == 0:
                return stores[0].sessions.renew_lease(held)
            world.clock.advance(1)
            return stores[1].sessions.claim_lease("s1", BOB, 30_000)

        renewed, claimed = racing(2, act)

        assert isinstance(claimed, Acquired | Busy)
        assert isinstance(renewed, LeaseLost if isinstance(claimed, Acquired) else Lease)
        winner = claimed.lease if isinstance(claimed, Acquired) else renewed
        assert isinstance(winner, Lease)
        assert stores[0].sessions.lease("s1").owner == winner.owner
        assert stores[0].sessions.release_lease(winner)
