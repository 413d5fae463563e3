"""What a transaction runs under: a search path that is the server's alone, and ends to waiting.

A connection of our own is made with all of it, so that a lone statement needs nothing beside it. A
connection that a host lends us, or a pooler's that takes no options, brings along whatever it
likes: there each transaction sets all of it for itself, in the trip that begins it.

The search path is no matter of taste. The server's functions are found before those of other
schemas only where the types fit equally well: whoever may create in one that is searched, as every
user in `public` before PostgreSQL 15, can make one that fits better, and our role would run it.
"""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.postgres.patience import Patience
from holdfast.settings import Settings

# A lock timeout that outlasts `wait_ms` by less than this is left as it is.
_TOLERATED_MS = 100
# The server takes 0 for no timeout at all.
_SHORTEST_MS = 1


def lock_ms(settings: Settings) -> int:
    """How long a statement waits for a lock when all of `wait_ms` is left."""
    return max(_SHORTEST_MS, min(settings.lock_timeout_ms or settings.wait_ms, settings.wait_ms))


def of_connections(settings: Settings) -> Mapping[str, object]:
    """What a connection has to bring along for all its transactions."""
    return {
        "search_path": "pg_catalog",
        "lock_timeout": lock_ms(settings),
        "statement_timeout": settings.statement_timeout_ms,
    }


class Limits:
    """What one attempt still has to set, with every trip that begins or goes on."""

    def __init__(self, settings: Settings, patience: Patience, *, inherited: bool) -> None:
        self._settings = settings
        self._patience = patience
        self._missing = {} if inherited else of_connections(settings)
        self._longest_ms = lock_ms(settings)
        self._in_force_ms = self._longest_ms

    def alone(self) -> list[bytes]:
        """Before a transaction's one statement. Mostly nothing: then it needs no transaction."""
        self._in_force_ms = self._longest_ms
        return [*map(_set, self._missing, self._missing.values()), *self.further()]

    def first(self) -> list[bytes]:
        """Before the first of several trips, between which the server waits for us."""
        idle = self._settings.idle_in_transaction_ms
        return [*self.alone(), _set("idle_in_transaction_session_timeout", idle)]

    def further(self) -> list[bytes]:
        """Before what follows in the same transaction: no lock is waited for beyond `wait_ms`."""
        left = max(_SHORTEST_MS, self._patience.left_ms())
        if self._in_force_ms <= left + _TOLERATED_MS:
            return []
        self._in_force_ms = left
        return [_set("lock_timeout", left)]


def _set(name: str, value: object) -> bytes:
    return f"SET LOCAL {name} = {value}".encode()
