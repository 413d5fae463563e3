"""The transaction an operation sees on SQLite: every statement runs where it is awaited."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from holdfast.settings import Clock, Settings, SystemClock
from holdfast.sqlite.connection import Connection
from holdfast.transaction import Call, Row

_WALL_CLOCK = SystemClock()


class SqliteTransaction:
    """One run of one operation; whoever started it begins and ends the transaction."""

    __slots__ = ("_concluded", "_connection", "_now_ms", "actions", "settings")

    def __init__(self, connection: Connection, settings: Settings) -> None:
        self.settings = settings
        self.actions: list[Callable[[], None]] = []
        self._connection = connection
        self._now_ms: int | None = None
        self._concluded = False

    async def trip(self, *calls: Call) -> list[list[Row]]:
        """Run statements in order; the rows of each."""
        return [self._run(each) for each in calls]

    async def conclude(self, *calls: Call) -> list[list[Row]]:
        """Run the last statements. The commit is that of the group."""
        found = [self._run(each) for each in calls]
        self._concluded = True
        return found

    async def all(self, name: str, /, **params: Any) -> list[Row]:
        """Run one statement; its rows."""
        return self._run(Call(name, params))

    async def maybe(self, name: str, /, **params: Any) -> Row | None:
        """Run one statement; its first row, or none."""
        rows = self._run(Call(name, params))
        return rows[0] if rows else None

    async def promoted(self, name: str, /, **params: Any) -> list[Row]:  # noqa: ARG002
        """No rows: a statement costs no trip here, so nothing needs promoting."""
        return []

    def has(self, name: str) -> bool:  # noqa: ARG002
        """False: nothing is promoted here."""
        return False

    def after_commit(self, action: Callable[[], None]) -> None:
        """Run `action` in the background once the write is durable."""
        self.actions.append(action)

    def now_ms(self) -> int:
        """The operation's one reading of the clock (GEN-7)."""
        if self._now_ms is None:
            clock: Clock = self.settings.clock or _WALL_CLOCK
            self._now_ms = clock.now_ms()
        return self._now_ms

    def _run(self, call: Call) -> list[Row]:
        if self._concluded:
            raise RuntimeError(f"{call.name} follows the conclusion of its transaction")
        if call.rows is not None:
            return self._connection.run_bulk(call.name, call.rows, self.now_ms)
        return self._connection.run(call.name, call.params, self.now_ms)
