"""Section 16 for queued work: what each operation costs, in round trips and in statements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import holdfast
from holdfast import Lease
from holdfast.testing.contract.lanes import enqueue, settle, submit, work
from holdfast.testing.contract.samples import chain, checkpoint, lease_on, turn
from holdfast.testing.wire import CountingProxy
from holdfast.testing.world import World

#: What is done by somebody who holds the session's lease, where `n` batches of each kind wait.
Act = Callable[[Any, Lease, int], Any]

ONE: dict[str, Act] = {
    "enqueue": lambda store, _, n: enqueue(store, "new", source_key=f"new {n}"),
    "enqueue of many payloads": lambda store, _, n: enqueue(
        store, payloads=[{"type": "tick", "name": "new"}] * n
    ),
    "enqueue many": lambda store, _, n: store.queue.enqueue_many(
        [work("new", session_id=f"many {each}") for each in range(n)]
    ),
    "enqueue many with keys": lambda store, _, n: store.queue.enqueue_many(
        [work("new", source_key=f"many {each}") for each in range(n)]
    ),
    "enqueue many known keys": lambda store, _, n: store.queue.enqueue_many(
        [work("joins", source_key=f"joins {each}") for each in range(n)]
    ),
    "list": lambda store, _, n: store.queue.list("s1", limit=n),
    "list pending": lambda store, _, n: store.queue.list_pending("s1", limit=n),
    "ready sessions": lambda store, _, n: store.queue.ready_sessions(limit=n),
    "next instant": lambda store, *_: store.queue.next_ready_at_ms(),
    "cancel": lambda store, *_: store.queue.cancel("s1", store.waiting[0]),
    "claim": lambda store, lease, n: store.queue.claim(lease, "active_turn_checkpoint", n),
    "claim of nothing": lambda store, *_: store.queue.claim(store.free, "idle", 5),
    "claim a command": lambda store, *_: store.queue.claim_command(store.commanded),
    "claim exactly": lambda store, lease, _: store.queue.claim_exactly(
        lease, "idle", store.waiting
    ),
    "claim exactly nothing": lambda store, lease, n: store.queue.claim_exactly(
        lease, "idle", [f"qwb:{each}" for each in range(n)]
    ),
    "abandon": lambda store, *_: store.queue.abandon(store.taken),
    "abandon many": lambda store, *_: store.queue.abandon_many(store.singles),
    "checkpoint without anything": lambda store, _, n: store.queue.claim_at_checkpoint(
        store.free, "t", "after_work", n, n
    ),
}
TWO: dict[str, Act] = {
    "checkpoint": lambda store, lease, n: store.queue.claim_at_checkpoint(
        lease, "t", "after_work", 0, n
    ),
    "commit of completions and outbox": lambda store, lease, n: settle(
        store,
        lease,
        completed_queue_claims=[store.taken],
        enqueued_queue_batches=[work("out", source_key=f"out {each}") for each in range(n)],
    ),
    "commit of everything": lambda store, lease, n: settle(
        store,
        lease,
        graph=chain(*(f"n{each}" for each in range(n))),
        checkpoint=checkpoint(),
        turn_commit=turn("t1"),
        completed_queue_claims=[store.taken],
        interrupted_turn_input_turn_id="t",
        enqueued_queue_batches=[work("out") for _ in range(n)],
        release_session_execution_lease=True,
    ),
}


#: What needs sessions of their own for its batches, which take long to make.
SPREAD = {"ready sessions", "abandon many"}


class Furnished:
    """A store with so many batches of each kind: taken, waiting, and in sessions of their own."""

    def __init__(self, store: Any, count: int, *, spread: bool) -> None:
        self.store, each = store, range(count)
        for session_id in ("s1", "commands", "free"):
            store.sessions.delete(session_id, force=True)
        joins: dict[str, Any] = {"slot_policy": "join", "merge_key": "payload_default"}
        early = {"delivery_policy": "earliest_safe_boundary", **joins}
        store.queue.enqueue_many([work("taken", **joins) for _ in each])
        self.lease = lease_on(store, "s1")
        self.taken = store.queue.claim(self.lease, "idle", count)
        drafts = [work("joins", source_key=f"joins {number}", **early) for number in each]
        self.waiting = [outcome.batch_id for outcome in store.queue.enqueue_many(drafts)]
        enqueue(
            store,
            session_id="commands",
            payloads=[{"type": "session_command", "name": "command"}],
        )
        submit(store, "hi", "t")
        self.commanded, self.free = (lease_on(store, name) for name in ("commands", "free"))
        self.singles = self.claimed_singly(count) if spread else []

    def claimed_singly(self, count: int) -> list[Any]:
        """Claims of a batch each, in sessions of their own that nobody runs any more."""
        sessions = [f"single {number}" for number in range(count)]
        self.store.queue.enqueue_many([work("single", session_id=name) for name in sessions])
        claims = []
        for name in sessions:
            lease = lease_on(self.store, name)
            claims.append(self.store.queue.claim(lease))
            self.store.sessions.release_lease(lease)
        return claims

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)


def cost(
    world: World, store: Any, act: Act, count: int, *, spread: bool = False
) -> tuple[int, int]:
    """Trips and statements of an operation."""
    furnished = Furnished(store, count, spread=spread)
    counts = world.backend(store).counts
    counts.clear()
    act(furnished, furnished.lease, count)
    trips = counts.pop("trips", 0)
    del counts["transactions"]
    return trips, sum(counts.values())


@pytest.mark.scenario("BAK-T4")
@pytest.mark.parametrize("name", ONE | TWO)
def test_trips_and_statements_do_not_depend_on_the_number_of_batches(
    world: World, store: Any, name: str
) -> None:
    act = (ONE | TWO)[name]
    allowed = (1 if name in ONE else 2) if world.is_server else 0

    few, many = (cost(world, store, act, n, spread=name in SPREAD) for n in (1, 200))

    assert few == many
    assert few[0] == allowed


@pytest.mark.scenario("BAK-T4")
@pytest.mark.parametrize("count", [1, 200])
def test_what_the_operations_are_counted_on_is_really_done(store: Any, count: int) -> None:
    furnished = Furnished(store, count, spread=True)
    lease, n = furnished.lease, count

    assert len(furnished.taken.batches) == len(furnished.singles) == n
    assert ONE["abandon many"](furnished, lease, n) == n
    assert len(ONE["list"](furnished, lease, n)) == n
    assert len(ONE["list pending"](furnished, lease, n)) == n
    assert len(ONE["ready sessions"](furnished, lease, n)) == n
    assert len(ONE["claim a command"](furnished, lease, n).batches) == 1
    assert len(ONE["claim exactly"](furnished, lease, n).batches) == n
    assert TWO["commit of everything"](furnished, lease, n).head_revision == 1
    assert len(store.queue.list("s1", limit=1_000)) == 2 * n


@pytest.mark.scenario("BAK-T4")
@pytest.mark.parametrize(
    ("act", "trips"),
    [
        (lambda store, *_: enqueue(store, "joins", source_key="joins 0"), 2),
        (lambda store, *_: store.queue.cancel("s1", "qwb:unknown"), 1),
    ],
    ids=["a known key", "an unknown batch"],
)
def test_a_known_key_costs_one_trip_more(world: World, store: Any, act: Act, trips: int) -> None:
    assert cost(world, store, act, 3)[0] == (trips if world.is_server else 0)


@pytest.mark.scenario("BAK-T4")
def test_the_wire_carries_no_more_turns_than_were_counted(world: World) -> None:
    if not world.is_server:
        pytest.skip("an embedded store has no wire")
    turns = {}
    with CountingProxy(world.url) as proxy:
        store = holdfast.open(proxy.url, schema=world.schema, clock=world.clock, pool_size=1)
        for name, act in (ONE | TWO).items():
            furnished = Furnished(world.calm(store), 3, spread=name in SPREAD)
            proxy.turns = 0
            act(furnished, furnished.lease, 3)
            turns[name] = proxy.turns
        store.close()

    assert turns == dict.fromkeys(ONE, 1) | dict.fromkeys(TWO, 2)
