"""The named SQL and the migrations of a backend, and who may open which schema."""

from __future__ import annotations

import pytest

from holdfast import migrations, statements
from holdfast.errors import UnsupportedStoreVersion
from holdfast.rules.versions import Decision, judge
from holdfast.statements import BadStatement, Statement, parse


def one(text: str) -> Statement:
    (found,) = parse({"area.sql": text}).values()
    return found


def test_a_name_its_comment_its_directives_and_its_sql():
    found = one(
        "-- about this file\n\n-- name: read_head\n-- Why so.\n-- returns: tuples\n"
        "SELECT 1 -- here\n WHERE :id = 2;\n"
    )

    assert found.name == "read_head"
    assert found.comment == "Why so."
    assert found.tuples
    assert found.sql == "SELECT 1 -- here\n WHERE :id = 2;"
    assert found.params == {"id"}


@pytest.mark.invariant("INV-9")
@pytest.mark.parametrize(
    ("sql", "names"),
    [
        ("SELECT :a, :b_2, :a", {"a", "b_2"}),
        ("SELECT %(a)s, %(b)s::text[]", {"a", "b"}),
        ("SELECT x::text, y::bigint[], l[lo:hi]", set()),
        ("SELECT ':a', 'it''s :b', \":c\", `:d`, '%(e)s'", set()),
        ("SELECT 1 -- :a and 'b\n, /* :c ' */ :d", {"d"}),
        ("SELECT $$ :a $$, $f$ :b $f$, $1, 5 %% 2, '%%(c)s'", set()),
        ("VALUES (:a,:b),(:c)", {"a", "b", "c"}),
    ],
)
def test_parameters_stand_in_code_only(sql, names):
    assert statements.parameters(sql) == names


def test_the_clock_is_not_asked_of_the_caller():
    found = one("-- name: touch\nUPDATE t SET at = :now_ms WHERE id = :id")

    assert found.params == {"now_ms", "id"}
    assert found.arguments == {"id"}


def test_fragments_are_put_in_place_also_within_each_other():
    found = parse(
        {
            "a.sql": "-- name: read\nSELECT '{live}' FROM t WHERE {live} /* {live} */",
            "b.sql": "-- fragment: live\n-- Why.\n{mine} AND gone = 0\n-- fragment: mine\nid = :id",
        }
    )

    assert found["read"].sql == "SELECT '{live}' FROM t WHERE id = :id AND gone = 0 /* {live} */"
    assert found["read"].params == {"id"}


@pytest.mark.parametrize("rows", ["VALUES :rows", "SELECT * FROM unnest(%(a)s::int[], %(b)s)"])
def test_a_bulk_statement_names_its_columns(rows):
    found = one(f"-- name: add\n-- bulk: a, b\nINSERT INTO t {rows}")

    assert found.bulk == ("a", "b")
    assert found.arguments == frozenset()


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1;\n-- name: a\nSELECT 2",
        "-- name: a\n-- only a comment",
        "-- name: two words\nSELECT 1",
        "-- name: a\nSELECT 1;\n-- name: a\nSELECT 2",
        "-- name: a\n-- returns: one\nSELECT 1",
        "-- name: a\n-- bulk: x\nINSERT INTO t SELECT :other FROM (VALUES :rows)",
        "-- name: a\nSELECT {nothing}",
        "-- name: a\nSELECT {b}\n-- fragment: b\n1 + {b}",
    ],
)
def test_a_wrong_file_is_loud(text):
    with pytest.raises(BadStatement):
        parse({"area.sql": text})


def test_a_name_is_used_once_in_a_folder(tmp_path):
    (tmp_path / "a.sql").write_text("-- name: same\nSELECT 1")
    (tmp_path / "b.sql").write_text("-- name: same\nSELECT 2")

    with pytest.raises(BadStatement, match=r"b\.sql"):
        statements.load(tmp_path)


def test_splitting_heeds_quotes_and_comments():
    sql = "SELECT ';' -- ; no\n; /* ; */ UPDATE t SET a = ';';\n-- the end"

    assert statements.split(sql) == ["SELECT ';'", "UPDATE t SET a = ';'"]


@pytest.mark.parametrize("backend", ["sqlite", "postgres"])
def test_what_is_shipped_loads(backend):
    statements.load(f"holdfast.{backend}.statements")
    assert migrations.load(f"holdfast.{backend}.migrations")[0].number == 1


HEADER = "-- oldest_reader: 1\n-- oldest_writer: 2\n"


def test_migrations_come_in_order_with_who_may_use_the_result(tmp_path):
    (tmp_path / "0002_more.sql").write_text(HEADER + "CREATE TABLE b (x);")
    (tmp_path / "0001_first.sql").write_text(HEADER.replace("2", "1") + "CREATE TABLE a (x);")

    first, second = migrations.load(tmp_path)

    assert (first.number, first.name, first.sql) == (1, "first", "CREATE TABLE a (x);")
    assert (second.number, second.oldest_reader, second.oldest_writer) == (2, 1, 2)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("0002_gap.sql", HEADER),
        ("1_short.sql", HEADER.replace("2", "1")),
        ("0001_bare.sql", "CREATE TABLE a (x);"),
        ("0001_future.sql", HEADER),
    ],
)
def test_a_wrong_migration_is_loud(tmp_path, name, text):
    (tmp_path / name).write_text(text)

    with pytest.raises(migrations.BadMigration):
        migrations.load(tmp_path)


OPEN, LOOK, MOVE = Decision.OPEN, Decision.OPEN_READ_ONLY, Decision.MIGRATE


@pytest.mark.parametrize(
    ("found", "reader", "writer", "migrate", "read_only", "answer"),
    [
        (5, 5, 5, True, False, OPEN),
        (5, 1, 1, False, True, OPEN),
        (4, 1, 4, True, False, MOVE),
        (4, 1, 4, False, False, (4, 5, 5)),
        (4, 1, 4, True, True, (4, 5, 5)),
        (6, 1, 5, True, False, OPEN),
        (6, 5, 6, True, False, LOOK),
        (6, 5, 6, True, True, LOOK),
        (6, 6, 6, True, False, (6, 1, 5)),
        (99, 99, 99, True, True, (99, 1, 5)),
        (0, 0, 0, True, False, (0, 1, 5)),
    ],
)
def test_who_may_open_which_schema(found, reader, writer, migrate, read_only, answer):
    """A library of schema 5 meets stores older, equal and newer."""
    if isinstance(answer, Decision):
        decision = judge(found, reader, writer, 5, migrate=migrate, read_only=read_only)
        assert decision is answer
        return
    with pytest.raises(UnsupportedStoreVersion) as refused:
        judge(found, reader, writer, 5, migrate=migrate, read_only=read_only)
    assert refused.value.component == "schema"
    assert (refused.value.found, refused.value.supported_min, refused.value.supported_max) == answer
