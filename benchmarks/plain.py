"""A turn commit as it is often written: text keys, a statement for each row, and a count.

It stores what a turn of 28 KB stores, uncompressed, in tables of its own, in one transaction.
"""

from __future__ import annotations

import hashlib
import sqlite3
import threading
from collections.abc import Callable
from typing import Any

import msgspec

from benchmarks import samples
from benchmarks.databases import Database

_TABLES = (
    "CREATE TABLE {0}head (id TEXT PRIMARY KEY, revision INTEGER, leaf TEXT, checkpoint TEXT)",
    "CREATE TABLE {0}message (session TEXT, id TEXT, body TEXT, dead BOOLEAN DEFAULT false,"
    " PRIMARY KEY (session, id))",
    "CREATE TABLE {0}state (hash TEXT PRIMARY KEY, body {1})",
    "CREATE TABLE {0}tokens (session TEXT, id TEXT, body TEXT, PRIMARY KEY (session, id))",
    "CREATE TABLE {0}turn (session TEXT, id TEXT, hash TEXT, PRIMARY KEY (session, id))",
)
#: Nodes that a session holds already.
_HELD = 1_000

Execute = Callable[[str, tuple[Any, ...]], Any]


def commit_turn(execute: Execute, session_id: str) -> None:
    """Thirteen statements, a round trip each where there is a server."""
    turn = f"t{next(samples.numbers)}"
    state = turn.encode() + samples.STATE
    digest = hashlib.sha256(state).hexdigest()
    execute("BEGIN", ())
    head = execute("SELECT revision, leaf FROM head WHERE id = ?", (session_id,)).fetchone()
    execute("SELECT hash FROM turn WHERE session = ? AND id = ?", (session_id, turn)).fetchone()
    execute("INSERT INTO state VALUES (?, ?) ON CONFLICT DO NOTHING", (digest, state))
    execute("INSERT INTO tokens VALUES (?, ?, ?)", (session_id, turn, '{"input": 10}'))
    for index in range(4):
        body = msgspec.json.encode(samples.LARGE).decode()
        row = (session_id, f"{turn}-{index}", body)
        execute("INSERT INTO message VALUES (?, ?, ?) ON CONFLICT DO NOTHING", row)
    count = "SELECT count(*) FROM message WHERE session = ? AND NOT dead"
    execute(count, (session_id,)).fetchone()
    update = "UPDATE head SET revision = ?, leaf = ?, checkpoint = ? WHERE id = ? AND revision = ?"
    execute(update, (head[0] + 1, f"{turn}-3", digest, session_id, head[0]))
    execute("INSERT INTO turn VALUES (?, ?, ?)", (session_id, turn, digest))
    execute("COMMIT", ())
