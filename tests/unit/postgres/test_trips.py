"""Trips, transactions, and what an observer sees of them."""

from __future__ import annotations

import contextlib
import threading
from typing import Any

import pytest

from holdfast.errors import (
    StoreUnavailable,
)
from holdfast.postgres.driver import PostgresBackend
from holdfast.testing.wire import CountingProxy
from holdfast.transaction import Mode, Transaction, call
from tests.unit.postgres.kit import (
    Make,
    concludes,
    concludes_one,
    does_nothing,
    get,
    leaves_open,
    promotes,
    put,
    reads_at_once,
    reads_one,
    reads_twice,
    single,
    two_trips,
    work,
    writes_one,
)


@pytest.mark.parametrize(
    ("mode", "start", "trips"),
    [
        (Mode.AUTOCOMMIT, writes_one, 1),
        (Mode.WRITE, concludes, 1),
        (Mode.WRITE, concludes_one, 1),
        (Mode.WRITE, promotes, 1),
        (Mode.WRITE, two_trips, 2),
        (Mode.WRITE, leaves_open, 2),
        (Mode.WRITE, does_nothing, 0),
        (Mode.SMALL_READ, reads_one, 1),
        (Mode.SMALL_READ, reads_at_once, 1),
        (Mode.READ, reads_at_once, 1),
        (Mode.READ, reads_twice, 3),
    ],
)
def test_a_trip_is_one_turn_on_the_wire(
    make: Make, proxy: CountingProxy, mode: Mode, start: Any, trips: int
) -> None:
    backend = make(proxy.url)
    backend.run(put("a"))
    for _ in range(12):  # preparing a statement must not cost a turn, whenever it happens
        turns, counted = proxy.turns, backend.counts["trips"]
        backend.run(work(mode, start))
        assert (proxy.turns - turns, backend.counts["trips"] - counted) == (trips, trips)


def test_large_values_still_take_one_turn(make: Make, proxy: CountingProxy) -> None:
    backend = make(proxy.url)
    large = bytes(3_000_000)
    backend.run(put("a"))
    turns = proxy.turns
    backend.run(put("b", 1, large))

    async def start(tx: Transaction) -> Any:
        return await tx.conclude(*[call("put", k=f"{n}", n=n, body=large) for n in range(4)])

    backend.run(work(Mode.WRITE, start))
    assert proxy.turns - turns == 2
    assert backend.run(get("b"))["body"] == large


def test_an_operation_that_raises_leaves_nothing(backend: PostgresBackend) -> None:
    async def start(tx: Transaction) -> None:
        await tx.trip(call("put", k="a", n=1, body=None))
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        backend.run(work(Mode.WRITE, start))
    assert backend.run(get("a")) is None


def test_a_failing_statement_leaves_nothing(backend: PostgresBackend) -> None:
    async def start(tx: Transaction) -> None:
        await tx.conclude(call("put", k="a", n=1, body=None), call("fail", state="P0001"))

    with pytest.raises(StoreUnavailable) as failed:
        backend.run(work(Mode.WRITE, start))
    assert failed.value.cause == "P0001: on purpose"
    assert (failed.value.retryable, failed.value.maybe_written) == (False, False)
    assert backend.run(get("a")) is None


def test_a_refusal_that_comes_with_the_commit_is_certain(backend: PostgresBackend) -> None:
    async def concludes_pair(tx: Transaction) -> None:
        await tx.conclude(call("put", k="a", n=1, body=None), call("pair", n=1))

    once = single(Mode.AUTOCOMMIT, "pair", n=1)
    for refused in (once, once, work(Mode.WRITE, concludes_pair)):
        with pytest.raises(StoreUnavailable, match="23505") as failed:
            backend.run(refused)
        assert (failed.value.retryable, failed.value.maybe_written) == (False, False)
    assert backend.run(get("a")) is None


def test_an_operation_cannot_commit_over_an_error_it_swallowed(backend: PostgresBackend) -> None:
    async def start(tx: Transaction) -> None:
        await tx.trip(call("put", k="a", n=1, body=None))
        with contextlib.suppress(Exception):
            await tx.trip(call("fail", state="P0001"))

    with pytest.raises(StoreUnavailable, match="failed before its commit"):
        backend.run(work(Mode.WRITE, start))
    assert backend.run(get("a")) is None


def test_nothing_may_follow_the_conclusion(backend: PostgresBackend) -> None:
    async def start(tx: Transaction) -> None:
        await tx.conclude(call("get", k="a"))
        await tx.all("get", k="a")

    with pytest.raises(RuntimeError, match="conclude"):
        backend.run(work(Mode.WRITE, start))


@pytest.mark.invariant("INV-4")
def test_a_read_of_several_trips_sees_one_snapshot(backend: PostgresBackend) -> None:
    backend.run(put("a", 1))

    async def start(tx: Transaction) -> Any:
        before = await tx.maybe("get", k="a")
        backend.submit(put("a", 2)).result()
        return before["n"], (await tx.maybe("get", k="a"))["n"]

    assert backend.run(work(Mode.READ, start)) == (1, 1)


def test_a_read_cannot_write(backend: PostgresBackend) -> None:
    async def start(tx: Transaction) -> Any:
        return await tx.all("put", k="a", n=1, body=None)

    with pytest.raises(StoreUnavailable, match="25006"):
        backend.run(work(Mode.READ, start))


def test_actions_run_after_the_commit_and_harm_nobody(backend: PostgresBackend) -> None:
    seen: list[Any] = []
    done = threading.Event()

    def look() -> None:
        seen.append(backend.run(get("a"))["n"])
        done.set()

    async def start(tx: Transaction) -> None:
        tx.after_commit(lambda: 1 // 0)
        tx.after_commit(look)
        await tx.conclude(call("put", k="a", n=3, body=None), call("get", k="a"))

    backend.run(work(Mode.WRITE, start))
    assert done.wait(5)
    assert seen == [3]


def test_the_observer_sees_every_statement_and_the_commit(backend: PostgresBackend) -> None:
    backend.run(put("a"))
    seen: list[tuple[str, str]] = []
    backend.on_statement = lambda name, when: seen.append((name, when))
    backend.run(work(Mode.WRITE, two_trips))
    first = [(name, when) for when in ("before", "after") for name in ("lock", "get")]
    second = [(name, when) for when in ("before", "after") for name in ("add", "get", "commit")]
    assert seen == first + second
    seen.clear()
    backend.run(work(Mode.WRITE, concludes_one))
    assert seen == [(name, when) for when in ("before", "after") for name in ("add", "commit")]


def test_a_fault_anywhere_leaves_nothing_or_everything(backend: PostgresBackend) -> None:
    backend.run(put("a", 0))
    for nth in range(1, 11):
        called: list[str] = []

        def fault(name: str, when: str, nth: int = nth, called: list[str] = called) -> None:
            called.append(name)
            if len(called) == nth:
                raise ZeroDivisionError

        backend.on_statement = fault
        with pytest.raises(ZeroDivisionError):
            backend.run(work(Mode.WRITE, two_trips))
        backend.on_statement = None
        # The last trip carries the commit: what is observed after it is observed too late.
        assert backend.run(get("a"))["n"] == max(0, nth - 7)
