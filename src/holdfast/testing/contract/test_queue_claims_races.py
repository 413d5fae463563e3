"""Section 11.3 under contention: no batch to two callers, no half of a selection (QUE-16)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from holdfast import LeaseLost, QueuedWorkClaim, QueuedWorkClaimSuperseded
from holdfast.testing.contract import children
from holdfast.testing.contract.lanes import TTL_MS, enqueue, names, queued, settle
from holdfast.testing.contract.samples import ALICE, BOB, lease_on
from holdfast.testing.contract.test_inputs_races import stores
from holdfast.testing.processes import spawn
from holdfast.testing.world import World, racing

JOINS: dict[str, Any] = {"slot_policy": "join", "merge_key": "payload_default"}
LONG_MS = 10_000_000


@pytest.mark.scenario("QUE-T25")
@pytest.mark.parametrize("kind", ["first", "command", "exactly"])
def test_of_two_claimants_with_one_lease_one_wins(world: World, kind: str) -> None:
    own = stores(world, 2)
    lease = lease_on(own[0], "s1", ttl_ms=LONG_MS)
    payload = {"type": "session_command" if kind == "command" else "tick", "name": "a"}
    for _ in range(20):
        batch_id = enqueue(own[0], payloads=[payload]).batch_id

        def act(who: int, batch_id: str = batch_id) -> Any:
            at = own[who].queue
            if kind == "exactly":
                return at.claim_exactly(lease, "idle", [batch_id])
            return at.claim_command(lease) if kind == "command" else at.claim(lease)

        answers = racing(2, act)

        winner, loser = sorted(answers, key=lambda answer: answer is None)
        assert (winner.batch_ids, winner.claim_count, loser) == ([batch_id], 1, None)


@pytest.mark.scenario("QUE-T25")
def test_of_a_racing_claim_and_cancel_one_wins(world: World) -> None:
    claimer, canceller = stores(world, 2)
    lease = lease_on(claimer, "s1", ttl_ms=LONG_MS)
    for number in range(30):
        batch_id = enqueue(claimer).batch_id

        def act(who: int, batch_id: str = batch_id, first: int = number % 2) -> Any:
            if who == first:
                return canceller.queue.cancel("s1", batch_id)
            return claimer.queue.claim(lease)

        answers = racing(2, act)
        removed, claim = answers if number % 2 == 0 else reversed(answers)

        if claim is None:
            assert removed.batch_id == batch_id
            assert queued(claimer) == []
        else:
            assert (claim.batch_ids, removed) == ([batch_id], None)
            settle(claimer, lease, completed_queue_claims=[claim])


@pytest.mark.invariant("INV-39")
def test_racing_claims_never_grant_a_batch_twice(world: World) -> None:
    own = stores(world, 4)
    for number in range(32):
        enqueue(own[0], str(number), **JOINS)
    lease = lease_on(own[0], "s1", ttl_ms=LONG_MS)

    claims = racing(8, lambda n: [own[n % 4].queue.claim(lease, "idle", 2) for _ in range(4)])

    granted = [name for mine in claims for claim in mine if claim for name in names(claim.batches)]
    assert sorted(granted, key=int) == [str(number) for number in range(32)]
    assert own[0].queue.claim(lease) is None


def test_a_claim_racing_the_next_lease_gets_work_that_nobody_else_settles(world: World) -> None:
    old_holder, new_holder = stores(world, 2)
    for _ in range(15):
        batch_id = enqueue(old_holder).batch_id
        old = lease_on(old_holder, "s1", ALICE, TTL_MS)
        world.clock.advance(TTL_MS - 1)

        def act(who: int, old: Any = old) -> Any:
            if who == 0:
                return old_holder.queue.claim(old)
            world.clock.advance(1)
            lease = lease_on(new_holder, "s1", BOB)
            return lease, new_holder.queue.claim(lease)

        stale, (lease, claim) = racing(2, act)

        assert claim.batch_ids == [batch_id]
        if isinstance(stale, QueuedWorkClaim):
            assert claim.claim_count == stale.claim_count + 1
            with pytest.raises(QueuedWorkClaimSuperseded):
                settle(old_holder, lease, completed_queue_claims=[stale])
        else:
            assert isinstance(stale, LeaseLost)
        settle(new_holder, lease, completed_queue_claims=[claim])
        new_holder.sessions.release_lease(lease)


@pytest.mark.scenario("QUE-T32")
def test_of_three_selected_while_one_is_cancelled_all_or_none_are_claimed(world: World) -> None:
    claimer, canceller = stores(world, 2)
    lease = lease_on(claimer, "s1", ttl_ms=LONG_MS)
    for number in range(30):
        chosen = [enqueue(claimer, str(each), **JOINS).batch_id for each in range(3)]

        def act(who: int, chosen: list[str] = chosen, number: int = number) -> Any:
            if who == number % 2:
                return canceller.queue.cancel("s1", chosen[number % 3])
            return claimer.queue.claim_exactly(lease, "idle", chosen)

        answers = racing(2, act)
        removed, claim = answers if number % 2 == 0 else reversed(answers)

        if claim is None:
            assert removed.batch_id == chosen[number % 3]
            assert len(claimer.queue.list_pending("s1")) == 2
            claim = claimer.queue.claim(lease, "idle", 3)
        else:
            assert (claim.batch_ids, removed) == (chosen, None)
        settle(claimer, lease, completed_queue_claims=[claim])


def test_overlapping_selections_are_never_taken_in_part(world: World) -> None:
    own = stores(world, 3)
    lease = lease_on(own[0], "s1", ttl_ms=LONG_MS)
    for _ in range(10):
        ids = [enqueue(own[0], str(each), **JOINS).batch_id for each in range(4)]
        selections = [ids[:3], ids[1:], [ids[0], ids[3]]]

        def act(who: int, chosen: list[list[str]] = selections) -> Any:
            return own[who].queue.claim_exactly(lease, "idle", chosen[who])

        claims = racing(3, act)

        (won,) = [who for who in range(3) if claims[who] is not None]
        assert claims[won].batch_ids == selections[won]
        own[0].queue.abandon(claims[won])
        for batch_id in ids:
            assert own[0].queue.cancel("s1", batch_id) is not None


def test_racing_returns_of_one_claim_free_each_batch_once(world: World) -> None:
    own = stores(world, 4)
    for number in range(5):
        enqueue(own[0], str(number), **JOINS)
    claim = own[0].queue.claim(lease_on(own[0], "s1"), "idle", 5)

    freed = racing(8, lambda n: own[n % 4].queue.abandon(claim))

    assert sorted(freed) == [0] * 7 + [5]


@pytest.mark.invariant("INV-40")
def test_of_racing_commits_of_one_claim_one_settles_it(world: World) -> None:
    own = stores(world, 4)
    enqueue(own[0])
    lease = lease_on(own[0], "s1")
    claim = own[0].queue.claim(lease)

    answers = racing(4, lambda n: settle(own[n], lease, completed_queue_claims=[claim]))

    refused = [each for each in answers if isinstance(each, QueuedWorkClaimSuperseded)]
    assert len(refused) == 3
    assert own[0].sessions.load("s1").head_revision == 1


@pytest.mark.invariant("INV-35")
def test_racing_returns_over_several_sessions_never_lock_each_other_out(world: World) -> None:
    own = stores(world, 2)
    sessions = [f"s{number}" for number in range(6)]
    leases = {id: lease_on(own[0], id, ttl_ms=LONG_MS) for id in sessions}
    for id in sessions:
        enqueue(own[0], session_id=id)

    for _ in range(10):
        claims = [own[0].queue.claim(leases[id]) for id in sessions]

        def act(who: int, given: list[Any] = claims) -> Any:
            return own[who].queue.abandon_many(given[:: 1 if who else -1])

        assert sorted(racing(2, act)) == [0, 6]


#: What each enqueuer puts into the queue: how many, how many at a time, and how large. Some take
#: long to store, and small ones come in between.
ENQUEUERS = {"small": (100, 1, 1), "large": (40, 4, 200_000)}


@pytest.mark.scenario("QUE-T28")
def test_work_from_several_processes_is_claimed_in_the_order_of_its_numbers(world: World) -> None:
    store = world.open()
    lease = lease_on(store, "s1", ttl_ms=LONG_MS)
    enqueuers = started(world, store)
    deadline = time.monotonic() + 60

    drained: list[Any] = []
    while len(drained) < sum(count for count, *_ in ENQUEUERS.values()):
        assert time.monotonic() < deadline
        claim = store.queue.claim(lease)
        drained += claim.batches if claim else []

    for end in enqueuers:
        end()
    numbers = [batch.enqueue_seq for batch in drained]
    assert numbers == sorted(numbers)
    for who, (count, *_) in ENQUEUERS.items():
        mine = [name for name in names(drained) if name.startswith(f"{who}-")]
        assert mine == [f"{who}-{number}" for number in range(count)]


def started(world: World, store: Any) -> list[Callable[[], Any]]:
    """Let enqueuers go: processes, or threads where only this one has the database."""
    if not world.is_durable:
        act = children.enqueue_in_portions
        threads = [
            threading.Thread(target=act, args=(store, who, *sizes))
            for who, sizes in ENQUEUERS.items()
        ]
        for thread in threads:
            thread.start()
        return [thread.join for thread in threads]
    processes = [
        spawn(world, children.enqueue_in_portions, who, *sizes) for who, sizes in ENQUEUERS.items()
    ]
    for process in processes:
        process.await_ready()
    for process in processes:
        process.go()
    return [process.result for process in processes]
