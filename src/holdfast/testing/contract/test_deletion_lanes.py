"""Section 3.3 and the lanes of work: what is enqueued around a deletion, and by whom."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from holdfast import Lease, QueuedWorkClaim, SessionDeleted, TurnInputClaim
from holdfast.testing.contract.lanes import enqueue, pending, queued, said, settle, submit, work
from holdfast.testing.contract.samples import ALICE, chain, create, lease_on, put
from holdfast.testing.world import World, racing

LANES = ("work", "turn_input", "readiness")


class Outlived(NamedTuple):
    """A view that was in use when its session was deleted, and what it held."""

    view: Any
    lease: Lease
    work: QueuedWorkClaim
    inputs: TurnInputClaim


@pytest.fixture
def outlived(store: Any) -> Outlived:
    view = create(store)
    view.queue.enqueue(work("before", source_key="k"))
    view.inputs.enqueue(said("before", source_key="k", input_id="i"))
    lease = view.claim_lease(ALICE, 30_000).lease
    held = Outlived(view, lease, view.queue.claim(lease), view.inputs.claim_next(lease))
    store.sessions.delete("s1", force=True)
    return held


ACTS: dict[str, Callable[[Outlived], Any]] = {
    "enqueue work": lambda o: o.view.queue.enqueue(work("late")),
    "enqueue known work": lambda o: o.view.queue.enqueue(work("before", source_key="k")),
    "list work": lambda o: o.view.queue.list(),
    "list pending work": lambda o: o.view.queue.list_pending(),
    "cancel work": lambda o: o.view.queue.cancel(o.work.batch_ids[0]),
    "claim work": lambda o: o.view.queue.claim(o.lease),
    "claim a command": lambda o: o.view.queue.claim_command(o.lease),
    "claim certain work": lambda o: o.view.queue.claim_exactly(o.lease, "idle", o.work.batch_ids),
    "claim at a checkpoint": lambda o: o.view.queue.claim_at_checkpoint(o.lease, "t", "after_work"),
    "abandon work": lambda o: o.view.queue.abandon(o.work),
    "submit": lambda o: o.view.inputs.enqueue(said("late")),
    "submit again": lambda o: o.view.inputs.enqueue(said("before", source_key="k")),
    "list inputs": lambda o: o.view.inputs.list(),
    "list pending inputs": lambda o: o.view.inputs.list_pending(),
    "cancel an input": lambda o: o.view.inputs.cancel(["i"]),
    "cancel a suffix": lambda o: o.view.inputs.cancel_suffix("i"),
    "claim a turn's inputs": lambda o: o.view.inputs.claim_active(o.lease, "t", "after_work"),
    "claim the next inputs": lambda o: o.view.inputs.claim_next(o.lease),
    "abandon inputs": lambda o: o.view.inputs.abandon(o.inputs),
    "recover": lambda o: o.view.inputs.recover_orphaned(o.lease),
    "prune receipts": lambda o: o.view.prune_settled_source_keys(0),
}


@pytest.mark.invariant("INV-32")
@pytest.mark.scenario("FAC-T7")
@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("again", [False, True], ids=["gone", "created_anew"])
def test_a_view_that_outlived_its_session_does_nothing(
    world: World, store: Any, outlived: Outlived, act: str, again: bool
) -> None:
    if again:
        submit(store, "anew", source_key="k", input_id="i")
        enqueue(store, "anew", source_key="k")
        lease_on(store, "s1")
    before = world.dump(store)

    with pytest.raises(SessionDeleted) as refused:
        ACTS[act](outlived)

    assert refused.value.session_id == "s1"
    assert world.dump(store) == before


@pytest.mark.scenario("FAC-T7")
def test_what_is_enqueued_by_id_belongs_to_the_new_session(
    world: World, store: Any, outlived: Outlived
) -> None:
    enqueue(store, "new", source_key="k")
    record = submit(store, "new", source_key="k", input_id="i")

    assert record.state == "deferred_next_turn"
    assert (queued(store), pending(store)) == (["new"], ["new"])
    assert [each.session_id for each in store.queue.ready_sessions()] == ["s1"]
    assert store.queue.abandon_many([outlived.work]) == 0
    assert store.inputs.abandon_many([outlived.inputs]) == 0
    lease = lease_on(store, "s1")
    assert lease.generation == 1
    assert store.queue.claim(lease).claim_count == 1
    store.maintenance.vacuum()
    assert [world.sql(store, f"SELECT count(*) FROM {{{lane}}}") for lane in LANES] == [[(1,)]] * 3  # noqa: S608


@pytest.mark.invariant("INV-31")
@pytest.mark.scenario("FAC-T6")
def test_a_receipt_does_not_outlive_its_session(store: Any) -> None:
    enqueue(store, "a", source_key="k")
    lease = lease_on(store, "s1")
    settle(store, lease, completed_queue_claims=[store.queue.claim(lease)])
    assert store.queue.enqueue(work("a", source_key="k")).settled

    store.sessions.delete("s1", force=True)

    assert store.queue.enqueue(work("a", source_key="k")).created


@pytest.mark.scenario("FAC-T17")
def test_each_lane_of_a_deleted_session_goes_in_batches(world: World, store: Any) -> None:
    for number in range(7):
        enqueue(store, str(number), source_key=str(number))
        submit(store, str(number), input_id=str(number))
    lease = lease_on(store, "s1")
    claims = [store.queue.claim(lease) for _ in range(4)]
    settle(store, lease, completed_queue_claims=claims)
    store.inputs.cancel("s1", ["0", "1"])
    enqueue(store, "other", session_id="s2")
    submit(store, "other", session_id="s2")

    store.sessions.delete("s1", force=True)

    assert (queued(store), store.inputs.list("s1")) == ([], [])
    assert [each.session_id for each in store.queue.ready_sessions()] == ["s2"]
    store.maintenance.vacuum(limit=2)
    assert [world.sql(store, f"SELECT count(*) FROM {{{lane}}}") for lane in LANES] == [[(1,)]] * 3  # noqa: S608
    assert (queued(store, "s2"), pending(store, "s2")) == (["other"], ["other"])


@pytest.mark.scenario("FAC-T19")
def test_deletions_racing_both_lanes_leave_only_what_came_later(world: World) -> None:
    stores = [world.open() for _ in range(3)] if world.is_durable else [world.open()] * 3
    create(stores[0], "keep")

    def act(number: int) -> None:
        store = stores[number % 3]
        for each in range(12):
            if number < 2:
                store.sessions.delete("s1", force=True)
            elif number == 2:
                enqueue(store, f"{each}", source_key=f"{each % 3}")
            elif number == 3:
                submit(store, f"{each}", source_key=f"{each}")
            elif number == 4:
                put(store, "s1", graph=chain(f"{each}"), enqueued_queue_batches=[work("sent")])
            else:
                store.queue.enqueue_many([work("many"), work("many", session_id="keep")])

    answers = racing(6, act)

    assert answers == [None] * 6, "an error reached a caller"
    store = stores[0]
    store.sessions.delete("s1", force=True)
    assert (queued(store), store.inputs.list("s1")) == ([], [])
    submit(store, "last")
    enqueue(store, "last")
    store.maintenance.vacuum()
    assert queued(store, "keep") == ["many"] * 12
    counts = [world.sql(store, f"SELECT count(*) FROM {{{lane}}}")[0][0] for lane in LANES]  # noqa: S608
    assert counts == [13, 1, 2]
    assert world.sql(store, "SELECT count(*) FROM {session}") == [(2,)]
