"""How long an operation that others got in the way of is tried again (GEN-13)."""

from __future__ import annotations

import random
import time

from holdfast.errors import Contention

_SHORTEST_S = 0.002
_LONGEST_S = 0.2


class Patience:
    """Counts the attempts of one operation, and ends them after `wait_ms`."""

    __slots__ = ("_attempts", "_deadline", "_operation")

    def __init__(self, operation: str, wait_ms: int) -> None:
        self._operation = operation
        self._deadline = time.monotonic() + wait_ms / 1000
        self._attempts = 0

    def left_ms(self) -> int:
        """How much of `wait_ms` is left; less than nothing once it has passed."""
        return int((self._deadline - time.monotonic()) * 1000)

    def pause(self) -> None:
        """Wait a moment, longer each time; `Contention` if no attempt may follow."""
        self._attempts += 1
        longest = min(_LONGEST_S, _SHORTEST_S * 2 ** min(self._attempts, 10))
        pause = random.uniform(longest / 4, longest)  # no secret depends on it
        if time.monotonic() + pause >= self._deadline:
            raise Contention(self._operation, self._attempts)
        time.sleep(pause)
