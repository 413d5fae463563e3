"""What SQLite's errors mean to a caller, and how long to try again (BAK-1).

SQLite's own busy handler sleeps longer and longer and so starves whoever is unlucky. Here every
try comes 0.1 to 1 ms after the last one, which is fair between processes.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Final, TypeVar

import apsw

from holdfast.errors import Contention, HoldfastError, StoreUnavailable

T = TypeVar("T")

#: Somebody else is at it: nothing was done, and the same step may work in a moment.
BUSY: Final = (apsw.BusyError, apsw.LockedError, apsw.ProtocolError)
#: Whether the same call may be made again once the cause is gone. Nothing was written.
_PASSING = (apsw.FullError, apsw.IOError, apsw.InterruptError, apsw.NoMemError, *BUSY)


def translate(error: apsw.Error, operation: str, *, committing: bool = False) -> HoldfastError:
    """The fault a caller sees instead of a driver's error."""
    # A commit whose sync failed may still be found in the log after a crash.
    unknown = committing and isinstance(error, apsw.IOError)
    retryable = isinstance(error, _PASSING) and not unknown
    return StoreUnavailable(operation, f"{type(error).__name__}: {error}", retryable, unknown)


class Patience:
    """Counts the tries of one operation, and ends them after `wait_ms`."""

    __slots__ = ("attempts", "deadline", "operation")

    def __init__(self, operation: str, wait_ms: int) -> None:
        self.operation = operation
        self.deadline = time.monotonic() + wait_ms / 1000
        self.attempts = 0

    def pause(self) -> None:
        """Wait a moment before the next try; `Contention` if there may be none."""
        self.attempts += 1
        if time.monotonic() >= self.deadline:
            raise Contention(self.operation, self.attempts)
        nap()

    def until_free(self, step: Callable[[], T]) -> T:
        """Repeat a step until the database is not busy."""
        while True:
            try:
                return step()
            except BUSY:
                self.pause()


def nap() -> None:
    """The moment between two tries, different for everybody."""
    time.sleep(random.uniform(0.0001, 0.001))  # no secret depends on it
