"""Section 16 for turn inputs: what each operation costs, in round trips and in statements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import holdfast
from holdfast import Lease, SourceKey
from holdfast.testing.contract.lanes import said, settle, submit, work
from holdfast.testing.contract.samples import chain, lease_on
from holdfast.testing.wire import CountingProxy
from holdfast.testing.world import World

#: What is done by somebody who holds the session's lease; `n` inputs of each kind are waiting.
Act = Callable[[Any, Lease, int], Any]

ONE: dict[str, Act] = {
    "submit": lambda store, _, n: submit(store, "new", "t", source_key=f"new {n}"),
    "list": lambda store, _, n: store.inputs.list("s1", limit=max(n, 1)),
    "list pending": lambda store, _, n: store.inputs.list_pending("s1", limit=max(n, 1)),
    "cancel": lambda store, _, n: store.inputs.cancel(
        "s1", [SourceKey(f"next {each}") for each in range(n)]
    ),
    "cancel a suffix": lambda store, _, n: store.inputs.cancel_suffix("s1", f"next {n - 1}"),
    "claim active": lambda store, lease, n: store.inputs.claim_active(lease, "t", "after_work", n),
    "claim next": lambda store, lease, n: store.inputs.claim_next(lease, n),
    "recover": lambda store, lease, _: store.inputs.recover_orphaned(lease, "t"),
    "checkpoint without anything": lambda store, lease, n: store.queue.claim_at_checkpoint(
        lease, "nobody's", "after_work", n, 0
    ),
}
TWO: dict[str, Act] = {
    "checkpoint": lambda store, lease, n: store.queue.claim_at_checkpoint(
        lease, "t", "after_work", n, n
    ),
    "commit of completions, deferral and outbox": lambda store, lease, n: settle(
        store,
        lease,
        graph=chain("a"),
        completed_turn_input_claims=[store.taken_inputs],
        completed_queue_claims=[store.taken_work],
        interrupted_turn_input_turn_id="t",
        enqueued_queue_batches=[work(f"{each}", source_key=f"out {each}") for each in range(n)],
    ),
}


class Furnished:
    """A store with so many inputs of each kind, some of them taken by whoever has the lease."""

    def __init__(self, store: Any, count: int) -> None:
        store.sessions.delete("s1", force=True)
        joins = {"slot_policy": "join", "merge_key": "payload_default", "session_id": "s1"}
        early = {"delivery_policy": "earliest_safe_boundary", **joins}
        for each in range(count):
            submit(store, "taken", input_id=f"taken {each}")
        store.queue.enqueue_many([work("taken", **joins)] * count)
        self.store = store
        self.lease = lease_on(store, "s1")
        self.taken_inputs = store.inputs.claim_next(self.lease, count)
        self.taken_work = store.queue.claim(self.lease, "idle", count)
        for each in range(count):
            store.inputs.enqueue(said("active", "t", source_key=f"active {each}"))
            key = f"next {each}"
            store.inputs.enqueue(said("next", input_id=key, source_key=key))
        store.queue.enqueue_many([work("joins", **early)] * count)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)


def cost(world: World, store: Any, act: Act, count: int) -> tuple[int, int]:
    """Trips and statements of an operation."""
    furnished = Furnished(store, count)
    counts = world.backend(store).counts
    counts.clear()
    act(furnished, furnished.lease, count)
    trips = counts.pop("trips", 0)
    del counts["transactions"]
    return trips, sum(counts.values())


@pytest.mark.scenario("BAK-T4")
@pytest.mark.parametrize("name", ONE | TWO)
def test_trips_and_statements_do_not_depend_on_the_number_of_inputs(
    world: World, store: Any, name: str
) -> None:
    act = (ONE | TWO)[name]
    allowed = (1 if name in ONE else 2) if world.is_server else 0

    few, many = (cost(world, store, act, count) for count in (1, 200))

    assert few == many
    assert few[0] == allowed


@pytest.mark.scenario("BAK-T4")
@pytest.mark.parametrize(
    ("act", "trips"),
    [
        (lambda store, *_: submit(store, "active", "t", source_key="active 0"), 2),
        (lambda store, *_: store.inputs.abandon(store.taken_inputs), 1),
        (lambda store, *_: store.inputs.abandon_many([store.taken_inputs] * 2), 1),
    ],
    ids=["a known key", "giving a claim back", "giving several back"],
)
def test_a_known_key_costs_one_trip_more_and_giving_back_none(
    world: World, store: Any, act: Act, trips: int
) -> None:
    assert cost(world, store, act, 3)[0] == (trips if world.is_server else 0)


@pytest.mark.scenario("BAK-T4")
def test_the_wire_carries_no_more_turns_than_were_counted(world: World) -> None:
    if not world.is_server:
        pytest.skip("an embedded store has no wire")
    turns = {}
    with CountingProxy(world.url) as proxy:
        store = holdfast.open(proxy.url, schema=world.schema, clock=world.clock, pool_size=1)
        for name, act in (ONE | TWO).items():
            furnished = Furnished(world.calm(store), 3)
            proxy.turns = 0
            act(furnished, furnished.lease, 3)
            turns[name] = proxy.turns
        store.close()

    assert turns == dict.fromkeys(ONE, 1) | dict.fromkeys(TWO, 2)
