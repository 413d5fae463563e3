"""Section 11.6: what the ready list costs beside many sessions that have nothing to do (QUE-23)."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast import ReadySession, Settings, statements
from holdfast.operations import queue
from holdfast.testing.contract.lanes import enqueue, work
from holdfast.testing.contract.samples import lease_on
from holdfast.testing.contract.test_queue_ready import ready
from holdfast.testing.contract.test_scopes_plans import _EMBEDDED, _ON_SERVER, Recorder
from holdfast.testing.world import World
from holdfast.transaction import Call, Done, run_blocking

#: Beneath the store: sessions, what one of them is sent, and since when it is or will be ready.
_SESSIONS = "INSERT INTO {session} (key, id) SELECT 1000000 + i, 'other-' || i FROM (%s) AS n"
_BATCHES = (
    "INSERT INTO {work} (session, batch_id, class, delivery, slot, merge_key, dedupe,"
    " available_at_ms, enqueued_at_ms, ready_at_ms, digest, payloads)"
    " SELECT key, id, 'turn_work', 'after_current_turn_commit', 'exclusive', 'never', 'once',"
    " ? + key, 0, ? + key, '', '[]' FROM {session} WHERE key > 1000000"
)
_READINESS = (
    "INSERT INTO {readiness} (session, id, ready_at_ms, waits)"
    " SELECT key, id, ? + key, true FROM {session} WHERE key > 1000000"
)
#: Makes of what was to come what was there at once, and the clock is behind it.
_AT_ONCE = (
    "UPDATE {work} SET available_at_ms = 0, enqueued_at_ms = ready_at_ms WHERE session > 1000000",
    "UPDATE {readiness} SET waits = false WHERE session > 1000000",
)
#: Steps of SQLite's machine to one row of PostgreSQL's plans: some dozens, and as many to begin.
_STEPS = 100
#: On the order of one.
FEW = 10


def crowd(world: World, store: Any, since_ms: int) -> None:
    """A hundred thousand sessions, one batch each, the first of them available from then on."""
    numbers = _ON_SERVER if world.is_server else _EMBEDDED
    since = since_ms - 1_000_000
    with world.beneath(store) as run:
        run("BEGIN")
        run(_SESSIONS.replace("%s", numbers))
        run(_BATCHES, since, since)
        run(_READINESS, since)
        run("COMMIT")
        for table in ("session", "work", "readiness"):
            run(f"ANALYZE {{{table}}}")


class Asked(Recorder):
    """Takes the statement of an operation that asks for one row."""

    async def maybe(self, name: str, /, **params: Any) -> None:
        """Nothing is found."""
        self.calls.append(Call(name, params))


def rows_read(world: World, store: Any, steps: Any) -> int:
    """How many rows the database touches for an operation's one statement, more or less."""
    assert not isinstance(steps, Done)
    recorder = Asked()
    run_blocking(steps(recorder))
    (asked,) = recorder.calls
    connection = world._connect(store)
    try:
        count = _on_server if world.is_server else _embedded
        return count(world, connection, asked)
    finally:
        connection.close()


def _on_server(world: World, connection: Any, asked: Call) -> int:
    import json

    from holdfast.postgres.compiled import Compiled, Schema

    statement = statements.load("holdfast.postgres.statements")[asked.name]
    compiled = Compiled(statement, Schema(world.schema))
    bound = compiled.bind(asked.params, world.clock.now_ms())
    found = connection.pgconn.exec_params(
        b"EXPLAIN (ANALYZE, FORMAT JSON) " + compiled.sql, bound.values, bound.oids, bound.formats
    )
    assert found.ntuples, found.error_message
    (whole,) = json.loads(found.get_value(0, 0))
    return _scanned(whole["Plan"])


def _scanned(node: dict[str, Any]) -> int:
    below = sum(_scanned(each) for each in node.get("Plans", ()))
    if "Relation Name" not in node:
        return below
    read = node["Actual Rows"] + node.get("Rows Removed by Filter", 0)
    return below + int(read * node["Actual Loops"])


