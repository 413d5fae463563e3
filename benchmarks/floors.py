"""What a program would do that had nothing else to do: the shortest code on the same driver.

They store the same bytes at the same durability and decide nothing. On SQLite they do so in
holdfast's own tables; on PostgreSQL in tables of their own, which hold less. See README.md.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

import apsw
import msgspec

from benchmarks import samples
from benchmarks.databases import Database

T = TypeVar("T")

_SELECT = (
    "SELECT key, head_revision, branch, length, leaf_id, next_sequence FROM session WHERE id = ?"
)
_INSERT = (
    "INSERT INTO node (key, owner, sequence, node_id, parent_id, kind, enc, body)"
    " VALUES (?, ?, ?, ?, ?, 'message', 0, ?)"
)
_UPDATE = (
    "UPDATE session SET head_revision = ?, generation = generation + 1, length = ?, leaf_id = ?,"
    " next_sequence = ?, node_count = node_count + 1 WHERE key = ?"
)
_TOUCH = "UPDATE listing SET updated_at_ms = ?, activity_us = ? WHERE session = ?"
_RENEW = "UPDATE session SET expires_at_ms = ? WHERE id = ?"
_READ = "SELECT * FROM node WHERE node_id = ? AND owner = 1"


class SqliteFloor:
    """One connection, and one transaction for each operation."""

    def __init__(self, place: Database) -> None:
        """The database is one that holdfast made, with a first message in each session."""
        self._raw = apsw.Connection(place.path, statementcachesize=400)
        self._raw.pragma("synchronous", "full")
        self._execute = self._raw.cursor().execute
        self._thread = ThreadPoolExecutor(1)

    def append(self, session_id: str) -> None:
        """What a light commit of one message stores, but for what is derived from the message."""
        execute, now_ms = self._execute, time.time_ns() // 1_000_000
        node_id, body = f"n{next(samples.numbers)}", msgspec.json.encode(samples.SMALL)
        execute("BEGIN IMMEDIATE")
        key, revision, branch, length, leaf, sequence = next(execute(_SELECT, (session_id,)))
        execute(_INSERT, ((branch << 28) + length, key, sequence, node_id, leaf, body))
        execute(_UPDATE, (revision + 1, length + 1, node_id, sequence + 1, key))
        execute(_TOUCH, (now_ms, now_ms * 1000, key))
        execute("COMMIT")

    def renew(self, session_id: str) -> None:
        """What renewing a lease stores: another expiry than before."""
        self._execute("BEGIN IMMEDIATE")
        self._execute(_RENEW, (next(samples.numbers), session_id))
        self._execute("COMMIT")

    def read(self, node_id: str) -> Any:
        """One row by its key."""
        return self._execute(_READ, (node_id,)).fetchall()

    async def on_thread(self, act: Callable[[SqliteFloor, str], T], name: str) -> T:
        """One of these for an event loop: a hop to a thread and back for each operation."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, act, self, name)

    def close(self) -> None:
        """Let go of the database."""
        self._thread.shutdown()
        self._raw.close()


class PostgresFloor:
    """One connection in autocommit, and one insert of the same bytes for each operation.

    Its table has a column for the message's id, its parent and its body, and one index.
    """

    def __init__(self, place: Database) -> None:
        import psycopg

        self._raw: Any = psycopg.connect(place.url, autocommit=True, prepare_threshold=0)
        self._raw.execute(
            f'CREATE TABLE "{place.schema}".floor (id text PRIMARY KEY, parent text, body bytea)'
        )
        self._insert = f'INSERT INTO "{place.schema}".floor VALUES (%b, %b, %b)'

    def insert(self) -> None:
        """Store one message."""
        number = next(samples.numbers)
        body = msgspec.json.encode(samples.SMALL)
        self._raw.execute(self._insert, (f"n{number}", f"n{number - 1}", body))

    def close(self) -> None:
        """Let go of the database."""
        self._raw.close()


class SixStatements:
    """An append as it is often written for a server: six statements, a round trip each.

    It has a table of messages and one of heads: an id, a length, a leaf.
    """

    def __init__(self, place: Database, names: list[str]) -> None:
        import psycopg

        self._tables = f'"{place.schema}_six"'
        self._connections: list[Any] = [
            psycopg.connect(place.url, autocommit=True, prepare_threshold=0) for _ in names
        ]
        self._names = names
        for statement in (
            f"CREATE SCHEMA {self._tables}",
            f"CREATE TABLE {self._tables}.head (id text PRIMARY KEY, length bigint, leaf text)",
            f"CREATE TABLE {self._tables}.item (session text, id text, parent text, body bytea,"
            " PRIMARY KEY (session, id))",
        ):
            self._connections[0].execute(statement)
        for name in names:
            self._connections[0].execute(
                f"INSERT INTO {self._tables}.head VALUES (%s, 0, NULL)", (name,)
            )

    def append(self, number: int) -> None:
        """Lock the head, look for the id, store one message, move the head."""
        execute, name = self._connections[number].execute, self._names[number]
        node_id, body = f"n{next(samples.numbers)}", msgspec.json.encode(samples.SMALL)
        head, item = f"{self._tables}.head", f"{self._tables}.item"
        execute("BEGIN")
        length, leaf = execute(
            f"SELECT length, leaf FROM {head} WHERE id = %s FOR UPDATE", (name,)
        ).fetchone()
        execute(f"SELECT 1 FROM {item} WHERE session = %s AND id = %s", (name, node_id)).fetchone()
        execute(f"INSERT INTO {item} VALUES (%s, %s, %s, %b)", (name, node_id, leaf, body))
        execute(
            f"UPDATE {head} SET length = %s, leaf = %s WHERE id = %s", (length + 1, node_id, name)
        )
        execute("COMMIT")

    def close(self) -> None:
        """Leave nothing behind."""
        self._connections[0].execute(f"DROP SCHEMA {self._tables} CASCADE")
        for connection in self._connections:
            connection.close()


@contextmanager
def slower_sync(seconds: float) -> Iterator[None]:
    """Make every flush to disk of SQLite files opened meanwhile take so much longer."""

    class File(apsw.VFSFile):
        def xSync(self, flags: int) -> None:
            time.sleep(seconds)
            super().xSync(flags)

    class Vfs(apsw.VFS):
        def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:
            return File("unix", name, flags)

    vfs = Vfs("slower-sync", "unix", makedefault=True)
    try:
        yield
    finally:
        vfs.unregister()
