"""Who may touch a database in memory, where readers have no snapshot beside a writer.

Readers and the writer take turns. Readers that meet a writer are all let in when it leaves, and
readers that meet a waiting writer wait for it: neither side can starve the other.
"""

from __future__ import annotations

import threading


class Gate:
    """Lets either any number of readers or the one writer pass."""

    def __init__(self) -> None:
        self._turn = threading.Condition(threading.Lock())
        self._inside = 0
        self._queued = 0
        self._phase = 0
        self._wanted = False

    def enter_read(self) -> None:
        """Wait until no writer is inside or waiting."""
        with self._turn:
            if not self._wanted:
                self._inside += 1
                return
            self._queued += 1
            phase = self._phase
            try:
                while self._phase == phase:
                    self._turn.wait()
            except BaseException:
                self._give_up(phase)
                raise

    def leave_read(self) -> None:
        """End a read."""
        with self._turn:
            self._inside -= 1
            if not self._inside:
                self._turn.notify_all()

    def enter_write(self, timeout: float) -> bool:
        """Wait until the readers inside have left; whether they did in time."""
        with self._turn:
            self._wanted = True
            if self._turn.wait_for(lambda: not self._inside, timeout):
                return True
            self._let_in()
            return False

    def leave_write(self) -> None:
        """End a write, and let in the readers that waited for it."""
        with self._turn:
            self._let_in()

    def _let_in(self) -> None:
        self._wanted = False
        self._phase += 1
        self._inside += self._queued
        self._queued = 0
        self._turn.notify_all()

    def _give_up(self, phase: int) -> None:
        """A waiting reader was interrupted, before or after it was let in."""
        if self._phase == phase:
            self._queued -= 1
        else:
            self._inside -= 1
            self._turn.notify_all()
