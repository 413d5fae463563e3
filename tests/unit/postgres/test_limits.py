"""What transactions run under, on connections of our own and on others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import psycopg_pool
import pytest
from psycopg import sql

from holdfast.errors import Contention
from holdfast.postgres import limits
from holdfast.postgres.limits import Limits
from holdfast.postgres.patience import Patience
from holdfast.settings import Settings
from holdfast.transaction import LostRace, Mode, Transaction, call
from tests.unit.postgres.kit import Make, concludes_one, put, single, two_trips, work

LONE = single(Mode.AUTOCOMMIT, "limits")


@pytest.fixture
def pool(url: str) -> Iterator[psycopg_pool.ConnectionPool[Any]]:
    with psycopg_pool.ConnectionPool(url, min_size=0, max_size=2, open=True) as lent:
        yield lent


@pytest.mark.parametrize(
    ("lock_timeout_ms", "wait_ms", "longest"),
    [(10_000, 15_000, 10_000), (10_000, 300, 300), (0, 15_000, 15_000), (10_000, 0, 1), (0, 0, 1)],
)
def test_a_lock_is_never_waited_for_beyond_wait_ms(
    lock_timeout_ms: int, wait_ms: int, longest: int
) -> None:
    settings = Settings(lock_timeout_ms=lock_timeout_ms, wait_ms=wait_ms)
    assert limits.lock_ms(settings) == longest


class Left(Patience):
    """A patience of which as much is left as a test says."""

    def __init__(self, ms: int) -> None:
        super().__init__("tried", 0)
        self.ms = ms

    def left_ms(self) -> int:
        return self.ms


def test_the_lock_timeout_is_shortened_to_what_is_left() -> None:
    left = Left(15_000)
    given = Limits(Settings(), left, inherited=True)
    assert given.alone() == []
    assert given.first() == [b"SET LOCAL idle_in_transaction_session_timeout = 5000"]
    assert given.further() == []

    left.ms = 9_950  # hardly less than the ten seconds in force
    assert given.further() == []
    left.ms = 4_000
    assert given.further() == [b"SET LOCAL lock_timeout = 4000"]
    assert given.further() == []
    left.ms = -20
    assert given.further() == [b"SET LOCAL lock_timeout = 1"]
    assert given.alone() == [b"SET LOCAL lock_timeout = 1"], "a new transaction begins anew"


def test_a_connection_of_our_own_brings_its_limits(make: Make) -> None:
    in_force = make(wait_ms=300, statement_timeout_ms=2_000).run(LONE)[0]
    assert in_force == {
        "search_path": "pg_catalog",
        "locks": "300ms",
        "statements": "2s",
        "idle": "0",
    }


def test_a_lent_connection_is_given_them_for_each_transaction(
    make: Make, pool: psycopg_pool.ConnectionPool[Any]
) -> None:
    backend = make(pool, statement_timeout_ms=2_000, idle_in_transaction_ms=3_000)

    async def in_two_trips(tx: Transaction) -> Any:
        await tx.trip(call("clock"))
        return (await tx.conclude(call("limits")))[0]

    expected = {"search_path": "pg_catalog", "locks": "10s", "statements": "2s", "idle": "0"}
    for mode in (Mode.AUTOCOMMIT, Mode.SMALL_READ):
        assert backend.run(single(mode, "limits")) == [expected]
    for mode in (Mode.WRITE, Mode.READ):
        assert backend.run(work(mode, in_two_trips)) == [expected | {"idle": "3s"}]
    with pool.connection() as connection:
        assert connection.execute("SHOW lock_timeout").fetchone() == ("0",)
        assert connection.execute("SHOW search_path").fetchone() == ('"$user", public',)


def test_a_pooler_that_ignores_our_options_is_noticed(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect = psycopg.Connection.connect

    def ignoring(conninfo: str, **given: Any) -> Any:
        return connect(conninfo, **given, options="")

    monkeypatch.setattr(psycopg, "connect", ignoring)
    monkeypatch.setattr(psycopg.Connection, "connect", ignoring)
    assert make().run(LONE)[0]["locks"] == "10s"


def test_the_last_attempts_wait_only_for_what_is_left(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = make(wait_ms=300)
    left = iter([300, 150, 80])
    monkeypatch.setattr(Patience, "left_ms", lambda _: next(left))
    seen: list[str] = []

    async def tries(tx: Transaction) -> None:
        seen.append((await tx.all("limits"))[0]["locks"])
        if len(seen) < 3:
            raise LostRace

    backend.run(work(Mode.AUTOCOMMIT, tries))
    assert seen == ["300ms", "150ms", "80ms"]


def test_a_lock_that_is_never_given_up_is_contention_on_a_lent_pool(
    make: Make, pool: psycopg_pool.ConnectionPool[Any], url: str, schema: str
) -> None:
    backend = make(pool, wait_ms=100)
    backend.run(put("a", 0))
    lock = sql.SQL("SELECT FROM {}.item FOR UPDATE").format(sql.Identifier(schema))
    with psycopg.connect(url) as holder:
        holder.execute(lock)
        for start in (two_trips, concludes_one):
            with pytest.raises(Contention):
                backend.submit(work(Mode.WRITE, start)).result(20)
