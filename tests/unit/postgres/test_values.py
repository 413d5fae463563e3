"""What goes into a statement and what comes out of it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.pq import ExecStatus

import holdfast
from holdfast.errors import (
    InvalidArgument,
)
from holdfast.postgres.compiled import Compiled, Schema
from holdfast.postgres.driver import PostgresBackend
from holdfast.statements import Statement
from holdfast.testing.server import fresh_schema
from holdfast.transaction import Mode, Transaction, bulk, call
from tests.unit.postgres.everything import do_everything
from tests.unit.postgres.kit import Make, get, put, single, unopened, work, write_files


def test_values_come_back_as_they_went(backend: PostgresBackend) -> None:
    values = {
        "text": "ü\n'\"\\ {}",
        "number": -(2**63),
        "real": 0.1,
        "flag": False,
        "data": bytes(range(256)),
        "texts": ["", "a,b", "{}", '"\\', None, "NULL"],
        "numbers": [2**63 - 1, None, 0],
        "datas": [b"", b"\x00\xff"],
    }
    nothing: dict[str, Any] = dict.fromkeys(values)
    empty = {**nothing, "texts": [], "numbers": [], "datas": []}
    for given in (nothing, values, nothing, empty, values):
        assert backend.run(single(Mode.SMALL_READ, "echo", **given)) == [given]


def test_a_bulk_statement_takes_rows_and_returns_nothing(backend: PostgresBackend) -> None:
    rows = [(f"k{n:04}", n) for n in range(500)]

    async def start(tx: Transaction) -> Any:
        return await tx.conclude(bulk("put_many", rows), bulk("put_many", []), call("pairs"))

    assert backend.run(work(Mode.WRITE, start)) == [[], [], rows]
    assert backend.counts["put_many"] == 1


def test_wrong_parameters_are_refused_aloud(backend: PostgresBackend) -> None:
    for params in ({}, {"k": "a", "j": 1}, {"j": 1}, {"k": "a", "now_ms": 1}):
        with pytest.raises(KeyError, match="get: missing"):
            backend.run(single(Mode.SMALL_READ, "get", **params))
    with pytest.raises(TypeError, match="dict"):
        backend.run(single(Mode.SMALL_READ, "get", k={}))


def test_the_clock_is_the_databases_or_the_given_one(backend: PostgresBackend, make: Make) -> None:
    class Stopped:
        def now_ms(self) -> int:
            return 12345

    clock = single(Mode.SMALL_READ, "clock")
    assert abs(backend.run(clock)[0]["now"] - time.time() * 1000) < 10_000
    assert make(clock=Stopped()).run(clock) == [{"now": 12345}]


@pytest.mark.parametrize(
    ("text", "placed"),
    [
        ("SELECT holdfast.a, xholdfast.b, x.holdfast.c", 'SELECT "s".a, xholdfast.b, x.holdfast.c'),
        ("SELECT 'holdfast.a''holdfast.b', E'\\'holdfast.c'", None),
        ('SELECT "holdfast.a"', None),
        ("SELECT 1 -- holdfast.a 'b\n, holdfast.c", 'SELECT 1  \n, "s".c'),
        ("$$ SELECT 'holdfast.a', holdfast.b $$", "$$ SELECT 'holdfast.a', \"s\".b $$"),
        ("%(a)s + %(b)s + %(a)s % 2", "$1 + $2 + $1 % 2"),
    ],
)
def test_the_schema_is_put_where_it_is_code(text: str, placed: str | None) -> None:
    statement = Statement("x", text, frozenset())
    assert Compiled(statement, Schema("s")).sql.decode() == (placed or text)


@pytest.mark.parametrize("stem", ['my "Odd" sch\\ema', "a$b$$c", "o'clock -- %(k)s", "Größe"])
def test_any_schema_name_serves(url: str, tmp_path: Path, stem: str) -> None:
    write_files(tmp_path)
    with fresh_schema(url, stem) as name:
        backend = unopened(url, tmp_path, schema=name)
        backend.open()
        backend.run(put("a", 7))
        assert backend.run(single(Mode.SMALL_READ, "total")) == [{"total": 7}]
        assert backend.run(get("a"))["note"] == "holdfast.item"
        backend.close()


@pytest.mark.parametrize("name", ["", "pg_x", "x" * 64, "a\0b"])
def test_a_name_no_schema_can_have_is_refused(name: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        Schema(name)
    assert refused.value.field == "schema"


def test_a_column_that_a_newer_library_adds_changes_no_result(url: str, schema: str) -> None:
    with holdfast.open(url, schema=schema, pool_size=1) as store:
        do_everything(store)
        connections = store._core.backend._connections  # type: ignore[attr-defined]
        link = connections.take()
        with psycopg.connect(url, autocommit=True) as newer:
            find = "SELECT tablename FROM pg_tables WHERE schemaname = %s"
            for (table,) in newer.execute(find, [schema]).fetchall():
                names = sql.Identifier(schema, table)
                newer.execute(sql.SQL("ALTER TABLE {} ADD added_later bigint").format(names))
        prepared = sorted(link._memory.prepared)
        described = [link.connection.pgconn.describe_prepared(name) for name in prepared]
        connections.give(link)
    assert len(prepared) > 60
    assert [each.error_message for each in described if each.status != ExecStatus.COMMAND_OK] == []
