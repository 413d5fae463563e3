"""What an asyncio caller hands over, and takes back or has to wait for (EXT-15)."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from concurrent.futures import CancelledError
from typing import Any

import psycopg_pool
import pytest

import holdfast
from holdfast import LeaseOwner
from holdfast.errors import Contention, StoreUnavailable
from holdfast.postgres.driver import PostgresBackend
from holdfast.postgres.patience import Patience
from holdfast.transaction import LostRace, Mode, Transaction, call
from tests.unit.postgres.kit import Make, get, put, work

Pool = psycopg_pool.ConnectionPool[Any]


@pytest.fixture
def pool(url: str) -> Iterator[Pool]:
    with psycopg_pool.ConnectionPool(url, min_size=1, max_size=1, open=True) as lent:
        yield lent


def await_one_in_line(pool: Pool) -> None:
    while not pool.get_stats().get("requests_waiting"):
        time.sleep(0.005)


class Paused:
    """Stands where attempts pause: says when one does, and lets it go on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, gives_up: bool = False) -> None:
        self.reached, self.go_on = threading.Event(), threading.Event()
        self._gives_up = gives_up
        monkeypatch.setattr(Patience, "pause", lambda _: self._pause())

    def _pause(self) -> None:
        self.reached.set()
        assert self.go_on.wait(20)
        if self._gives_up:
            raise Contention("tried", 1)


def test_what_waits_for_a_connection_can_be_taken_back(make: Make, pool: Pool) -> None:
    backend, other = make(pool), make()
    connection = pool.getconn()
    waiting = backend.submit(put("a", 1))
    await_one_in_line(pool)

    assert waiting.cancel()
    assert waiting.cancelled()
    pool.putconn(connection)
    backend.close()

    assert other.run(get("a")) is None
    assert pool.get_stats()["pool_available"] == 1


def test_what_pauses_between_attempts_can_be_taken_back(
    backend: PostgresBackend, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    paused, attempts = Paused(monkeypatch), []

    async def loses(tx: Transaction) -> None:
        attempts.append(1)
        await tx.trip(call("put", k="a", n=len(attempts), body=None))
        if len(attempts) == 1:
            raise LostRace

    handed = backend.submit(work(Mode.WRITE, loses))
    assert paused.reached.wait(20)
    assert handed.cancel()
    paused.go_on.set()
    backend.close()

    assert make().run(get("a")) is None
    with pytest.raises(CancelledError):
        handed.result()


def test_patience_that_ends_after_it_was_taken_back_is_told_nobody(
    backend: PostgresBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    paused = Paused(monkeypatch, gives_up=True)

    async def loses(tx: Transaction) -> None:
        raise LostRace

    kept, withdrawn = (backend.submit(work(Mode.WRITE, loses)) for _ in range(2))
    assert paused.reached.wait(20)
    assert withdrawn.cancel()
    paused.go_on.set()

    with pytest.raises(Contention):
        kept.result(20)
    backend.close()
    assert withdrawn.cancelled()


@pytest.mark.parametrize("fails", [False, True])
def test_what_an_attempt_is_made_at_has_to_be_waited_for(
    backend: PostgresBackend, fails: bool
) -> None:
    under_way, go_on = threading.Event(), threading.Event()

    def hold_up(name: str, when: str) -> None:
        if (name, when) == ("lock", "before"):
            under_way.set()
            assert go_on.wait(20)

    async def writes(tx: Transaction) -> Any:
        await tx.trip(call("lock", k="a"))
        after = call("fail", state="P0001") if fails else call("put", k="a", n=7, body=None)
        return (await tx.conclude(after))[0]

    backend.on_statement = hold_up
    handed = backend.submit(work(Mode.WRITE, writes))
    assert under_way.wait(20)
    assert not handed.cancel()
    go_on.set()

    if fails:
        with pytest.raises(StoreUnavailable, match="on purpose"):
            handed.result(20)
    else:
        assert handed.result(20) == [{"n": 7}]
    assert not handed.cancel()
    assert (backend.run(get("a")) is None) is fails


def test_taken_back_means_not_written_however_close_it_was(make: Make) -> None:
    backend = make(pool_size=2)
    handed = {f"{n:03}": backend.submit(put(f"{n:03}", n)) for n in range(200)}
    kept = {key for key, future in reversed(handed.items()) if not future.cancel()}
    for key in kept:
        assert handed[key].result(20)["n"] == int(key)
    backend.close()

    other = make()
    assert {key for key in handed if other.run(get(key))} == kept


def test_a_cancelled_task_has_written_nothing_while_the_pool_was_exhausted(
    pool: Pool, schema: str
) -> None:
    async def cancelled(store: holdfast.Store) -> None:
        connection = pool.getconn()
        owner = LeaseOwner("owner", "start")
        task = asyncio.create_task(store.aio.session("s1").claim_lease(owner))
        await asyncio.to_thread(await_one_in_line, pool)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        pool.putconn(connection)

    with holdfast.open(pool=pool, schema=schema) as store:
        store.sessions.list()
        asyncio.run(cancelled(store))
        assert store.sessions.lease("s1") is None
    with holdfast.open(pool=pool, schema=schema) as again:
        assert again.sessions.lease("s1") is None
