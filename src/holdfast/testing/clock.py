"""Time and ids that a test controls."""

from __future__ import annotations

import itertools
import threading


class ManualClock:
    """A clock that stands still until it is advanced.

    >>> from holdfast.testing.clock import ManualClock
    >>> clock = ManualClock()
    >>> clock.advance(5) - clock.now_ms()
    0
    """

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._now_ms = now_ms
        self._lock = threading.Lock()

    def now_ms(self) -> int:
        """The present instant."""
        return self._now_ms

    def advance(self, by_ms: int) -> int:
        """Let time pass (or, with a negative step, jump back); the new instant."""
        with self._lock:
            self._now_ms += by_ms
            return self._now_ms


class TickingClock:
    """A clock that goes on by a millisecond whenever it is read."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._instants = itertools.count(now_ms)

    def now_ms(self) -> int:
        """The present instant, told to nobody else."""
        return next(self._instants)


class CountingIds:
    """Tokens that tell a test in which order they were handed out."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)

    def token(self) -> str:
        """The next token."""
        return f"token-{next(self._numbers):032d}"
