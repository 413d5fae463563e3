"""Opening a schema: look, create or migrate, and decide whether this library may use it.

Whoever changes the schema holds a transaction-level advisory lock made of its name and looks
again under it, so racing openers all succeed; DDL is transactional, so none sees half of it. One
transaction serves for all of this; who opened the connection ends it where nothing was changed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, NamedTuple

from holdfast.errors import InvalidArgument, NotAStore, UnsupportedStoreVersion
from holdfast.migrations import Migration
from holdfast.postgres.compiled import Schema, compile_text
from holdfast.postgres.limits import Limits, of_connections
from holdfast.postgres.link import Link
from holdfast.postgres.patience import Patience
from holdfast.postgres.pool import server_encoding, server_version
from holdfast.rules import versions
from holdfast.rules.versions import Decision
from holdfast.settings import Settings

OLDEST_SERVER = 14

_LOOK = """
SELECT EXISTS (
         SELECT FROM pg_catalog.pg_namespace WHERE nspname = %(schema)s) AS present,
       EXISTS (
         SELECT FROM pg_catalog.pg_class JOIN pg_catalog.pg_namespace n ON n.oid = relnamespace
          WHERE nspname = %(schema)s
         UNION ALL
         SELECT FROM pg_catalog.pg_type JOIN pg_catalog.pg_namespace n ON n.oid = typnamespace
          WHERE nspname = %(schema)s
         UNION ALL
         SELECT FROM pg_catalog.pg_proc JOIN pg_catalog.pg_namespace n ON n.oid = pronamespace
          WHERE nspname = %(schema)s) AS occupied,
       5 = (
         SELECT count(*)
           FROM pg_catalog.pg_attribute
           JOIN pg_catalog.pg_class c ON c.oid = attrelid
           JOIN pg_catalog.pg_namespace n ON n.oid = relnamespace
          WHERE nspname = %(schema)s AND relname = 'migration' AND relkind = 'r'
            AND attname IN ('number', 'name', 'oldest_reader', 'oldest_writer', 'applied_at_ms')
       ) AS ours
"""
# What holds outside this transaction: a pooler may have taken our options and ignored them.
_IN_FORCE = """
SELECT name, reset_val FROM pg_catalog.pg_settings WHERE name = ANY (%(names)s)
"""
_NEWEST = """
SELECT number, oldest_reader, oldest_writer FROM holdfast.migration ORDER BY number DESC LIMIT 1
"""
_LOCK = "SELECT pg_catalog.pg_advisory_xact_lock(%(key)s)"
_TABLE = """
CREATE TABLE holdfast.migration (
    number        integer PRIMARY KEY,
    name          text    NOT NULL,
    oldest_reader integer NOT NULL,
    oldest_writer integer NOT NULL,
    applied_at_ms bigint  NOT NULL
)
"""
_RECORD = """
INSERT INTO holdfast.migration (number, name, oldest_reader, oldest_writer, applied_at_ms)
VALUES (%(number)s, %(title)s, %(oldest_reader)s, %(oldest_writer)s,
        coalesce(%(at_ms)s, (extract(epoch FROM clock_timestamp()) * 1000)::bigint))
"""


class _Version(NamedTuple):
    number: int
    oldest_reader: int
    oldest_writer: int


class Opening:
    """One opening of one schema, over one connection."""

    def __init__(
        self,
        link: Link,
        schema: Schema,
        settings: Settings,
        migrations: Sequence[Migration],
        patience: Patience,
    ) -> None:
        self._link = link
        self._schema = schema
        self._settings = settings
        self._migrations = migrations
        self._ours = migrations[-1].number if migrations else 0
        self._limits = Limits(settings, patience, inherited=False)
        #: Whether the connection brings along what our transactions run under.
        self.inherited = False

    def judge(self) -> Decision:
        """Check server and schema, create or migrate it; how the store may be used."""
        _check_server(self._link)
        self._begin()
        self.inherited = self._is_inherited()
        found = self._version(self._look())
        if found is not None and self._decide(found) is not Decision.MIGRATE:
            return self._decide(found)
        if found is None and (self._settings.read_only or not self._settings.create):
            raise NotAStore(self._schema.name, "there is no store in this schema")
        return self._change()

    def _begin(self) -> None:
        begin = [b"BEGIN ISOLATION LEVEL READ COMMITTED", *self._limits.first()]
        self._link.script(b"; ".join(begin).decode())

    def _is_inherited(self) -> bool:
        wanted = {name: str(value) for name, value in of_connections(self._settings).items()}
        found = self._rows("in_force", _IN_FORCE, names=list(wanted))
        return {row["name"]: row["reset_val"] for row in found} == wanted

    def _decide(self, found: _Version) -> Decision:
        settings = self._settings
        return versions.judge(
            *found, self._ours, migrate=settings.migrate, read_only=settings.read_only
        )

    def _look(self) -> Any:
        """What is there under the schema's name."""
        return self._rows("look", _LOOK, schema=self._schema.name)[0]

    def _version(self, seen: Any) -> _Version | None:
        """The schema's version, or none where there is no store yet."""
        if seen["ours"]:
            newest = self._rows("newest", _NEWEST)
            return _Version(**newest[0]) if newest else _Version(0, 0, 0)
        if seen["occupied"]:
            raise NotAStore(self._schema.name, "the schema belongs to another program")
        return None

    def _change(self) -> Decision:
        self._link.script("SET LOCAL statement_timeout = 0")
        self._rows("lock", _LOCK, key=_lock_key(self._schema.name))
        seen = self._look()
        found = self._version(seen)
        if found is None:
            self._create(present=seen["present"])
            found = _Version(0, 0, 0)
        elif self._decide(found) is not Decision.MIGRATE:
            return self._decide(found)
        for migration in self._migrations[found.number :]:
            self._apply(migration)
        self._link.script("COMMIT")
        return Decision.OPEN

    def _create(self, *, present: bool) -> None:
        # Asking for a schema takes the right to create one, even if it is there.
        if not present:
            self._link.script(f"CREATE SCHEMA IF NOT EXISTS {self._schema.quoted}")
        self._link.script(self._schema.place(_TABLE))

    def _apply(self, migration: Migration) -> None:
        self._link.script(self._schema.place(migration.sql))
        clock = self._settings.clock
        self._rows(
            "record",
            _RECORD,
            number=migration.number,
            title=migration.name,
            oldest_reader=migration.oldest_reader,
            oldest_writer=migration.oldest_writer,
            at_ms=clock.now_ms() if clock else None,
        )

    def _rows(self, name: str, sql: str, **params: Any) -> list[Any]:
        bound = compile_text(name, sql, self._schema).bind(params, None)
        return self._link.rows(bound, self._link.alone(bound, prepare=False))


def _check_server(link: Link) -> None:
    version = server_version(link)
    if version < OLDEST_SERVER:
        raise UnsupportedStoreVersion("server", version, OLDEST_SERVER, None)
    if server_encoding(link) != b"UTF8":
        raise InvalidArgument("url", "the database must have the encoding UTF8")


def _lock_key(schema: str) -> int:
    digest = hashlib.sha256(b"holdfast schema " + schema.encode()).digest()
    return int.from_bytes(digest[:8], "big", signed=True)
