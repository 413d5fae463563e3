"""Reads: on connections of their own, so that they never queue behind a write (BAK-2)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Final, TypeVar

import apsw

from holdfast.engine import Work
from holdfast.settings import Settings
from holdfast.sqlite.connection import Connection, Watch
from holdfast.sqlite.crew import Crew
from holdfast.sqlite.faults import BUSY, Patience, translate
from holdfast.sqlite.gate import Gate
from holdfast.sqlite.transaction import SqliteTransaction
from holdfast.transaction import LostRace, run_blocking

T = TypeVar("T")

_THREADS: Final = 2


class Readers:
    """Runs read operations, each in one snapshot, on the caller's thread or on its own two."""

    def __init__(
        self,
        connect: Callable[[], Connection],
        settings: Settings,
        watch: Watch,
        gate: Gate | None,
    ) -> None:
        self._connect = connect
        self._settings = settings
        self._watch = watch
        self._gate = gate
        self._keep = settings.pool_size
        self._idle: deque[Connection] = deque()
        self._crew: Crew[tuple[Work[Any], Future[Any]]] = Crew(
            "holdfast-reader", _THREADS, self._settle
        )

    def run(self, work: Work[T]) -> T:
        """Finish a read on this thread."""
        patience: Patience | None = None
        while True:
            try:
                return self._attempt(work)
            except (*BUSY, LostRace):
                patience = patience or Patience(work.name, self._settings.wait_ms)
                patience.pause()
            except apsw.Error as error:
                raise translate(error, work.name) from error

    def submit(self, work: Work[T]) -> Future[T]:
        """Hand a read to the reader threads."""
        future: Future[T] = Future()
        self._crew.put((work, future))
        return future

    def close(self) -> None:
        """Finish what was handed over, and close the connections, those in use when they return."""
        self._crew.close()
        self._keep = 0
        while self._idle:
            self._idle.pop().close()

    def _attempt(self, work: Work[T]) -> T:
        try:
            connection = self._idle.pop()
        except IndexError:
            connection = self._connect()
        if self._gate is None:
            return self._read(connection, work)
        self._gate.enter_read()
        try:
            return self._read(connection, work)
        finally:
            self._gate.leave_read()

    def _read(self, connection: Connection, work: Work[T]) -> T:
        try:
            connection.control("BEGIN")
            self._watch.counts["transactions"] += 1
            return run_blocking(work.start(SqliteTransaction(connection, self._settings)))
        finally:
            if connection.rollback() and len(self._idle) < self._keep:
                self._idle.append(connection)
            else:
                connection.close()

    def _settle(self, item: tuple[Work[Any], Future[Any]]) -> None:
        work, future = item
        if not future.set_running_or_notify_cancel():
            return
        try:
            future.set_result(self.run(work))
        except BaseException as error:
            future.set_exception(error)
