"""Pools, poolers, threads, closing and forking."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from typing import Any

import psycopg
import psycopg_pool
import pytest
from psycopg import sql
from psycopg.rows import dict_row

from holdfast.errors import (
    InvalidArgument,
    StoreClosed,
    StoreUnavailable,
)
from holdfast.postgres.compiled import Bound
from holdfast.postgres.driver import PostgresBackend
from holdfast.postgres.link import Link
from holdfast.testing.wire import CountingProxy
from holdfast.transaction import Mode, Transaction, call
from tests.unit.postgres.kit import (
    Make,
    add_slowly,
    concludes_one,
    get,
    put,
    python_path,
    single,
    two_trips,
    unopened,
    work,
    write_files,
    writes_one,
)


def test_an_exhausted_pool_is_an_outage_that_passes(make: Make) -> None:
    backend = make(pool_size=1, pool_timeout_ms=100)
    backend.run(put("a", 0))
    busy = backend.submit(work(Mode.WRITE, lambda tx: add_slowly(tx, 0.4)))
    while backend.counts["lock"] == 0:
        time.sleep(0.01)
    with pytest.raises(StoreUnavailable) as refused:
        backend.run(get("a"))
    assert (refused.value.retryable, refused.value.maybe_written) == (True, False)
    busy.result()


def test_a_pool_that_cannot_connect_says_why(make: Make, proxy: CountingProxy) -> None:
    backend = make(proxy.url, pool_timeout_ms=300)
    proxy.close()
    with pytest.raises(StoreUnavailable, match=r"after 0\.30 sec; .*Connection refused") as told:
        backend.run(put("a"))
    assert (told.value.retryable, told.value.maybe_written) == (True, False)


def test_a_lent_pool_is_used_as_it_is_and_stays_open(make: Make, url: str) -> None:
    def discard(connection: psycopg.Connection[Any]) -> None:
        connection.autocommit = True
        connection.execute("DISCARD ALL")
        connection.autocommit = False

    options = {"row_factory": dict_row, "autocommit": False}
    pool = psycopg_pool.ConnectionPool(
        url, min_size=0, max_size=3, kwargs=options, reset=discard, open=True
    )
    with pool:
        backend = make(pool)
        for n in range(6):
            backend.run(put("a", n))
            backend.run(work(Mode.WRITE, two_trips))
        assert backend.run(get("a"))["n"] == 6
        backend.close()
        with pool.connection() as connection:
            assert connection.autocommit is False
            assert connection.execute("SELECT 1 AS one").fetchone() == {"one": 1}


@pytest.mark.parametrize("limit", [{}, {"max_size": 2}])
def test_a_pool_that_keeps_no_connections_serves(
    make: Make, url: str, limit: dict[str, int]
) -> None:
    with psycopg_pool.NullConnectionPool(url, open=True, **limit) as pool:
        backend = make(pool, pool_size=3)
        futures = [backend.submit(put(f"{n}", n)) for n in range(20)]
        assert [future.result(20)["n"] for future in futures] == list(range(20))
        assert backend._threads is not None
        assert backend._threads._max_workers == limit.get("max_size", 3)


def test_a_lent_connection_that_cannot_be_used_goes_back_into_its_pool(
    url: str, schema: str, tmp_path: Path
) -> None:
    write_files(tmp_path)
    options = {"client_encoding": "latin1"}
    with psycopg_pool.ConnectionPool(
        url, min_size=1, max_size=1, timeout=5, kwargs=options, open=True
    ) as pool:
        for _ in range(2):
            with pytest.raises(InvalidArgument, match="UTF8"):
                unopened(pool, tmp_path, schema=schema).open()
        assert pool.get_stats()["pool_available"] == 1


async def forgets(tx: Transaction) -> None:
    """As a host that shares the connection may do at any time."""
    await tx.trip(call("lock", k="a"))
    tx._link.script("DEALLOCATE ALL")  # type: ignore[attr-defined]


async def prepared(tx: Transaction) -> Any:
    return (await tx.trip(call("prepared")))[0][0]["count"]


def test_prepared_statements_that_are_lost_now_and_then_are_prepared_again(make: Make) -> None:
    backend = make(pool_size=1)
    backend.run(put("a", 0))
    for repeated in range(1, 7):
        backend.run(work(Mode.WRITE, forgets))
        for _ in range(10):
            backend.run(work(Mode.WRITE, two_trips))
        # Each time one operation met it, and was run twice.
        assert backend.counts["lock"] == repeated * 12
        assert backend.run(work(Mode.WRITE, prepared)) > 2
    assert backend.run(get("a"))["n"] == 60


def test_a_statement_that_turns_out_to_be_prepared_is_taken_as_it_is(make: Make) -> None:
    backend = make(pool_size=1)
    backend.run(put("a", 0))
    backend.run(work(Mode.WRITE, writes_one))
    before = backend.run(work(Mode.WRITE, prepared))

    async def knows_nothing(tx: Transaction) -> None:
        await tx.all("get", k="a")
        tx._link.forget_prepared()  # type: ignore[attr-defined]

    backend.run(work(Mode.SMALL_READ, knows_nothing))
    for _ in range(3):
        backend.run(work(Mode.WRITE, writes_one))
    assert backend.counts["add"] == 5, "one of the four was run twice"
    assert backend.run(work(Mode.WRITE, prepared)) == before + 1


def test_two_stores_on_one_lent_pool_share_what_is_prepared(make: Make, url: str) -> None:
    with psycopg_pool.ConnectionPool(url, min_size=1, max_size=1, open=True) as pool:
        for number in range(2):
            backend = make(pool)
            for _ in range(2):
                backend.run(put("a", number))
            assert backend.counts["put"] == 2


def test_preparing_is_given_up_where_it_is_always_lost(make: Make, url: str) -> None:
    def discard(connection: psycopg.Connection[Any]) -> None:
        connection.autocommit = True
        connection.execute("DISCARD ALL")
        connection.autocommit = False

    with psycopg_pool.ConnectionPool(url, min_size=1, max_size=1, reset=discard, open=True) as pool:
        backend = make(pool)
        for n in range(50):
            backend.run(put("a", n))
        assert 50 < backend.counts["put"] < 60
        assert not backend._shared.preparing.on


def test_a_plan_made_stale_by_a_migration_is_made_again(make: Make, url: str, schema: str) -> None:
    backend = make(pool_size=1)
    backend.run(put("a", 0))
    for _ in range(3):
        backend.run(single(Mode.SMALL_READ, "whole", k="a"))
    with psycopg.connect(url, autocommit=True) as other:
        other.execute(sql.SQL("ALTER TABLE {}.item ADD extra int").format(sql.Identifier(schema)))

    async def whole(tx: Transaction) -> Any:
        return await tx.conclude(call("whole", k="a"), call("pairs"))

    assert backend.run(work(Mode.READ, whole))[1] == [("a", 0)]
    assert backend._shared.preparing.on


def test_a_stale_plan_that_a_pooler_keeps_is_worked_around(
    make: Make, url: str, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pooler has the statement already: it says so without asking the server anew."""
    known: set[bytes] = set()
    queue = Link._queue

    def through(self: Link, step: Bound | bytes, prepare: bool) -> bytes | None:
        if isinstance(step, Bound) and prepare:
            if step.name in known:
                self._memory.prepared.add(step.name)
            known.add(step.name)
        return queue(self, step, prepare)

    backend = make(pool_size=1)
    # Whoever connects again meets the same connection to the server.
    monkeypatch.setattr(Link, "discard", Link.forget_prepared)
    monkeypatch.setattr(Link, "_queue", through)
    backend.run(put("a", 0))
    whole = single(Mode.READ, "whole", k="a")
    backend.run(whole)
    with psycopg.connect(url, autocommit=True) as other:
        other.execute(sql.SQL("ALTER TABLE {}.item ADD extra int").format(sql.Identifier(schema)))

    for _ in range(2):
        assert backend.run(whole)[0]["extra"] is None
    assert not backend._shared.preparing.on


