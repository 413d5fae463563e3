"""What PostgreSQL plans for each statement on a database with rows: no table is read whole.

With the plan for these very parameters, and with the generic one a prepared statement may get.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import psycopg
import pytest
from psycopg import sql

from holdfast import open as open_store
from holdfast import statements
from holdfast.postgres.compiled import Compiled, Schema
from holdfast.testing.server import fresh_schema, postgres_url
from tests.plans import data, work

STATEMENTS = statements.load("holdfast.postgres.statements")

#: Which index stands for a name of `data.INDEXES` that is a table's.
KEYS = {
    "session": {"session_id_key", "session_pkey"},
    "node": {"node_pkey"},
    "branch": {"branch_pkey"},
    "blob": {"blob_pkey", "blob_ref_key"},
    "blob_ref": {"blob_ref_pkey"},
    "turn_commit": {"turn_commit_pkey"},
    "usage": {"usage_pkey"},
    "attachment": {"attachment_pkey", "attachment_by_owner", "attachment_by_id"},
    "attachment_bytes": {"attachment_bytes_pkey"},
    "attachment_chunk": {"attachment_chunk_pkey"},
    "work": {"work_batch_id_key"},
}

#: Ways through the light commit, whose statements stand in a function.
LIGHT: dict[str, dict[str, Any]] = {
    "append": {},
    "append behind a node": {"start": "node", "anchor": "n7-2"},
    "splice": {"keep": -2},
    "splice in a fork": {"session_id": "fork", "keep": -2},
    "splice on a branch": {"session_id": "long", "keep": 100_000},
    "splice away": {"session_id": "s19996", "keep": 0, "node_id": None},
    "replace": {"start": "root", "detach": True},
    "replace what is long": {"session_id": "long", "start": "root", "detach": True},
    "in a fork": {"session_id": "s19997"},
}


class Plan(NamedTuple):
    """Which tables a statement reads whole, and which indexes it uses."""

    whole: set[str]
    indexes: set[str]


class Database:
    """A schema full of rows, and a connection that plans in one way."""

    def __init__(self, connection: psycopg.Connection[Any], schema: str, mode: str) -> None:
        self.cursor = psycopg.ClientCursor(connection)
        self.schema = schema
        self.mode = mode

    def plan(self, name: str) -> Plan:
        """What the server would do for a statement."""
        ((explained,),) = self.execute("EXPLAIN (FORMAT JSON) ", name, {})
        plan = Plan(set(), set())
        collect(explained[0]["Plan"], plan)
        return plan

    def read_whole(self, name: str, special: dict[str, Any]) -> set[str]:
        """Which tables a statement did read whole, in functions too; it is undone."""
        self.cursor.execute("BEGIN")
        try:
            assert self.execute("", name, special)
            self.cursor.execute(
                "SELECT relname FROM pg_stat_xact_user_tables"
                " WHERE schemaname = %s AND seq_scan > 0",
                [self.schema],
            )
            return {relname for (relname,) in self.cursor.fetchall()}
        finally:
            self.cursor.execute("ROLLBACK")

    def rows_read(self, name: str, special: dict[str, Any]) -> int:
        """How many rows and index entries a statement did read; it is undone."""
        self.cursor.execute("BEGIN")
        try:
            self.cursor.execute(f"SET LOCAL holdfast.section = {work.DEEP}")
            ((explained,),) = self.execute("EXPLAIN (ANALYZE, FORMAT JSON) ", name, special)
            return read_by(explained[0]["Plan"])
        finally:
            self.cursor.execute("ROLLBACK")

    def execute(self, prefix: str, name: str, special: dict[str, Any]) -> list[Any]:
        """Run a statement as the driver does: prepared, with its parameters' types."""
        compiled = Compiled(STATEMENTS[name], Schema(self.schema))
        given = bulk(name) if STATEMENTS[name].bulk else data.arguments(name, compiled.order)
        given |= {each: special[each] for each in special if each in given}
        self.cursor.execute(f"SET plan_cache_mode = {self.mode}")
        self.cursor.execute("DEALLOCATE ALL")
        self.cursor.execute(f"PREPARE plan {self.types(compiled, given)} AS {escaped(compiled)}")
        values = [given[parameter] for parameter in compiled.order]
        places = f"({', '.join(['%s'] * len(values))})" if values else ""
        return self.cursor.execute(f"{prefix}EXECUTE plan{places}", values).fetchall()

    def types(self, compiled: Compiled, given: dict[str, Any]) -> str:
        bound = compiled.bind(
            {n: v for n, v in given.items() if n != "now_ms"}, given.get("now_ms")
        )
        named = self.cursor.execute("SELECT oid, oid::regtype::text FROM pg_type").fetchall()
        names = dict(named) | {0: "unknown"}
        return f"({', '.join(names[oid] for oid in bound.oids)})" if bound.oids else ""


