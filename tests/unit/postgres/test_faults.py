"""Contention and lost connections."""

from __future__ import annotations

import threading
import time
from typing import Any

import psycopg
import pytest

from holdfast.engine import Work
from holdfast.errors import (
    Contention,
    StoreUnavailable,
)
from holdfast.postgres.driver import PostgresBackend
from holdfast.testing.wire import CountingProxy
from holdfast.transaction import LostRace, Mode, Transaction, call
from tests.unit.postgres.kit import (
    Make,
    add_slowly,
    concludes,
    concludes_one,
    get,
    put,
    reads_at_once,
    reads_one,
    single,
    two_trips,
    work,
    writes_one,
)


@pytest.mark.invariant("INV-35")
def test_a_deadlock_never_reaches_a_caller(backend: PostgresBackend) -> None:
    backend.run(put("a", 0))
    backend.run(put("b", 0))
    both_hold_one = threading.Barrier(2)
    waited: set[str] = set()

    def crossing(first: str, second: str) -> Work[Any]:
        async def start(tx: Transaction) -> None:
            await tx.trip(call("add", k=first, n=1))
            if first not in waited:
                waited.add(first)
                both_hold_one.wait(5)
            await tx.conclude(call("add", k=second, n=1))

        return work(Mode.WRITE, start)

    futures = [backend.submit(crossing("a", "b")), backend.submit(crossing("b", "a"))]
    for future in futures:
        future.result(20)
    assert backend.run(single(Mode.SMALL_READ, "pairs")) == [("a", 2), ("b", 2)]


@pytest.mark.parametrize("state", ["40001", "40P01", "55P03"])
def test_contention_is_repeated_then_told(make: Make, state: str) -> None:
    backend = make(wait_ms=50)
    with pytest.raises(Contention) as told:
        backend.run(single(Mode.AUTOCOMMIT, "fail", state=state))
    assert told.value.attempts == backend.counts["fail"] > 1
    assert told.value.operation == "tried"


def test_a_lost_race_is_run_again(backend: PostgresBackend) -> None:
    attempts: list[int] = []

    async def start(tx: Transaction) -> Any:
        attempts.append(1)
        await tx.trip(call("put", k="a", n=len(attempts), body=None))
        if len(attempts) < 3:
            raise LostRace
        return "won"

    assert backend.run(work(Mode.WRITE, start)) == "won"
    assert backend.run(get("a"))["n"] == 3


def test_a_lock_held_by_others_times_out_as_contention(make: Make) -> None:
    holder, waiter = make(), make(lock_timeout_ms=50, wait_ms=200)
    holder.run(put("a", 0))
    held = holder.submit(work(Mode.WRITE, lambda tx: add_slowly(tx, 0.6)))
    while holder.counts["lock"] == 0:
        time.sleep(0.01)
    time.sleep(0.05)
    with pytest.raises(Contention):
        waiter.run(work(Mode.WRITE, concludes_one))
    held.result()
    assert waiter.run(get("a"))["n"] == 1


def test_a_slow_statement_is_stopped(make: Make) -> None:
    backend = make(statement_timeout_ms=50)
    with pytest.raises(StoreUnavailable) as stopped:
        backend.run(single(Mode.AUTOCOMMIT, "sleep", seconds=5.0))
    assert (stopped.value.retryable, stopped.value.maybe_written) == (True, False)


def test_many_writers_of_one_row_all_succeed(backend: PostgresBackend) -> None:
    backend.run(put("a", 0))

    async def start(tx: Transaction) -> None:
        row = (await tx.trip(call("lock", k="a")))[0][0]
        await tx.conclude(call("put", k="a", n=row["n"] + 1, body=None))

    for future in [backend.submit(work(Mode.WRITE, start)) for _ in range(200)]:
        future.result(20)
    assert backend.run(get("a"))["n"] == 200


def test_a_stopped_client_holds_its_lock_no_longer_than_the_idle_timeout(make: Make) -> None:
    backend = make(idle_in_transaction_ms=150)
    backend.run(put("a", 0))
    stopped = backend.submit(work(Mode.WRITE, lambda tx: add_slowly(tx, 0.8)))
    while backend.counts["lock"] == 0:
        time.sleep(0.01)
    begun = time.monotonic()
    backend.run(work(Mode.WRITE, two_trips))
    assert time.monotonic() - begun < 0.6
    with pytest.raises(StoreUnavailable) as failed:
        stopped.result()
    assert (failed.value.retryable, failed.value.maybe_written) == (True, False)
    assert backend.run(get("a"))["n"] == 1


