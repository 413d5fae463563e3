"""Tiny statements and operations to try the PostgreSQL backend with."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from psycopg.conninfo import conninfo_to_dict

from holdfast.engine import Work
from holdfast.postgres.driver import PostgresBackend
from holdfast.settings import Settings
from holdfast.transaction import Mode, Transaction, bulk, call

MIGRATION = """\
-- oldest_reader: {reader}
-- oldest_writer: {writer}
"""
BASE = """
CREATE TABLE holdfast.item (
    k text PRIMARY KEY, n bigint, body bytea, note text DEFAULT 'holdfast.item'
);
CREATE TABLE holdfast.pair (n bigint UNIQUE DEFERRABLE INITIALLY DEFERRED);
-- It's a comment that says holdfast. and $1
CREATE FUNCTION holdfast.now_ms(given bigint) RETURNS bigint LANGUAGE sql VOLATILE AS $$
    SELECT coalesce($1, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) -- don't
$$;
CREATE FUNCTION holdfast.fail(state text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN RAISE EXCEPTION 'on purpose' USING ERRCODE = state; END $$;
CREATE FUNCTION holdfast.total() RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT coalesce(sum(n), 0)::bigint FROM holdfast.item
$$;
"""
STATEMENTS = """\
-- name: put
INSERT INTO holdfast.item (k, n, body) VALUES (%(k)s, %(n)s, %(body)s)
ON CONFLICT (k) DO UPDATE SET n = excluded.n, body = excluded.body RETURNING n
-- name: add
UPDATE holdfast.item SET n = n + %(n)s WHERE k = %(k)s RETURNING n
-- name: lock
SELECT n FROM holdfast.item WHERE k = %(k)s FOR NO KEY UPDATE
-- name: get
SELECT k, n, body, note FROM holdfast.item WHERE k = %(k)s
-- name: pairs
-- returns: tuples
SELECT k, n FROM holdfast.item ORDER BY k
-- name: put_many
-- bulk: k, n
INSERT INTO holdfast.item (k, n) SELECT * FROM unnest(%(k)s::text[], %(n)s::bigint[])
-- name: clock
SELECT holdfast.now_ms(%(now_ms)s) AS now
-- name: fail
SELECT holdfast.fail(%(state)s)
-- name: sleep
SELECT pg_sleep(%(seconds)s)
-- name: total
SELECT holdfast.total() AS total
-- name: echo
SELECT %(text)s::text AS text, %(number)s::bigint AS number, %(real)s::float8 AS real,
       %(flag)s::boolean AS flag, %(data)s::bytea AS data, %(texts)s::text[] AS texts,
       %(numbers)s::bigint[] AS numbers, %(datas)s::bytea[] AS datas
-- name: pair
INSERT INTO holdfast.pair (n) VALUES (%(n)s), (%(n)s)
-- name: limits
SELECT current_setting('search_path') AS search_path, current_setting('lock_timeout') AS locks,
       current_setting('statement_timeout') AS statements,
       current_setting('idle_in_transaction_session_timeout') AS idle
-- name: prepared
SELECT count(*) FROM pg_prepared_statements
-- name: whole
SELECT * FROM holdfast.item WHERE k = %(k)s
"""

Make = Callable[..., PostgresBackend]


def write_files(folder: Path, *more: str, reader: int = 1, writer: int = 1) -> None:
    (folder / "statements").mkdir(exist_ok=True)
    (folder / "statements" / "all.sql").write_text(STATEMENTS)
    (folder / "migrations").mkdir(exist_ok=True)
    for number, body in enumerate((BASE, *more), 1):
        header = MIGRATION.format(reader=min(reader, number), writer=min(writer, number))
        (folder / "migrations" / f"{number:04}_step.sql").write_text(header + body)


def python_path() -> dict[str, str]:
    """The environment of a new interpreter that finds what this one finds."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}


def changed_url(url: str, **changed: str) -> str:
    """The URL with other parameters."""
    return f"postgresql:///?{urlencode(conninfo_to_dict(url) | changed, quote_via=quote)}"


def unopened(target: Any, folder: Path, **settings: Any) -> PostgresBackend:
    return PostgresBackend(
        target,
        Settings(**settings),
        statements_from=folder / "statements",
        migrations_from=folder / "migrations",
    )


def work(mode: Mode, start: Callable[[Transaction], Any]) -> Work[Any]:
    return Work("tried", mode, start)


def put(key: str, n: int | None = 1, body: bytes | None = None) -> Work[Any]:
    async def start(tx: Transaction) -> Any:
        return await tx.maybe("put", k=key, n=n, body=body)

    return work(Mode.AUTOCOMMIT, start)


def get(key: str) -> Work[Any]:
    async def start(tx: Transaction) -> Any:
        return await tx.maybe("get", k=key)

    return work(Mode.SMALL_READ, start)


def single(mode: Mode, name: str, **params: Any) -> Work[Any]:
    async def start(tx: Transaction) -> Any:
        return await tx.all(name, **params)

    return work(mode, start)


async def add_slowly(tx: Transaction, pause_s: float) -> Any:
    """Lock in one trip, think, write in the next."""
    await tx.trip(call("lock", k="a"))
    time.sleep(pause_s)
    return await tx.conclude(call("add", k="a", n=1))


async def two_trips(tx: Transaction) -> None:
    await tx.trip(call("lock", k="a"), call("get", k="a"))
    await tx.conclude(call("add", k="a", n=1), bulk("put_many", []), call("get", k="a"))


async def concludes(tx: Transaction) -> None:
    await tx.conclude(call("lock", k="a"), call("add", k="a", n=1))


async def concludes_one(tx: Transaction) -> None:
    await tx.conclude(call("add", k="a", n=1))


async def leaves_open(tx: Transaction) -> None:
    await tx.trip(call("add", k="a", n=1))


async def reads_twice(tx: Transaction) -> None:
    await tx.all("get", k="a")
    await tx.all("pairs")


async def reads_at_once(tx: Transaction) -> None:
    await tx.conclude(call("get", k="a"), call("pairs"))


async def reads_one(tx: Transaction) -> None:
    await tx.maybe("get", k="a")


async def writes_one(tx: Transaction) -> None:
    await tx.maybe("add", k="a", n=1)


async def does_nothing(tx: Transaction) -> None:
    await tx.promoted("unknown", k="a")


async def promotes(tx: Transaction) -> None:
    assert await tx.promoted("add", k="a", n=1)
