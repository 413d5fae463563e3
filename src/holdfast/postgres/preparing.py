"""Whether statements are prepared. What stands between us and the server may make that useless.

A connection can lose its prepared statements (somebody says DEALLOCATE ALL), or turn out to have
one already, where a pooler gives us the server's connections in turn. The operation is then run
again, and goes on preparing. Only where that keeps happening does preparing cost more than it
saves, and is given up for good.
"""

from __future__ import annotations

_COST = 10
_TOO_MUCH = 40


class Preparing:
    """On until it is given up. Several threads may count at once; a count may get lost."""

    def __init__(self) -> None:
        self.on = True
        self._strain = 0

    def succeeded(self) -> None:
        """A trip found everything as it was remembered."""
        if self._strain:
            self._strain -= 1

    def failed(self) -> None:
        """A trip did not, and nothing came of it."""
        self._strain += _COST
        if self._strain > _TOO_MUCH:
            self.on = False

    def give_up(self) -> None:
        """Nothing is prepared any more."""
        self.on = False