def _embedded(world: World, connection: Any, asked: Call) -> int:
    import apsw

    sql = statements.load("holdfast.sqlite.statements")[asked.name].sql
    steps: list[int] = []
    connection.trace_v2(
        apsw.SQLITE_TRACE_PROFILE,
        lambda event: steps.append(event["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"]),
    )
    connection.execute(sql, {**asked.params, "now_ms": world.clock.now_ms()}).fetchall()
    (taken,) = steps
    return taken // _STEPS


@pytest.mark.scenario("QUE-T33")
def test_one_ready_session_beside_a_hundred_thousand_idle_ones_is_one_to_read(
    world: World, store: Any
) -> None:
    now = world.clock.now_ms()
    enqueue(store)
    crowd(world, store, now + 10_000)

    assert ready(store) == [("s1", now)]
    assert store.queue.next_ready_at_ms() == now + 10_001
    assert rows_read(world, store, queue.ready_sessions(Settings())) <= FEW
    assert rows_read(world, store, queue.next_ready_at_ms(Settings())) <= FEW


def test_what_a_deleted_session_had_to_come_is_not_read(world: World, store: Any) -> None:
    due = world.clock.now_ms() + 10_000
    for session_id in ("gone", "kept"):
        later = [work(session_id=session_id, available_at_ms=due) for _ in range(1_000)]
        store.queue.enqueue_many(later)
    enqueue(store, session_id="gone")

    store.sessions.delete("gone")

    assert store.queue.next_ready_at_ms() == due
    assert rows_read(world, store, queue.next_ready_at_ms(Settings())) <= FEW
    store.sessions.delete("kept")
    assert store.queue.next_ready_at_ms() is None
    assert rows_read(world, store, queue.next_ready_at_ms(Settings())) <= FEW
    store.maintenance.vacuum()
    assert world.sql(store, "SELECT count(*) FROM {work}") == [(0,)]


def test_a_page_far_down_the_list_reads_what_it_shows(world: World, store: Any) -> None:
    now = world.clock.now_ms()
    enqueue(store)
    crowd(world, store, now - 200_000)
    last = ReadySession("other-99990", now - 200_000 + 99_990)

    page = store.queue.ready_sessions(limit=2, after=last)

    assert [each.session_id for each in page] == ["other-99991", "other-99992"]
    assert rows_read(world, store, queue.ready_sessions(Settings(), 2, last)) <= FEW
    assert rows_read(world, store, queue.ready_sessions(Settings(), 2)) <= FEW
    assert store.queue.next_ready_at_ms() is None


def test_after_a_step_back_of_the_clock_a_page_reads_what_it_shows(
    world: World, store: Any
) -> None:
    assert ready(store) == []
    crowd(world, store, world.clock.now_ms() + 200_000)
    with world.beneath(store) as run:
        for change in _AT_ONCE:
            run(change)

    page = store.queue.ready_sessions(limit=2)

    assert [each.session_id for each in page] == ["other-1", "other-2"]
    assert rows_read(world, store, queue.ready_sessions(Settings(), 2)) <= FEW
    last = ReadySession("other-99990", world.clock.now_ms() + 200_000 + 99_990)
    assert rows_read(world, store, queue.ready_sessions(Settings(), 2, last)) <= FEW


def test_sessions_at_work_are_read_and_nothing_beyond_the_page(world: World, store: Any) -> None:
    for number in range(5):
        enqueue(store, session_id=f"busy-{number}")
        lease_on(store, f"busy-{number}")
    crowd(world, store, world.clock.now_ms() - 200_000)
    world.sql(store, "UPDATE {readiness} SET ready_at_ms = 0 WHERE session < 1000000")

    assert [id for id, _ in ready(store, limit=1)] == ["other-1"]
    assert rows_read(world, store, queue.ready_sessions(Settings(), 1)) <= 2 * FEW
