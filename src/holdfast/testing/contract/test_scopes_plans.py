"""Extensions 2: what a page of a listing costs beside many sessions of other scopes (EXT-10)."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from holdfast import Settings, statements
from holdfast.operations.listing import list_sessions
from holdfast.rules.scopes import encode_scope
from holdfast.testing.contract.samples import create
from holdfast.testing.world import World
from holdfast.transaction import Call, Done, run_blocking

#: The numbers from 1 on, as each database counts.
_ON_SERVER = "SELECT i FROM generate_series(1, 100000) AS g (i)"
_EMBEDDED = (
    "WITH RECURSIVE g (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM g WHERE i < 100000)"
    " SELECT i FROM g"
)
_SESSIONS = "INSERT INTO {session} (key, id) SELECT 1000000 + i, 'other-' || i FROM (%s) AS n"
_METAS = (
    "INSERT INTO {session_meta} (session, session_name, created_at_ms, model, relation,"
    """ relation_kind) SELECT key, '', 0, '', '{"kind":"root"}', 'root' FROM {session}"""
    " WHERE key > 1000000"
)
_LISTINGS = (
    "INSERT INTO {listing} (session, id, scope, activity_us, updated_at_ms)"
    " SELECT key, id, ?, key, 0 FROM {session} WHERE key > 1000000"
)
_LABELS = (
    "INSERT INTO {label} (session, name, value)"
    " SELECT key, 'colour', 'blue' FROM {session} WHERE key > 1000000"
)


#: How each database shows that it goes through all sessions, or through all of one label.
WHOLE = re.compile(r"Seq Scan|SCAN (l|s|m|lb)\b|SEARCH one|label one|session_meta one")


def crowd(world: World, store: Any) -> None:
    """A hundred thousand sessions of other scopes, made beneath the store."""
    numbers = _ON_SERVER if world.is_server else _EMBEDDED
    with world.beneath(store) as run:
        run("BEGIN")
        run(_SESSIONS.replace("%s", numbers))
        run(_METAS)
        run(_LISTINGS, encode_scope(("other",)))
        run(_LABELS)
        run("COMMIT")
        for table in ("session", "session_meta", "listing", "label"):
            run(f"ANALYZE {{{table}}}")


class Recorder:
    """Takes the statements of an operation instead of running them."""

    def __init__(self) -> None:
        self.calls: list[Call] = []

    async def conclude(self, *calls: Call) -> list[list[Any]]:
        """Nothing is found."""
        self.calls += calls
        return [[] for _ in calls]


def plan(world: World, store: Any, **filters: Any) -> str:
    """How the database finds a page of a listing."""
    recorder = Recorder()
    steps = list_sessions(Settings(), **filters)
    assert not isinstance(steps, Done)
    run_blocking(steps(recorder))  # type: ignore[arg-type]
    (asked,) = recorder.calls
    connection = world._connect(store)
    try:
        if world.is_server:
            return _on_server(world, connection, asked)
        return _embedded(connection, asked)
    finally:
        connection.close()


def _on_server(world: World, connection: Any, asked: Call) -> str:
    from holdfast.postgres.compiled import Compiled, Schema

    statement = statements.load("holdfast.postgres.statements")[asked.name]
    compiled = Compiled(statement, Schema(world.schema))
    bound = compiled.bind(asked.params, None)
    found = connection.pgconn.exec_params(
        b"EXPLAIN " + compiled.sql, bound.values, bound.oids, bound.formats
    )
    assert found.ntuples, found.error_message
    return b"\n".join(found.get_value(row, 0) for row in range(found.ntuples)).decode()


def _embedded(connection: Any, asked: Call) -> str:
    sql = statements.load("holdfast.sqlite.statements")[asked.name].sql
    given = {
        name: json.dumps(value) if isinstance(value, list) else value
        for name, value in asked.params.items()
    }
    return "\n".join(row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {sql}", given))


@pytest.mark.scenario("EXT-T11")
def test_a_hundred_thousand_sessions_of_other_scopes_do_not_change_the_plan(
    world: World, store: Any
) -> None:
    for session_id, scope in (("1", ("a",)), ("2", ("a", "b")), ("3", ("ab",))):
        create(store, session_id, scope=scope, labels={"colour": "red"})
    crowd(world, store)

    found = store.sessions.list(scope_prefix=("a",)).sessions
    assert sorted(line.session_id for line in found) == ["1", "2"]
    # All of the others have this label.
    shared = {"colour": "blue"}
    for filters in ({"scope": ("a",)}, {"scope_prefix": ("a",)}):
        for more in ({}, {"labels": shared}, {"labels": shared, "parent_session_id": "1"}):
            for order in ("activity_desc", "activity_asc"):
                shown = plan(world, store, order=order, **filters, **more)
                assert "listing_by_scope" in shown, shown
                assert not WHOLE.search(shown), shown
    red = store.sessions.list(labels={"colour": "red"}).sessions
    assert sorted(line.session_id for line in red) == ["1", "2", "3"]
    everywhere: tuple[dict[str, Any], ...] = ({}, {"scope_prefix": ()})
    for unscoped in everywhere:
        for order in ("activity_desc", "activity_asc"):
            shown = plan(world, store, order=order, labels={"colour": "red"}, **unscoped)
            assert "label_by_value" in shown, shown
            assert not re.search(r"Seq Scan|SCAN (l|s|m|lb)\b", shown), shown
