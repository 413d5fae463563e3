"""Which session an operation is about, and which incarnation of it (FAC-9, FAC-11)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.errors import SessionBindingMismatch, SessionDeleted
from holdfast.rules.checks import identifier
from holdfast.transaction import LostRace


class Address:
    """A session by its id; a bound view's also remembers the first incarnation it met.

    Calls of one view run side by side, and what a refused one met may never have been. So each
    call has an address of its own, a *visit*, which tells the view's when it has succeeded.
    """

    __slots__ = ("_home", "_seen", "bound", "key", "session_id")

    def __init__(
        self, session_id: str, *, bound: bool = False, home: Address | None = None
    ) -> None:
        self.session_id = identifier(session_id, "session_id")
        self.bound = bound
        self.key: int | None = None if home is None else home.key
        self._home = home
        self._seen: int | None = None

    def visit(self) -> Address:
        """A bound view's address for one call."""
        return Address(self.session_id, bound=True, home=self)

    def check_same(self, session_id: str) -> None:
        """Refuse a record of another session before anything is read."""
        if session_id != self.session_id:
            raise SessionBindingMismatch(self.session_id, session_id)

    def met(self, row: Mapping[str, Any] | None) -> None:
        """Take note of the session's row, or of its absence."""
        found = None if row is None else row["key"]
        if self.key is not None and found != self.key:
            raise SessionDeleted(self.session_id)
        self._seen = found

    def must_have_met(self, row: Mapping[str, Any] | None) -> Mapping[str, Any]:
        """As `met`, where only a lost race can have left no row."""
        self.met(row)
        if row is None:
            raise LostRace(self.session_id)
        return row

    def settle(self) -> None:
        """The operation succeeded: what a bound view met is its incarnation from now on.

        Not before, since a refused write takes back the row it made.
        """
        if self.bound and self.key is None:
            self.key = self._seen
            if self._home is not None and self._home.key is None:
                self._home.key = self._seen

    @property
    def may_create(self) -> bool:
        """Whether a write may make the session's row: not for a view that knew it once."""
        return self.key is None
