"""Creates the schema of a database, or brings it forward, in one transaction (FAC-18).

A new file gets its schema while it still has a rollback journal, and the write-ahead log is
switched on afterwards. So our mark is always in the header of the file itself, where it can be
looked for without opening the database.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import apsw

from holdfast.errors import CorruptRecord, NotAStore
from holdfast.migrations import Migration
from holdfast.rules.versions import Decision, judge
from holdfast.settings import Settings, SystemClock
from holdfast.sqlite.opening import APPLICATION_ID

_RECORD = """
CREATE TABLE migration (
    number INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    oldest_reader INTEGER NOT NULL,
    oldest_writer INTEGER NOT NULL,
    applied_at_ms INTEGER NOT NULL
)
"""


class Stamp(NamedTuple):
    """The newest migration a store has seen; number 0 means that it is empty."""

    number: int
    oldest_reader: int
    oldest_writer: int


EMPTY = Stamp(0, 0, 0)


def prepare(
    raw: apsw.Connection, target: str, migrations: Sequence[Migration], settings: Settings
) -> Decision:
    """Create or migrate what is needed; how the store may be used. Raises while it is busy."""
    with _transaction(raw, "BEGIN"):
        decision = _decide(_stamp(raw, target), migrations, settings, target)
    if decision is not Decision.MIGRATE:
        return decision
    with _transaction(raw, "BEGIN IMMEDIATE"):
        stamp = _stamp(raw, target)  # again: another opener may have been faster
        decision = _decide(stamp, migrations, settings, target)
        if decision is Decision.MIGRATE:
            _bring_forward(raw, stamp, migrations, settings)
            decision = Decision.OPEN
    return decision


def _decide(
    stamp: Stamp, migrations: Sequence[Migration], settings: Settings, target: str
) -> Decision:
    if stamp == EMPTY:
        if settings.read_only or not settings.create:
            raise NotAStore(target, "empty, and not to be created")
        return Decision.MIGRATE
    return judge(*stamp, len(migrations), migrate=settings.migrate, read_only=settings.read_only)


def _stamp(raw: apsw.Connection, target: str) -> Stamp:
    tables = {name for (name,) in raw.execute("SELECT name FROM sqlite_schema")}
    if not tables:
        return EMPTY
    if "migration" not in tables:
        raise NotAStore(target, "a database of another program")
    newest: list[Any] = raw.execute(
        "SELECT number, oldest_reader, oldest_writer FROM migration ORDER BY number DESC LIMIT 1"
    ).fetchall()
    if not newest:
        raise NotAStore(target, "a database without a record of its migrations")
    if not all(isinstance(number, int) for number in newest[0]):
        raise CorruptRecord("migration", str(newest[0][0]), "its numbers are no integers")
    return Stamp(*newest[0])


def _bring_forward(
    raw: apsw.Connection, stamp: Stamp, migrations: Sequence[Migration], settings: Settings
) -> None:
    if stamp == EMPTY:
        _remove_stale_log(raw)
        raw.pragma("application_id", APPLICATION_ID)
        raw.execute(_RECORD)
    now_ms = (settings.clock or SystemClock()).now_ms()
    for each in migrations[stamp.number :]:
        raw.execute(each.sql).fetchall()
        raw.execute(
            "INSERT INTO migration VALUES (?, ?, ?, ?, ?)",
            (each.number, each.name, each.oldest_reader, each.oldest_writer, now_ms),
        )


def _remove_stale_log(raw: apsw.Connection) -> None:
    """Remove what a log left behind whose main file was removed (FAC-16).

    Under the write lock of an empty file nobody can be using them for it. Its old index would be
    shared with a process that still has the removed file open.
    """
    log = raw.filename_wal
    if log and raw.pragma("journal_mode") != "wal":
        for name in (log, log.removesuffix("-wal") + "-shm"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name)


@contextlib.contextmanager
def _transaction(raw: apsw.Connection, begin: str) -> Iterator[None]:
    raw.execute(begin)
    try:
        yield
        raw.execute("COMMIT")
    finally:
        if raw.in_transaction:
            raw.execute("ROLLBACK")
