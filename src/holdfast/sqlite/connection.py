"""One SQLite connection that runs statements by name, for one thread at a time."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import apsw
import msgspec

from holdfast.sqlite import forks
from holdfast.sqlite.plans import Part, Plan, Plans
from holdfast.transaction import Row


class Watch:
    """What every connection of a store reports: to a test's hook, and to the counters."""

    __slots__ = ("counts", "on_statement")

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.on_statement: Callable[[str, str], None] | None = None

    def tell(self, name: str, moment: str) -> None:
        """Tell the hook, which may raise, that a statement begins or has ended."""
        if self.on_statement is not None:
            self.on_statement(name, moment)


class Connection:
    """Runs the statements of a store on one SQLite connection."""

    __slots__ = ("__weakref__", "_cursor", "_plans", "_watch", "raw")

    def __init__(self, raw: apsw.Connection, plans: Plans, watch: Watch) -> None:
        raw.convert_binding = _as_json
        self.raw = raw
        self._cursor = raw.cursor()
        self._plans = plans
        self._watch = watch
        forks.note(self)

    def control(self, sql: str) -> None:
        """Run a statement that begins, ends or marks a transaction."""
        self._cursor.execute(sql)

    def rollback(self) -> bool:
        """End a transaction that failed; whether the connection can go on."""
        with contextlib.suppress(apsw.Error):
            if self.raw.in_transaction:
                self._cursor.execute("ROLLBACK")
        return not self.raw.in_transaction

    def run(self, name: str, params: Mapping[str, Any], now: Callable[[], int]) -> list[Row]:
        """Run a named statement; its rows, those of all its parts in order."""
        plan = self._plans[name]
        if len(params) != plan.arity:
            raise plan.mismatch(params)
        if plan.needs_now:
            params = {**params, "now_ms": now()}
        if len(plan.parts) == 1:
            return self._step(plan, plan.parts[0], params)
        return [row for part in plan.parts for row in self._step(plan, part, params)]

    def run_bulk(
        self, name: str, rows: Sequence[tuple[Any, ...]], now: Callable[[], int]
    ) -> list[Row]:
        """Run a named bulk statement, in as few statements as its rows need."""
        plan = self._plans[name]
        found: list[Row] = []
        for part, values in plan.chunks(rows, now() if plan.needs_now else None):
            found += self._step(plan, part, values)
        return found

    def close(self) -> None:
        """Close for good. Only ever called by the process that opened."""
        self.raw.close(True)

    def _step(self, plan: Plan, part: Part, bindings: Any) -> list[Row]:
        watch = self._watch
        if watch.on_statement is not None:
            watch.on_statement(plan.name, "before")
        watch.counts[plan.name] += 1
        columns = part.columns
        if columns is None:
            columns = part.columns = self._columns(part.sql, bindings)
        cursor = self._cursor.execute(part.sql, bindings, can_cache=part.keep)
        rows: list[Row]
        if not columns:
            rows = []
        elif plan.tuples:
            rows = cursor.fetchall()
        else:
            rows = [dict(zip(columns, row)) for row in cursor]  # noqa: B905
        if watch.on_statement is not None:
            watch.on_statement(plan.name, "after")
        return rows

    def _columns(self, sql: str, bindings: Any) -> tuple[str, ...]:
        """The names of a statement's columns, without running it."""
        found: list[str] = []

        def look(cursor: apsw.Cursor, _sql: str, _bindings: Any) -> bool:
            found.extend(column[0] for column in cursor.get_description())
            return False

        probe = self.raw.cursor()
        probe.exec_trace = look
        with contextlib.suppress(apsw.ExecTraceAbort):
            probe.execute(sql, bindings)
        return tuple(found)


def _as_json(_cursor: apsw.Cursor, _index: int, value: object) -> str:
    """Bind a list as the JSON text that `json_each` reads."""
    if not isinstance(value, (list, tuple)):
        raise TypeError(f"SQLite stores no {type(value).__name__}")
    return msgspec.json.encode(value).decode()
