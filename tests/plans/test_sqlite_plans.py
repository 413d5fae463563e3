"""What SQLite does for each statement on a database with rows: searches, and nothing whole.

The plan is read from the program itself: `Rewind` and `Last` begin a walk over a table or index
from its end, and a cursor's root page says which one it is.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import apsw
import pytest

from holdfast import open as open_store
from holdfast import statements
from holdfast.sqlite.plans import Plan
from tests.plans import data, work

STATEMENTS = statements.load("holdfast.sqlite.statements")

#: What it takes to look at a row and to write it, indexes included.
STEPS_PER_ROW = 100

#: What is walked in its own order, and only as far as its first row, or as its oldest ones.
FIRST = {"next_removal": {"removal"}, "dead_intents": {"attachment_by_intent"}}


class Program(NamedTuple):
    """What a statement opens, and what of it is walked from an end."""

    opened: set[str]
    walked: set[str]


@pytest.fixture(scope="module", params=["fresh", "analyzed"])
def database(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[apsw.Connection]:
    path = tmp_path_factory.mktemp("plans") / "store.db"
    with open_store(f"sqlite:///{path}"):
        pass
    connection = apsw.Connection(str(path))
    connection.convert_binding = lambda _cursor, _number, value: json.dumps(value)
    with connection:
        for table in data.tables():
            insert(connection, table.name, table.columns, table.rows)
        keyed = [((branch << 28) + ordinal, *rest) for branch, ordinal, *rest in data.nodes()]
        insert(connection, "node", f"key, {data.NODE_COLUMNS}", keyed)
    if request.param == "analyzed":
        connection.execute("ANALYZE")
    yield connection
    connection.close()


def insert(connection: apsw.Connection, name: str, columns: str, rows: data.Rows) -> None:
    places = ", ".join("?" * (columns.count(",") + 1))
    connection.executemany(f"INSERT INTO {name} ({columns}) VALUES ({places})", rows)


def program(connection: apsw.Connection, name: str) -> Program:
    pages = dict(connection.execute("SELECT rootpage, name FROM sqlite_schema"))
    opened, walked = set[str](), set[str]()
    for sql, bindings in texts(name):
        cursors: dict[int, str] = {}
        for _, opcode, p1, p2, *_rest in connection.execute(f"EXPLAIN {sql}", bindings):
            if opcode in ("OpenRead", "OpenWrite"):
                cursors[p1] = pages[p2].removeprefix("sqlite_autoindex_").removesuffix("_1")
                opened.add(cursors[p1])
            elif opcode in ("Rewind", "Last") and p1 in cursors:
                walked.add(cursors[p1])
    return Program(opened, walked - {"sqlite_sequence"})  # which has a row or two


def steps(connection: apsw.Connection, name: str, special: dict[str, Any]) -> int:
    """How long the programs of a statement run; what they do is undone."""
    told: list[Any] = []
    connection.trace_v2(apsw.SQLITE_TRACE_PROFILE, told.append)
    connection.execute("BEGIN")
    try:
        for sql, bindings in texts(name, special):
            connection.execute(sql, bindings).fetchall()
    finally:
        connection.execute("ROLLBACK")
        connection.trace_v2(0)
    return sum(each["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"] for each in told)


def texts(name: str, special: dict[str, Any] | None = None) -> Iterator[tuple[str, Any]]:
    """The parts of a statement with their bindings."""
    statement = STATEMENTS[name]
    plan = Plan(statement)
    if statement.bulk:
        rows = [tuple([1] * len(statement.bulk))]
        yield from ((part.sql, values) for part, values in plan.chunks(rows, 1))
        return
    bindings = data.arguments(name, statement.params, special)
    yield from ((part.sql, bindings) for part in plan.parts)


@pytest.mark.parametrize("name", sorted(set(STATEMENTS) - data.WHOLE))
def test_no_statement_walks_a_whole_table(database: apsw.Connection, name: str) -> None:
    assert program(database, name).walked == FIRST.get(name, set())


@pytest.mark.parametrize("name", sorted(set(data.INDEXES) & set(STATEMENTS)))
def test_what_is_hot_goes_by_its_indexes(database: apsw.Connection, name: str) -> None:
    found = program(database, name)

    assert data.INDEXES[name] <= found.opened
    assert found.walked == set()


@pytest.mark.parametrize("reads", data.READS.values(), ids=data.READS)
def test_what_is_long_is_not_read_whole(database: apsw.Connection, reads: work.Reads) -> None:
    assert 0 < steps(database, reads.name, reads.given) < STEPS_PER_ROW * reads.most
