"""A tiny schema, its statements and operations, to try the SQLite backend with."""

from __future__ import annotations

import tempfile
import threading
from contextlib import suppress
from pathlib import Path

from holdfast.engine import Work
from holdfast.settings import Settings
from holdfast.sqlite.driver import SqliteBackend
from holdfast.statements import parse
from holdfast.transaction import Mode, bulk

SQL = """
-- name: put
INSERT INTO item (name, at) VALUES (:name, :now_ms) RETURNING id, at;
-- name: read_names
-- returns: tuples
SELECT name FROM item ORDER BY id;
-- name: read_item
SELECT id, name FROM item WHERE name = :name;
-- name: among
SELECT name FROM item WHERE name IN (SELECT value FROM json_each(:names)) ORDER BY name;
-- name: put_many
-- bulk: name
INSERT INTO item (name) VALUES :rows;
-- name: put_stamped
-- bulk: name, size
INSERT INTO item (name, size, at) SELECT column1, column2, :now_ms FROM (VALUES :rows);
-- name: put_two
INSERT INTO item (name) VALUES (:a) RETURNING name; -- one
INSERT INTO item (name) VALUES (:b) RETURNING name AS other;
-- name: put_large
INSERT INTO item (name, body) VALUES (:name, zeroblob(:size));
-- name: orphan
INSERT INTO part (item) VALUES (-1);
-- name: move
UPDATE account SET amount = amount + CASE id WHEN 1 THEN -1 ELSE 1 END;
-- name: amount
SELECT amount FROM account WHERE id = :id;
"""
FIRST = """-- oldest_reader: 1
-- oldest_writer: 1
CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT, size INTEGER, at INTEGER, body BLOB);
CREATE TABLE part (item INTEGER REFERENCES item (id) DEFERRABLE INITIALLY DEFERRED);
CREATE TABLE account (id INTEGER PRIMARY KEY, amount INTEGER);
INSERT INTO account VALUES (1, 100), (2, 100);
"""
SECOND = """-- oldest_reader: 1
-- oldest_writer: 1
ALTER TABLE item ADD COLUMN note TEXT;
"""

assert parse({"kit": SQL})


def folders(root: Path, *more: str) -> dict[str, Path]:
    """The backend's arguments for this schema, with further migrations."""
    home = root / f"kit-{len(more)}"
    if not home.exists():
        with tempfile.TemporaryDirectory(dir=root) as name:
            _write(Path(name) / "kit", more)
            # At once, since other processes may be about to use it or to make it as well.
            with suppress(OSError):
                (Path(name) / "kit").rename(home)
    return {"statements_in": home / "statements", "migrations_in": home / "migrations"}


def _write(home: Path, more: tuple[str, ...]) -> None:
    (home / "statements").mkdir(parents=True)
    (home / "migrations").mkdir()
    (home / "statements" / "kit.sql").write_text(SQL)
    for number, text in enumerate([FIRST, *more], 1):
        (home / "migrations" / f"{number:04}_step.sql").write_text(text)


def opened(path: Path | str | None, root: Path, *more: str, **settings) -> SqliteBackend:
    made = SqliteBackend(
        None if path is None else str(path), Settings(**settings), **folders(root, *more)
    )
    made.open()
    return made


def work(operation, *arguments, mode: Mode = Mode.WRITE) -> Work:
    return Work(operation.__name__, mode, lambda tx: operation(tx, *arguments))


async def put(tx, name):
    return await tx.maybe("put", name=name)


async def put_large(tx, name, size):
    await tx.all("put_large", name=name, size=size)


async def put_many(tx, names):
    await tx.conclude(bulk("put_many", [(name,) for name in names]))


async def read_names(tx):
    return [name for (name,) in await tx.all("read_names")]


async def balance(tx):
    return (await tx.maybe("amount", id=1))["amount"] + (await tx.maybe("amount", id=2))["amount"]


def names(backend: SqliteBackend) -> list[str]:
    return backend.run(work(read_names, mode=Mode.READ))


class Held:
    """Keeps the writer busy inside an operation, so that what is submitted next gathers."""

    def __init__(self, backend: SqliteBackend) -> None:
        self.entered, self.released = threading.Event(), threading.Event()
        self.future = backend.submit(work(self.hold))
        assert self.entered.wait(5)

    async def hold(self, tx):
        self.entered.set()
        assert self.released.wait(5)

    def release(self) -> None:
        self.released.set()
        self.future.result(5)
