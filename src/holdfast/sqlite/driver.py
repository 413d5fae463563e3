"""The SQLite backend: one writer thread, and readers that never wait for it."""

from __future__ import annotations

import os
import secrets
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from importlib.resources.abc import Traversable
from typing import TypeVar

import apsw

from holdfast import migrations, statements
from holdfast.engine import Work
from holdfast.errors import ReadOnlyStore, StoreClosed, StoreUnavailable
from holdfast.model.values import Durability
from holdfast.rules.versions import Decision
from holdfast.settings import Settings
from holdfast.sqlite import opening
from holdfast.sqlite.connection import Connection, Watch
from holdfast.sqlite.faults import Patience, translate
from holdfast.sqlite.gate import Gate
from holdfast.sqlite.migrate import prepare
from holdfast.sqlite.plans import Plans
from holdfast.sqlite.readers import Readers
from holdfast.sqlite.writer import Writer
from holdfast.transaction import Mode

T = TypeVar("T")
P = TypeVar("P")


class SqliteBackend:
    """A SQLite file, or a database in memory, with the threads that use it."""

    def __init__(
        self,
        path: str | None,
        settings: Settings,
        *,
        statements_in: str | Traversable = "holdfast.sqlite.statements",
        migrations_in: str | Traversable = "holdfast.sqlite.migrations",
    ) -> None:
        """Name the database; None is one in memory. Nothing is touched before `open`."""
        self.settings = settings
        self.tier = Durability.INLINE if path is None else Durability.DURABLE
        #: Whether nothing can be written: as the settings say, or because the store is newer.
        self.read_only = settings.read_only
        self._path = None if path is None else os.path.abspath(path)
        self._memory = f"file:/holdfast-{secrets.token_hex(16)}?vfs=memdb"
        self._statements_in = statements_in
        self._migrations_in = migrations_in
        self._watch = Watch()
        self._gate = Gate() if path is None else None
        self._anchor: Connection | None = None
        self._writer: Writer | None = None
        self._readers: Readers | None = None

    @property
    def counts(self) -> Counter[str]:
        """Statements executed by name, and `transactions`; may be cleared."""
        return self._watch.counts

    @property
    def on_statement(self) -> Callable[[str, str], None] | None:
        """Called with a statement's name (or `commit`) and `before` or `after`; may raise."""
        return self._watch.on_statement

    @on_statement.setter
    def on_statement(self, hook: Callable[[str, str], None] | None) -> None:
        self._watch.on_statement = hook

    def open(self) -> None:
        """Connect, check the version, create or migrate, start the writer."""
        opening.require_sqlite()
        if self._path is not None:
            opening.inspect(self._path, self.settings)
        plans = Plans(statements.load(self._statements_in))
        patience = Patience("open", self.settings.wait_ms)
        target, flags = self._path or self._memory, self._flags()
        try:
            raw = patience.until_free(lambda: opening.connect(target, flags))
            try:
                self._prepare(raw, patience)
            except BaseException:
                raw.close(True)
                raise
        except apsw.Error as error:
            raise translate(error, "open") from error
        self._start(Connection(raw, plans, self._watch), plans)

    def run(self, work: Work[T]) -> T:
        """Finish an operation for a blocking caller: reads of a file on its own thread.

        In memory they wait for the writer's turn, which neither an interrupt may disturb nor an
        event loop sit through.
        """
        if self._gate is None and (work.mode is Mode.SMALL_READ or work.mode is Mode.READ):
            return self._started(self._readers).run(work)
        future = self.submit(work)
        try:
            return future.result()
        except BaseException:
            future.cancel()  # whoever was interrupted wants nothing written that was not begun
            raise

    def submit(self, work: Work[T]) -> Future[T]:
        """Hand an operation to the store's threads."""
        if work.mode is Mode.SMALL_READ or work.mode is Mode.READ:
            return self._started(self._readers).submit(work)
        if self.read_only:
            raise ReadOnlyStore(work.name)
        return self._started(self._writer).submit(work)

    def runs_inline(self, mode: Mode) -> bool:
        """Whether `run` is quick enough for an event loop: it is for small reads of a file."""
        return mode is Mode.SMALL_READ and self._gate is None

    def close(self) -> None:
        """Let accepted writes finish, then stop every thread and connection."""
        # Each part is let go of once it has ended: whoever was interrupted may call again.
        if (readers := self._readers) is not None:
            readers.close()
            self._readers = None
        if (writer := self._writer) is not None:
            writer.close()
            self._writer = None
        if (anchor := self._anchor) is not None:
            # Last, and able to write: it copies the log into the file and removes it.
            anchor.close()
            self._anchor = None

    def _flags(self) -> int:
        flags = apsw.SQLITE_OPEN_READWRITE
        if self._path is None:
            return flags | apsw.SQLITE_OPEN_CREATE | apsw.SQLITE_OPEN_URI
        if self.settings.create and not self.settings.read_only:
            flags |= apsw.SQLITE_OPEN_CREATE
        return flags

    def _prepare(self, raw: apsw.Connection, patience: Patience) -> None:
        """Bring the database to our version, and the connection to its role."""
        known = migrations.load(self._migrations_in)
        target = self._path or "memory"
        decision = patience.until_free(lambda: prepare(raw, target, known, self.settings))
        if decision is Decision.OPEN_READ_ONLY:
            self.read_only = True
        if self.read_only:
            raw.pragma("query_only", 1)
        elif raw.readonly("main"):
            raise StoreUnavailable("open", f"{target} cannot be written")
        else:
            memory = self._path is None
            patience.until_free(lambda: opening.make_writer(raw, self.settings, memory=memory))

    def _start(self, anchor: Connection, plans: Plans) -> None:
        def connect() -> Connection:
            flags = apsw.SQLITE_OPEN_READONLY
            flags |= 0 if self._path else apsw.SQLITE_OPEN_URI
            raw = opening.connect(self._path or self._memory, flags)
            raw.pragma("query_only", 1)
            return Connection(raw, plans, self._watch)

        self._anchor = anchor
        self._readers = Readers(connect, self.settings, self._watch, self._gate)
        if not self.read_only:
            self._writer = Writer(anchor, self.settings, self._watch, self._gate)

    @staticmethod
    def _started(part: P | None) -> P:
        if part is None:
            raise StoreClosed("closed")
        return part
