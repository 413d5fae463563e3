"""Queued work by hand: one statement for each step, on the same driver and the same table.

Nothing is decided: no lease, no source key, no order of classes, nobody is told who has what.
Nothing is written beside the batch's row either: not that its session has something to do.
"""

from __future__ import annotations

import itertools
from typing import Any, Protocol

from benchmarks.databases import Database

_numbers = itertools.count()
_PAYLOADS = '[{"item":100000,"type":"item"}]'

_INSERT = (
    "INSERT INTO {work} (session, batch_id, class, delivery, slot, merge_key, dedupe,"
    " available_at_ms, enqueued_at_ms, ready_at_ms, digest, payloads)"
    " VALUES (1, {0}, 'turn_work', 'earliest_safe_boundary', 'exclusive', '\"never\"', 'once',"
    " 0, 1, 1, {1}, {2})"
)
_CLAIM = (
    "UPDATE {work} SET claim_id = 'c', claim_token = {0}, claim_owner = 'o',"
    " claim_generation = 1, claim_count = claim_count + 1"
    " WHERE seq = (SELECT seq FROM {work} WHERE session = 1 AND settled_at_ms IS NULL"
    " AND claim_token IS NULL ORDER BY seq LIMIT 1{lock}) RETURNING seq, payloads"
)
_DELETE = "DELETE FROM {work} WHERE session = 1 AND claim_token = {0}"


class Floor(Protocol):
    """The three steps, each a transaction of its own."""

    def enqueue(self) -> None:
        """Insert a batch."""

    def claim(self) -> bool:
        """Take the first one, if there is one."""

    def complete(self) -> None:
        """Remove what was taken last."""

    def close(self) -> None:
        """Let go of the database."""


class SqliteQueue:
    """One connection to a file that holdfast made, at full sync."""

    def __init__(self, place: Database) -> None:
        import apsw

        self._raw = apsw.Connection(place.path, statementcachesize=400)
        self._raw.pragma("synchronous", "full")
        self._raw.set_busy_timeout(5_000)
        self._execute = self._raw.cursor().execute
        self._insert = _INSERT.format("?", "?", "?", work="work")
        self._claim = _CLAIM.format("?", work="work", lock="")
        self._delete = _DELETE.format("?", work="work")
        self._token = ""

    def enqueue(self) -> None:
        """Insert a batch."""
        self._write(self._insert, (f"b{next(_numbers)}", "d" * 64, _PAYLOADS))

    def claim(self) -> bool:
        """Take the first one, if there is one."""
        self._token = f"t{next(_numbers)}"
        return bool(self._write(self._claim, (self._token,)))

    def complete(self) -> None:
        """Remove what was taken last."""
        self._write(self._delete, (self._token,))

    def _write(self, sql: str, values: tuple[Any, ...]) -> list[Any]:
        self._execute("BEGIN IMMEDIATE")
        rows: list[Any] = self._execute(sql, values).fetchall()
        self._execute("COMMIT")
        return rows

    def close(self) -> None:
        """Let go of the database."""
        self._raw.close()


class PostgresQueue:
    """One connection in autocommit, with prepared statements."""

    def __init__(self, place: Database) -> None:
        import psycopg

        self._raw: Any = psycopg.connect(place.url, autocommit=True, prepare_threshold=0)
        work = f'"{place.schema}".work'
        self._insert = _INSERT.format("%s", "%s", "%s", work=work)
        self._claim = _CLAIM.format("%s", work=work, lock=" FOR UPDATE SKIP LOCKED")
        self._delete = _DELETE.format("%s", work=work)
        self._token = ""

    def enqueue(self) -> None:
        """Insert a batch."""
        self._raw.execute(self._insert, (f"b{next(_numbers)}", "d" * 64, _PAYLOADS))

    def claim(self) -> bool:
        """Take the first one, if there is one."""
        self._token = f"t{next(_numbers)}"
        return bool(self._raw.execute(self._claim, (self._token,)).fetchall())

    def complete(self) -> None:
        """Remove what was taken last."""
        self._raw.execute(self._delete, (self._token,))

    def close(self) -> None:
        """Let go of the database."""
        self._raw.close()


FLOORS: dict[str, type[SqliteQueue] | type[PostgresQueue]] = {
    "sqlite": SqliteQueue,
    "postgres": PostgresQueue,
}
