"""A turn commit as it is often written: text keys, a statement for each row, and a count.

It stores what a turn of 28 KB stores, uncompressed, in tables of its own, in one transaction, and
decides nothing.
"""

from __future__ import annotations

import hashlib
import sqlite3
import threading
from collections.abc import Callable
from typing import Any

import msgspec

from benchmarks import samples
from benchmarks.databases import Bench, Database

_TABLES = (
    "CREATE TABLE head (id TEXT PRIMARY KEY, revision INTEGER, leaf TEXT, checkpoint TEXT)",
    "CREATE TABLE message (session TEXT, id TEXT, body TEXT, dead INTEGER DEFAULT 0,"
    " PRIMARY KEY (session, id))",
    "CREATE TABLE state (hash TEXT PRIMARY KEY, body {bytes})",
    "CREATE TABLE tokens (session TEXT, id TEXT, body TEXT, PRIMARY KEY (session, id))",
    "CREATE TABLE turn (session TEXT, id TEXT, hash TEXT, PRIMARY KEY (session, id))",
)
#: Messages that a session holds before.
_HELD = 1_000

#: Runs one statement; its rows.
Execute = Callable[[str, tuple[Any, ...]], list[Any]]


def commit_turn(execute: Execute, session_id: str) -> None:
    """Thirteen statements, each a round trip where there is a server."""
    turn = f"t{next(samples.numbers)}"
    state = turn.encode() + samples.STATE
    digest = hashlib.sha256(state).hexdigest()
    execute("BEGIN", ())
    [(revision, _)] = execute("SELECT revision, leaf FROM head WHERE id = ?", (session_id,))
    execute("SELECT hash FROM turn WHERE session = ? AND id = ?", (session_id, turn))
    execute("INSERT INTO state VALUES (?, ?) ON CONFLICT DO NOTHING", (digest, state))
    execute("INSERT INTO tokens VALUES (?, ?, ?)", (session_id, turn, '{"input_tokens": 10}'))
    for index in range(4):
        body = msgspec.json.encode(samples.LARGE).decode()
        execute(
            "INSERT INTO message VALUES (?, ?, ?, 0) ON CONFLICT DO NOTHING",
            (session_id, f"{turn}-{index}", body),
        )
    execute("SELECT count(*) FROM message WHERE session = ? AND dead = 0", (session_id,))
    execute(
        "UPDATE head SET revision = ?, leaf = ?, checkpoint = ? WHERE id = ? AND revision = ?",
        (revision + 1, f"{turn}-3", digest, session_id, revision),
    )
    execute("INSERT INTO turn VALUES (?, ?, ?)", (session_id, turn, digest))
    execute("COMMIT", ())


def on_sqlite(bench: Bench, place: Database, names: list[str]) -> Callable[[int], None]:
    """Commits turns with the standard module, one caller at a time."""
    raw = sqlite3.connect(place.path, isolation_level=None, check_same_thread=False)
    bench.callback(raw.close)
    turns = threading.Lock()

    def execute(sql: str, values: tuple[Any, ...]) -> list[Any]:
        return raw.execute(sql, values).fetchall()

    execute("PRAGMA journal_mode = WAL", ())
    execute("PRAGMA synchronous = FULL", ())
    _fill(execute, names, "BLOB")

    def commit(number: int) -> None:
        with turns:
            commit_turn(execute, names[number])

    return commit


def on_postgres(bench: Bench, place: Database, names: list[str]) -> Callable[[int], None]:
    """Commits turns on a connection for each caller."""
    import psycopg

    def connect() -> Execute:
        raw: Any = bench.enter_context(psycopg.connect(place.url, autocommit=True))
        raw.execute(f'SET search_path = "{place.schema}_plain"')

        def execute(sql: str, values: tuple[Any, ...]) -> list[Any]:
            cursor = raw.execute(sql.replace("?", "%s"), values)
            rows: list[Any] = cursor.fetchall() if cursor.description else []
            return rows

        return execute

    connections = [connect() for _ in names]
    connections[0](f'CREATE SCHEMA "{place.schema}_plain"', ())
    _fill(connections[0], names, "BYTEA")
    bench.callback(connections[0], f'DROP SCHEMA "{place.schema}_plain" CASCADE', ())
    return lambda number: commit_turn(connections[number], names[number])


def _fill(execute: Execute, names: list[str], type_of_bytes: str) -> None:
    for table in _TABLES:
        execute(table.format(bytes=type_of_bytes), ())
    execute("BEGIN", ())
    for name in names:
        execute("INSERT INTO head VALUES (?, 0, NULL, NULL)", (name,))
        for index in range(_HELD // len(names)):
            execute("INSERT INTO message VALUES (?, ?, '{}', 0)", (name, f"m{index}"))
    execute("COMMIT", ())