def test_a_connection_found_lost_before_sending_is_replaced(
    make: Make, proxy: CountingProxy
) -> None:
    backend = make(proxy.url)
    backend.run(put("a", 0))
    for _ in range(3):
        proxy.cut()
        time.sleep(0.05)
        backend.run(work(Mode.AUTOCOMMIT, writes_one))
    assert backend.run(get("a"))["n"] == 3


@pytest.mark.parametrize(
    ("mode", "start", "lost_at", "maybe_written", "stored"),
    [
        (Mode.AUTOCOMMIT, writes_one, "add", True, 1),
        (Mode.WRITE, concludes_one, "add", True, 1),
        (Mode.WRITE, concludes, "add", True, 1),
        (Mode.WRITE, two_trips, "add", True, 1),
        (Mode.WRITE, two_trips, "lock", False, 0),
        (Mode.SMALL_READ, reads_one, "get", False, 0),
        (Mode.READ, reads_at_once, "get", False, 0),
    ],
)
def test_a_lost_answer_says_whether_it_may_be_written(
    make: Make,
    proxy: CountingProxy,
    mode: Mode,
    start: Any,
    lost_at: str,
    maybe_written: bool,
    stored: int,
) -> None:
    backend, sure = make(proxy.url), make()
    backend.run(put("a", 0))
    backend.run(get("a"))

    def lose(name: str, when: str) -> None:
        proxy.loses_answers |= name == lost_at

    backend.on_statement = lose
    with pytest.raises(StoreUnavailable) as lost:
        backend.run(work(mode, start))
    assert lost.value.maybe_written is maybe_written
    assert lost.value.retryable is not maybe_written
    assert sure.run(get("a"))["n"] == stored


def test_a_lost_explanation_is_no_lost_write(make: Make, proxy: CountingProxy) -> None:
    backend = make(proxy.url)

    async def start(tx: Transaction) -> None:
        assert await tx.maybe("add", k="absent", n=1) is None
        proxy.loses_answers = True
        await tx.maybe("get", k="absent")

    with pytest.raises(StoreUnavailable) as lost:
        backend.run(work(Mode.AUTOCOMMIT, start))
    assert (lost.value.retryable, lost.value.maybe_written) == (True, False)


def test_a_write_behind_a_read_may_be_written_when_its_answer_is_lost(
    make: Make, proxy: CountingProxy
) -> None:
    backend, sure = make(proxy.url), make()
    backend.run(put("a", 0))

    async def start(tx: Transaction) -> None:
        assert await tx.maybe("get", k="a")
        proxy.loses_answers = True
        await tx.maybe("add", k="a", n=1)

    with pytest.raises(StoreUnavailable) as lost:
        backend.run(work(Mode.AUTOCOMMIT, start))
    assert (lost.value.retryable, lost.value.maybe_written) == (False, True)
    assert sure.run(get("a"))["n"] == 1


def test_an_explanation_takes_one_trip_and_cannot_write(make: Make, proxy: CountingProxy) -> None:
    backend = make(proxy.url)
    backend.run(put("a", 0))

    async def explains(tx: Transaction, then: str, **params: Any) -> Any:
        assert await tx.maybe("add", k="absent", n=1) is None
        return await tx.maybe(then, **params)

    for _ in range(2):  # prepared on the way, and prepared already
        turns = proxy.turns
        found = backend.run(work(Mode.AUTOCOMMIT, lambda tx: explains(tx, "get", k="a")))
        assert (found["n"], proxy.turns - turns) == (0, 2)
    with pytest.raises(StoreUnavailable, match="25006"):
        backend.run(work(Mode.AUTOCOMMIT, lambda tx: explains(tx, "add", k="a", n=1)))
    assert backend.run(get("a"))["n"] == 0


def test_a_server_that_ends_the_connection_is_an_outage(make: Make, url: str) -> None:
    backend = make()

    async def start(tx: Transaction) -> None:
        await tx.trip(call("put", k="a", n=1, body=None))
        with psycopg.connect(url, autocommit=True) as other:
            other.execute(
                "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
                " WHERE state = 'idle in transaction' AND query ~ %s",
                [backend._schema.name],
            )
        await tx.conclude(call("put", k="b", n=1, body=None))

    with pytest.raises(StoreUnavailable) as ended:
        backend.run(work(Mode.WRITE, start))
    assert (ended.value.retryable, ended.value.maybe_written) == (True, False)
    assert backend.run(single(Mode.SMALL_READ, "pairs")) == []