def escaped(compiled: Compiled) -> str:
    """The text, which the client is to leave as it is."""
    return compiled.sql.decode().replace("%", "%%")


def bulk(name: str) -> dict[str, Any]:
    """One row for a bulk statement."""
    text = re.findall(r"%\((\w+)\)s::(\w+)\[\]", STATEMENTS[name].sql)
    one: dict[str, Any] = {"bigint": 1, "text": "t", "bytea": b"b"}
    return {parameter: [one[kind]] for parameter, kind in text}


def collect(node: dict[str, Any], plan: Plan) -> None:
    if node["Node Type"] == "Seq Scan" and not node["Relation Name"].endswith("_seq"):
        plan.whole.add(node["Relation Name"])
    if "Index Name" in node:
        plan.indexes.add(node["Index Name"])
    for inner in node.get("Plans", ()):
        collect(inner, plan)


def read_by(node: dict[str, Any]) -> int:
    """The rows that a plan's scans met, those they dropped included."""
    rows = sum(read_by(inner) for inner in node.get("Plans", ()))
    if "Relation Name" in node or node["Node Type"] == "Bitmap Index Scan":
        dropped = ("Rows Removed by Filter", "Rows Removed by Index Recheck")
        met = node["Actual Rows"] + sum(node.get(each, 0) for each in dropped)
        rows += round(met * node["Actual Loops"])
    return rows


@pytest.fixture(scope="module")
def filled() -> Iterator[tuple[psycopg.Connection[Any], str]]:
    with database_of(data.tables()) as (connection, schema):
        copy(connection, schema, "node", f"branch, ordinal, {data.NODE_COLUMNS}", data.nodes())
        branches = sql.Identifier(schema, "branch")
        restart = sql.SQL("ALTER TABLE {} ALTER id RESTART WITH 1000000")
        connection.execute(restart.format(branches))
        connection.execute("ANALYZE")
        yield connection, schema


@contextmanager
def database_of(tables: Iterable[data.Table]) -> Iterator[tuple[psycopg.Connection[Any], str]]:
    """A schema with some rows, analyzed."""
    url = postgres_url()
    with fresh_schema(url, "plans") as schema:
        with open_store(url, schema=schema):
            pass
        with psycopg.connect(url, autocommit=True) as connection:
            for table in tables:
                copy(connection, schema, table.name, table.columns, table.rows)
            connection.execute("ANALYZE")
            yield connection, schema


def copy(
    connection: psycopg.Connection[Any], schema: str, name: str, columns: str, rows: Any
) -> None:
    listed = sql.SQL(", ").join(map(sql.Identifier, columns.replace(" ", "").split(",")))
    command = sql.SQL("COPY {} ({}) FROM STDIN").format(sql.Identifier(schema, name), listed)
    with connection.cursor().copy(command) as sink:
        for row in rows:
            sink.write_row(row)


MODES = ["force_custom_plan", "force_generic_plan"]


@pytest.fixture(scope="module", params=MODES)
def database(
    request: pytest.FixtureRequest, filled: tuple[psycopg.Connection[Any], str]
) -> Database:
    return Database(*filled, request.param)


@pytest.mark.parametrize("name", sorted(set(STATEMENTS) - data.WHOLE))
def test_no_statement_reads_a_whole_table(database: Database, name: str) -> None:
    assert database.plan(name).whole == set()


@pytest.mark.parametrize("name", sorted(data.INDEXES))
def test_what_is_hot_goes_by_its_indexes(database: Database, name: str) -> None:
    found = database.plan(name).indexes

    for wanted in data.INDEXES[name]:
        assert KEYS.get(wanted, {wanted}) & found, f"{wanted} not among {sorted(found)}"


@pytest.mark.parametrize("shape", sorted(LIGHT))
def test_a_light_commit_reads_no_whole_table(database: Database, shape: str) -> None:
    assert database.read_whole("light_commit", LIGHT[shape]) == set()


@pytest.mark.parametrize("reads", data.READS.values(), ids=data.READS)
def test_what_is_long_is_not_read_whole(database: Database, reads: data.Reads) -> None:
    assert database.rows_read(reads.name, reads.given) <= reads.most


@pytest.mark.parametrize("reads", data.PAGES.values(), ids=data.PAGES)
def test_a_page_is_not_read_past(database: Database, reads: data.Reads) -> None:
    assert 0 < database.rows_read(reads.name, reads.given) <= reads.most


@pytest.fixture(scope="module")
def few() -> Iterator[tuple[psycopg.Connection[Any], str]]:
    """So many sessions that reading all of them looks cheap for a list of a hundred."""
    with database_of(data.few()) as found:
        yield found


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("reads", work.READS.values(), ids=work.READS)
def test_a_short_list_does_not_read_a_few_thousand_sessions(
    few: tuple[psycopg.Connection[Any], str], mode: str, reads: data.Reads
) -> None:
    assert Database(*few, mode).rows_read(reads.name, reads.given) <= reads.most
