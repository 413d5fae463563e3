"""Work as its caller sees it: waited for, or handed over and perhaps taken back (EXT-15).

Handed-over work can be taken back as long as nothing of it is on its way to the server: while it
waits for a thread or a connection, and between two attempts, the first of which was rolled back.
From the moment an attempt has its connection, the caller has to wait for what comes of it.
"""

from __future__ import annotations

import threading
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


class Withdrawn(Exception):
    """The caller took the work back before this attempt began. Internal."""


class Waited:
    """Work of a blocking caller, who waits for it in any case."""

    def begin(self) -> None:
        """An attempt has its connection and is about to send something."""

    def rest(self) -> None:
        """The attempt was rolled back; another may follow."""


class Handed(Future[T], Waited):
    """Work of an asyncio caller, and its outcome. What `running` says means nothing here."""

    def __init__(self) -> None:
        super().__init__()
        self._turn = threading.Lock()
        self._under_way = False

    def cancel(self) -> bool:
        """Take the work back; whether that came in time."""
        with self._turn:
            return not self._under_way and super().cancel()

    def begin(self) -> None:
        """As for any work; `Withdrawn` if it was taken back."""
        if not self._goes_on():
            raise Withdrawn

    def rest(self) -> None:
        """As for any work: until the next attempt begins it can be taken back."""
        with self._turn:
            self._under_way = False

    def succeed(self, result: T) -> None:
        """Tell the outcome to whoever waits for it."""
        if self._goes_on():
            self.set_result(result)

    def fail(self, error: BaseException) -> None:
        """Tell why there is no outcome to whoever waits for it."""
        if self._goes_on():
            self.set_exception(error)

    def _goes_on(self) -> bool:
        with self._turn:
            self._under_way = not self.cancelled()
            return self._under_way
