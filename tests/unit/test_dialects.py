"""Both dialects have the same statements; each is used; a schema is the sum of its migrations."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import apsw
import psycopg
import pytest

import holdfast
from holdfast import migrations, statements
from holdfast.testing.server import fresh_schema, postgres_url

OPERATIONS = Path(holdfast.__file__).parent / "operations"
SQLITE = statements.load("holdfast.sqlite.statements")
POSTGRES = statements.load("holdfast.postgres.statements")
#: What PostgreSQL does in one trip for the plain case, and SQLite in several statements.
PROMOTED = {"light_commit"}
#: The functions of operations that take a statement's name, and the place of it.
NAMING = {"call": 0, "bulk": 0, "maybe": 0, "all": 0, "_batch": 1, "_look": 1, "_until_done": 1}
#: Parameters of those functions that are none of the statement.
NOT_PASSED_ON = {"run", "rows"}


class Use(NamedTuple):
    """A place where an operation names a statement, and the parameters it spells out."""

    where: str
    name: str
    keywords: frozenset[str]
    whole: bool


def _uses() -> Iterator[Use]:
    for file in sorted(OPERATIONS.glob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and (use := _use(file.name, node)) is not None:
                yield use


def _use(file: str, node: ast.Call) -> Use | None:
    function = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
    place = NAMING.get(function)
    if place is None or len(node.args) <= place:
        return None
    named = node.args[place]
    if not (isinstance(named, ast.Constant) and isinstance(named.value, str)):
        return None
    keywords = frozenset(each.arg for each in node.keywords if each.arg) - NOT_PASSED_ON
    whole = all(each.arg for each in node.keywords) and function != "bulk"
    return Use(f"{file}:{node.lineno}", named.value, keywords, whole)


def _texts() -> Iterator[re.Pattern[str]]:
    """Every text an operation writes, as a pattern: what is put into it may be any word."""
    for file in OPERATIONS.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield re.compile(re.escape(node.value))
            if isinstance(node, ast.JoinedStr):
                parts = (
                    re.escape(str(part.value)) if isinstance(part, ast.Constant) else r"\w+"
                    for part in node.values
                )
                yield re.compile("".join(parts))


def test_both_dialects_have_the_same_statements():
    assert set(POSTGRES) - set(SQLITE) == PROMOTED
    assert set(SQLITE) <= set(POSTGRES)


@pytest.mark.parametrize("name", sorted(SQLITE))
def test_a_statement_is_called_and_answers_alike_in_both_dialects(name):
    one, other = SQLITE[name], POSTGRES[name]

    assert one.arguments == other.arguments
    assert one.bulk == other.bulk
    assert one.tuples == other.tuples


def test_every_statement_is_used_by_an_operation():
    texts = list(_texts())

    assert [name for name in POSTGRES if not any(text.fullmatch(name) for text in texts)] == []


def test_operations_name_only_statements_that_there_are():
    uses = list(_uses())

    assert len(uses) > 50
    assert [use for use in uses if use.name not in SQLITE] == []


def test_operations_give_a_statement_what_it_takes():
    for use in _uses():
        wanted = SQLITE[use.name].arguments
        assert use.keywords <= wanted, use
        assert use.keywords == wanted or not use.whole, use


# --- the schema --------------------------------------------------------------------------


def _embedded(raw: apsw.Connection) -> list[Any]:
    found = raw.execute("SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY 1, 2")
    return [row for row in found if row[2] != "migration"]


@pytest.mark.invariant("INV-34")
def test_a_fresh_file_has_what_its_migrations_make(tmp_path):
    holdfast.open(f"sqlite:///{tmp_path / 'store.db'}").open().close()
    by_hand = apsw.Connection(":memory:")
    for each in migrations.load("holdfast.sqlite.migrations"):
        by_hand.execute(each.sql)
    store = apsw.Connection(str(tmp_path / "store.db"), flags=apsw.SQLITE_OPEN_READONLY)

    assert _embedded(store) == _embedded(by_hand) != []
    store.close()


_CATALOG = {
    "relations": "SELECT relkind::text, relname::text, reloptions FROM pg_class"
    " WHERE relnamespace = %s::regnamespace",
    "columns": "SELECT c.relname::text, a.attname::text, format_type(a.atttypid, a.atttypmod),"
    "  a.attnotnull, a.attidentity::text, a.attstorage::text, l.collname::text,"
    "  pg_get_expr(d.adbin, d.adrelid)"
    " FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid"
    " LEFT JOIN pg_collation l ON l.oid = a.attcollation"
    " LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum"
    " WHERE c.relnamespace = %s::regnamespace AND c.relkind = 'r' AND a.attnum > 0",
    "constraints": "SELECT conrelid::regclass::text, conname::text, pg_get_constraintdef(oid)"
    " FROM pg_constraint WHERE connamespace = %s::regnamespace AND contype <> 'n'",
    "indexes": "SELECT indexname::text, indexdef FROM pg_indexes WHERE schemaname = %s",
    "functions": "SELECT proname::text, pg_get_functiondef(oid) FROM pg_proc"
    " WHERE pronamespace = %s::regnamespace",
}


def _on_server(connection: psycopg.Connection[Any], schema: str) -> dict[str, set[Any]]:
    found = {}
    for kind, text in _CATALOG.items():
        rows = connection.execute(text, (schema,)).fetchall()
        told = (" ".join(map(str, row)).replace(schema, "holdfast") for row in rows)
        found[kind] = {row.replace('"', "") for row in told if "migration" not in row}
    return found


@pytest.mark.invariant("INV-34")
def test_a_fresh_schema_has_what_its_migrations_make():
    url = postgres_url()
    with fresh_schema(url) as opened, fresh_schema(url) as by_hand:
        holdfast.open(url, schema=opened).open().close()
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(f"CREATE SCHEMA {by_hand}")
            for each in migrations.load("holdfast.postgres.migrations"):
                connection.execute(re.sub(r"\bholdfast\.", f"{by_hand}.", each.sql))

            assert _uncommented(_on_server(connection, opened)) == _uncommented(
                _on_server(connection, by_hand)
            )


def _uncommented(found: dict[str, set[str]]) -> dict[str, set[str]]:
    """The store sends its SQL without comments, which a function's body would keep."""
    assert all(found.values())
    return {
        kind: {" ".join(re.sub(r"--.*", " ", row).split()) for row in rows}
        for kind, rows in found.items()
    }
