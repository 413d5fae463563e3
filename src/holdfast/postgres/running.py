"""Counts the operations under way, so that closing can let them finish."""

from __future__ import annotations

import threading

from holdfast.errors import StoreClosed


class Running:
    """Entered by every operation; once stopped it admits no other."""

    def __init__(self) -> None:
        self._changed = threading.Condition(threading.Lock())
        self._inside = 0
        self._stopped = False

    def enter(self) -> None:
        """Begin an operation; `StoreClosed` if there may be no more."""
        with self._changed:
            if self._stopped:
                raise StoreClosed("closed")
            self._inside += 1

    def leave(self) -> None:
        """End an operation."""
        with self._changed:
            self._inside -= 1
            if not self._inside:
                self._changed.notify_all()

    def stop(self) -> None:
        """Admit no more, and wait until the last one has ended."""
        with self._changed:
            self._stopped = True
            self._changed.wait_for(lambda: not self._inside)