# --- threads, closing, forking ----------------------------------------------------------------


def test_what_has_not_begun_can_be_withdrawn(make: Make) -> None:
    backend = make(pool_size=1)
    backend.run(put("a", 0))
    busy = backend.submit(work(Mode.WRITE, lambda tx: add_slowly(tx, 0.2)))
    queued = backend.submit(put("b", 1))
    while backend.counts["lock"] == 0:
        time.sleep(0.01)
    assert queued.cancel()
    assert not busy.cancel()
    busy.result()
    backend.close()
    assert backend.counts["put"] == 1


def test_closing_waits_for_what_was_accepted(backend: PostgresBackend, make: Make) -> None:
    other = make()
    backend.run(put("a", 0))
    thread = threading.Thread(
        target=backend.run, args=(work(Mode.WRITE, lambda tx: add_slowly(tx, 0.2)),)
    )
    thread.start()
    while backend.counts["lock"] == 0:
        time.sleep(0.01)
    accepted = backend.submit(work(Mode.WRITE, concludes_one))
    backend.close()
    backend.close()
    assert other.run(get("a"))["n"] == 2
    assert accepted.done()
    thread.join()
    for refused in (backend.run, backend.submit):
        with pytest.raises(StoreClosed):
            refused(get("a"))


def test_a_forked_child_touches_nothing(url: str, schema: str, tmp_path: Path) -> None:
    write_files(tmp_path)
    script = f"""
        import os, sys
        from pathlib import Path
        import tests.unit.postgres.kit as t
        from holdfast.core import Core
        from holdfast.errors import StoreClosed
        backend = t.unopened({url!r}, Path({str(tmp_path)!r}), schema={schema!r})
        core = Core(backend, backend.settings)
        core.open()
        backend.run(t.put("a", 1))
        backend.submit(t.put("a", 2)).result()
        if os.fork() == 0:
            try:
                core.run(t.get("a"))
            except StoreClosed as closed:
                assert closed.reason == "forked"
                core.close()
                sys.exit(7)
            sys.exit(1)
        assert os.waitstatus_to_exitcode(os.wait()[1]) == 7
        assert backend.run(t.get("a"))["n"] == 2
        assert backend.submit(t.get("a")).result()["n"] == 2
        core.close()
    """
    ran = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", textwrap.dedent(script)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=python_path(),
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stderr == ""
