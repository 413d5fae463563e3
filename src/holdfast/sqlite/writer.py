"""The one thread that writes to a database.

Operations queue up while a transaction is under way, and the next one takes all that wait. There
is no lingering: whoever comes alone is served alone. An operation can be withdrawn until its
turn has come.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from typing import Final, TypeVar

import apsw

from holdfast.engine import Work
from holdfast.errors import Contention, StoreClosed, StoreUnavailable
from holdfast.settings import Settings
from holdfast.sqlite.connection import Connection, Watch
from holdfast.sqlite.crew import Crew
from holdfast.sqlite.faults import BUSY, nap
from holdfast.sqlite.gate import Gate
from holdfast.sqlite.group import GROUP_SIZE, Group, Job
from holdfast.sqlite.opening import has_moved

T = TypeVar("T")

log = logging.getLogger("holdfast")

#: Pages of log between two checkpoints: 4 MB.
CHECKPOINT_PAGES: Final = 1024
#: From 64 MB of log on, the writer waits so long for readers to let it begin anew.
LONG_LOG_PAGES: Final = 16 * CHECKPOINT_PAGES
RESTART_MS: Final = 100
_RESTART: Final = apsw.SQLITE_CHECKPOINT_RESTART


class Writer:
    """Accepts writes from any thread and runs them, grouped, on its own."""

    def __init__(
        self, connection: Connection, settings: Settings, watch: Watch, gate: Gate | None
    ) -> None:
        self._connection = connection
        self._watch = watch
        self._gate = gate
        self._wait = settings.wait_ms / 1000
        self._queue: SimpleQueue[Job | None] = SimpleQueue()
        self._accepting = threading.Lock()
        self._closed = False
        self._waiting: deque[Job] = deque()
        self._group = Group(connection, settings, watch)
        self._tries = 0
        self._log_pages = 0
        self._checkpointed = 0
        self._background: Crew[Callable[[], None]] = Crew("holdfast-after", 1, lambda act: act())
        self._thread = threading.Thread(target=self._serve, name="holdfast-writer", daemon=True)
        connection.raw.set_wal_hook(self._note_log)
        self._thread.start()

    def submit(self, work: Work[T]) -> Future[T]:
        """Queue a write."""
        job = Job(work, time.monotonic() + self._wait, self._tries)
        with self._accepting:
            if self._closed:
                raise StoreClosed("closed")
            self._queue.put(job)
        return job.future

    def close(self) -> None:
        """Finish every accepted write and what follows from it, then end the threads."""
        with self._accepting:
            if not self._closed:
                self._closed = True
                self._queue.put(None)
        self._thread.join()
        self._background.close()

    # From here on: the thread.

    def _serve(self) -> None:
        while self._gather():
            try:
                if self._enter():
                    self._serve_group()
                    self._checkpoint()
            except BaseException as error:
                log.exception("the writer failed")
                self._connection.rollback()
                self._fail([*self._group.ran, *self._waiting], error)

    def _gather(self) -> bool:
        """Wait until there is something to do. False once closed and all is done."""
        if not self._waiting and not self._take(self._queue.get()):
            return False
        self._collect()
        return True

    def _collect(self) -> None:
        with contextlib.suppress(Empty):
            while len(self._waiting) < GROUP_SIZE and self._take(self._queue.get_nowait()):
                pass

    def _take(self, job: Job | None) -> bool:
        if job is None:
            self._queue.put(None)  # nothing follows it: it is found again
            return False
        self._waiting.append(job)
        return True

    def _enter(self) -> bool:
        """Begin a transaction; false if nobody is left to begin it for."""
        while self._waiting:
            self._tries += 1
            if self._gate is None or self._gate.enter_write(self._patience()):
                try:
                    self._begin()
                except BUSY:
                    self._leave()
                    nap()
                except (apsw.Error, StoreUnavailable) as error:
                    self._connection.rollback()
                    self._leave()
                    self._fail(list(self._waiting), error)
                else:
                    self._watch.counts["transactions"] += 1
                    return True
            self._expire()
        return False

    def _begin(self) -> None:
        self._connection.control("BEGIN IMMEDIATE")
        if self._gate is None and has_moved(self._connection.raw):
            # What is written from now on, nobody who opens the store will find.
            raise StoreUnavailable("write", "the store's file was moved or removed")

    def _leave(self) -> None:
        if self._gate is not None:
            self._gate.leave_write()

    def _patience(self) -> float:
        return max(0.0, self._waiting[0].deadline - time.monotonic())

    def _expire(self) -> None:
        """Answer those whose wait is over."""
        waiting = self._waiting
        while waiting and (waiting[0].future.cancelled() or not self._patience()):
            job = waiting.popleft()
            job.fail(Contention(job.work.name, self._tries - job.since))

    def _serve_group(self) -> None:
        try:
            self._collect()
            answered = self._group.serve(self._waiting)
        finally:
            self._leave()
        for job in answered:
            job.settle()
        for job in answered:
            for action in job.actions:
                self._background.put(action)
        self._group.ran = []
        if self._waiting and self._waiting[0].started:
            nap()  # it lost a race, or its group was undone
            self._expire()

    def _fail(self, jobs: list[Job], error: BaseException) -> None:
        self._waiting.clear()
        self._group.ran = []
        for job in jobs:
            job.fail(error)

    def _note_log(self, _connection: apsw.Connection, _name: str, pages: int) -> int:
        """SQLite says how long the log is after a commit; it starts anew after checkpoints."""
        self._log_pages = pages
        return apsw.SQLITE_OK

    def _checkpoint(self) -> None:
        """Copy the log into the file, after the answer, and without waiting for readers.

        While reads overlap the log is copied but cannot begin anew, and grows. Once it is long,
        the writer waits a moment for those who read it.
        """
        self._checkpointed = min(self._checkpointed, self._log_pages)
        if self._log_pages - self._checkpointed < CHECKPOINT_PAGES:
            return
        self._checkpointed = self._log_pages
        raw = self._connection.raw
        patient = self._log_pages >= LONG_LOG_PAGES
        try:
            if patient:
                raw.set_busy_timeout(RESTART_MS)
            raw.wal_checkpoint(mode=_RESTART if patient else apsw.SQLITE_CHECKPOINT_PASSIVE)
        except BUSY:
            pass  # another process is at it, or somebody reads for long
        except apsw.Error as error:
            log.warning("the log could not be checkpointed: %s", error)
        finally:
            if patient:
                raw.set_busy_timeout(0)
