"""Section 16: what only a server can get in the way of, and what stands for it elsewhere."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
import pytest

import holdfast
from holdfast import Lease, LeaseLost, SessionBusy, StoreUnavailable, local_process
from holdfast.testing.contract.lanes import (
    enqueue,
    names,
    queued,
    settle,
    states,
    submit,
    texts,
    work,
)
from holdfast.testing.contract.owners import replaced
from holdfast.testing.contract.samples import (
    ALICE,
    BOB,
    chain,
    checkpoint,
    commit,
    create,
    lease_on,
    path_ids,
    put,
    turn,
)
from holdfast.testing.world import World, racing


@contextmanager
def stopped_after(world: World, store: Any, statement: str, held: Lease) -> Iterator[list[Any]]:
    """A commit under a lease, stopped behind one of its statements; goes on at the end.

    Its outcome is in the list afterwards.
    """
    stopped, go_on = threading.Event(), threading.Event()
    outcome: list[Any] = []

    def stop(name: str, when: str) -> None:
        if (name, when) == (statement, "after"):
            stopped.set()
            go_on.wait(10)

    def settle(_: int) -> Any:
        whole = commit("s1", checkpoint=checkpoint(), graph=chain("a"))
        fenced = msgspec.structs.replace(whole, session_execution_lease=held)
        return store.sessions.commit(fenced)

    world.backend(store).on_statement = stop
    thread = threading.Thread(target=lambda: outcome.extend(racing(1, settle)))
    thread.start()
    try:
        assert stopped.wait(10)
        yield outcome
    finally:
        go_on.set()
        thread.join()


@pytest.mark.scenario("BAK-T6")
def test_a_client_stopped_between_its_trips_lets_others_in(world: World) -> None:
    if not world.is_server:
        pytest.skip("an embedded store has no trips to be stopped between; see BAK-8")
    store, other = world.open(idle_in_transaction_ms=300), world.open()
    held = lease_on(store, "s1", ALICE)

    with stopped_after(world, store, "enter_section", held) as outcome:
        world.clock.advance(30_000)
        began = time.monotonic()
        taken = lease_on(other, "s1", BOB)
        waited = time.monotonic() - began

    assert waited < 5
    assert taken.generation == held.generation + 1
    assert isinstance(outcome[0], StoreUnavailable | LeaseLost)
    assert other.sessions.load("s1") is None
    assert world.sql(store, "SELECT count(*) FROM {node}") == [(0,)]


def forgetful_pool(world: World) -> Any:
    """A pool whose connections take turns, and lose their session state after each turn."""
    import psycopg
    from psycopg_pool import ConnectionPool

    class Forgetful(ConnectionPool[Any]):
        def __init__(self) -> None:
            kwargs = {"autocommit": True}
            super().__init__(world.url, min_size=3, max_size=3, kwargs=kwargs, open=True)

        def putconn(self, conn: psycopg.Connection[Any]) -> None:
            if not conn.closed and not conn.pgconn.transaction_status:
                conn.execute("DISCARD ALL", prepare=False)
            super().putconn(conn)

    return Forgetful()


def pooled(world: World) -> Any:
    """A store behind such a pool; elsewhere, one whose connections nothing is known of."""
    if not world.is_server:
        return world.open(pool_size=1)
    pool = forgetful_pool(world)
    world.defer(pool.close)
    store = holdfast.open(pool=pool, schema=world.schema, clock=world.clock)
    world.defer(store.close)
    return world.calm(store)


@pytest.mark.scenario("BAK-T8")
def test_leases_need_no_session_state(world: World) -> None:
    store = pooled(world)
    held = lease_on(store, "s1", ALICE)
    for _ in range(5):
        held = store.sessions.renew_lease(held)
    assert store.sessions.claim_lease("s1", BOB).holder.owner == ALICE
    assert store.sessions.release_lease(held)


@pytest.mark.scenario("BAK-T8")
def test_a_takeover_needs_no_session_state(world: World) -> None:
    store = pooled(world)
    lease_on(store, "s1", replaced())

    taken = store.sessions.reclaim_lease(store.sessions.lease("s1"), local_process("me"))

    assert taken.lease.generation == 2


@pytest.mark.scenario("BAK-T8")
def test_commits_need_no_session_state(world: World) -> None:
    store = pooled(world)
    create(store, "s1")
    for number in range(5):
        put(store, "s1", graph=chain(f"light-{number}"))
        whole = {"graph": chain(f"whole-{number}"), "checkpoint": checkpoint(number)}
        put(store, "s1", turn_commit=turn(f"t{number}"), **whole)
    assert put(store, "s1", turn_commit=turn("t4"), **whole).replayed
    held = lease_on(store, "s1", ALICE)
    with pytest.raises(SessionBusy):
        put(store, "s1", graph=chain("never"))
    store.sessions.commit(
        commit(
            "s1",
            graph=chain("last"),
            session_execution_lease=held,
            release_session_execution_lease=True,
        )
    )

    assert len(path_ids(store)) == 11
    assert store.sessions.lease("s1") is None
    assert [line.session_id for line in store.sessions.list().sessions] == ["s1"]


@pytest.mark.scenario("BAK-T8")
def test_claims_need_no_session_state(world: World) -> None:
    store = pooled(world)
    for number in range(3):
        enqueue(store, f"work {number}", delivery_policy="earliest_safe_boundary")
        submit(store, f"input {number}", "t", input_id=f"{number}")
    held = lease_on(store, "s1")
    given_back = store.inputs.claim_active(held, "t", "after_work", 1)
    assert store.inputs.abandon(given_back) == 1
    taken = store.queue.claim_at_checkpoint(held, "t", "after_work")
    assert (texts(taken.inputs.inputs), names(taken.work.batches)) == (
        ["input 0", "input 1", "input 2"],
        ["work 0"],
    )
    assert store.inputs.cancel("s1", ["0"])[0].outcome == "already_claimed"
    settle(
        store,
        held,
        completed_turn_input_claims=[taken.inputs],
        completed_queue_claims=[taken.work],
        enqueued_queue_batches=[work("follow-up")],
        release_session_execution_lease=True,
    )

    assert queued(store) == ["work 1", "work 2", "follow-up"]
    assert set(states(store).values()) == {"completed"}
    assert [each.session_id for each in store.queue.ready_sessions()] == ["s1"]


@pytest.mark.scenario("BAK-T8")
def test_races_need_no_session_state(world: World) -> None:
    store = pooled(world)

    done = racing(6, lambda number: put(store, "s1", graph=chain(f"{number}")))

    assert sorted(one.head_revision for one in done) == [1, 2, 3, 4, 5, 6]
    assert sorted(path_ids(store)) == ["0", "1", "2", "3", "4", "5"]
