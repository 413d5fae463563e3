"""How several operations share one transaction without sharing each other's failures.

Each runs under a savepoint of its own, so that one that fails takes back only what it wrote. All
answers wait for the one commit, refusals too, for a refusal may rest on what an earlier operation
of the group wrote. If the group as a whole is undone, its operations run again, each alone.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Final

import apsw

from holdfast.engine import Work
from holdfast.settings import Settings
from holdfast.sqlite.connection import Connection, Watch
from holdfast.sqlite.faults import BUSY, translate
from holdfast.sqlite.transaction import SqliteTransaction
from holdfast.transaction import LostRace, run_blocking

#: A group ends after so many operations, or once it has taken so long.
GROUP_SIZE: Final = 128
GROUP_SECONDS: Final = 0.02


class Job:
    """One accepted write, its future, and what came of its latest run."""

    __slots__ = (
        "actions",
        "alone",
        "deadline",
        "error",
        "future",
        "result",
        "since",
        "started",
        "work",
    )

    def __init__(self, work: Work[Any], deadline: float, since: int) -> None:
        self.work = work
        self.future: Future[Any] = Future()
        self.deadline = deadline
        self.since = since
        self.started = False
        self.alone = False
        self.result: Any = None
        self.error: BaseException | None = None
        self.actions: list[Callable[[], None]] = []

    def start(self) -> bool:
        """Whether it is still wanted; from now on it can no longer be cancelled."""
        if not self.started:
            self.started = self.future.set_running_or_notify_cancel()
        return self.started

    def settle(self) -> None:
        """Tell the caller what came of it."""
        if self.error is None:
            self.future.set_result(self.result)
        else:
            self.future.set_exception(self.error)

    def fail(self, error: BaseException) -> None:
        """Tell the caller, if it still listens, that it will not be run."""
        if self.start() and not self.future.done():
            self.error = (
                translate(error, self.work.name) if isinstance(error, apsw.Error) else error
            )
            self.settle()


class Group:
    """Runs the jobs that wait, in a transaction that has begun, and ends it."""

    def __init__(self, connection: Connection, settings: Settings, watch: Watch) -> None:
        self._connection = connection
        self._settings = settings
        self._watch = watch
        #: The jobs in hand.
        self.ran: list[Job] = []

    def serve(self, waiting: deque[Job]) -> list[Job]:
        """Take jobs, run them, commit. Returns those with an answer; others wait again."""
        ran: list[Job] = []
        self.ran = ran
        self._run_all(waiting)
        again = self._finish() if ran else []
        self._connection.rollback()
        for job in reversed(again):
            job.actions = []
            waiting.appendleft(job)
        return [job for job in ran if job not in again] if again else ran

    def _run_all(self, waiting: deque[Job]) -> None:
        """Run jobs until the group is full or undone. Jobs to run alone are always in front."""
        single = len(waiting) == 1 or waiting[0].alone
        limit = 1 if single else GROUP_SIZE
        ends = time.monotonic() + GROUP_SECONDS
        while waiting and len(self.ran) < limit:
            job = waiting.popleft()
            if job.start():
                self.ran.append(job)
                if single:
                    self._run(job)
                else:
                    self._run_guarded(job)
                if time.monotonic() > ends or not self._connection.raw.in_transaction:
                    return

    def _run(self, job: Job) -> None:
        transaction = SqliteTransaction(self._connection, self._settings)
        try:
            job.result = run_blocking(job.work.start(transaction))
            job.error = None
            job.actions = transaction.actions
        except apsw.Error as error:
            job.error = LostRace() if isinstance(error, BUSY) else translate(error, job.work.name)
        except BaseException as error:
            job.error = error

    def _run_guarded(self, job: Job) -> None:
        """Run a job so that its failure leaves what others wrote."""
        control = self._connection.control
        try:
            control("SAVEPOINT job")
            self._run(job)
            if job.error is not None:
                control("ROLLBACK TO job")
            control("RELEASE job")
        except apsw.Error as error:
            self._connection.rollback()
            job.error = job.error or translate(error, job.work.name)

    def _finish(self) -> list[Job]:
        """End the transaction; the jobs that have to run again."""
        ran = self.ran
        if not self._connection.raw.in_transaction:
            # The last one made SQLite give up the whole transaction, with what others wrote.
            return [*ran[:-1], *_lost(ran[-1:])]
        if any(job.error is None for job in ran):
            return self._commit()
        return _lost(ran)

    def _commit(self) -> list[Job]:
        try:
            self._watch.tell("commit", "before")
            self._connection.control("COMMIT")
        except BUSY:
            return self.ran[:]
        except apsw.Error as error:
            return self._commit_failed(error)
        except BaseException as error:
            _fail(self.ran, error)
            return []
        try:
            self._watch.tell("commit", "after")
        except BaseException as error:
            _fail(self.ran, error)
            return []
        return _lost(self.ran)

    def _commit_failed(self, error: apsw.Error) -> list[Job]:
        """Nothing is durable: let each job show alone whether it is the one that cannot be."""
        if len(self.ran) > 1 and not isinstance(error, apsw.IOError):
            for job in self.ran:
                job.alone = True
            return self.ran[:]
        for job in self.ran:
            job.error = translate(error, job.work.name, committing=True)
        return []


def _lost(jobs: list[Job]) -> list[Job]:
    return [job for job in jobs if isinstance(job.error, LostRace)]


def _fail(jobs: list[Job], error: BaseException) -> None:
    for job in jobs:
        job.error = error
