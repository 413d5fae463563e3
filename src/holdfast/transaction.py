"""The seam between what an operation means and the database it runs on.

An operation is written once, in two parts. A plain function with the public signature checks
and encodes its arguments, on the caller's thread, before any I/O; what it returns, the *steps*,
is an `async def` over a `Transaction` that awaits nothing else. Each backend supplies a
transaction that blocks instead of suspending, so `run_blocking` finishes the coroutine in one
step, on whatever thread the backend chose, and the same text serves blocking and asyncio callers.

Statements go by name; every backend keeps its own SQL under that name. What costs time on a
server is the round trip, so a transaction is a sequence of *trips*: `trip` sends several
statements at once, the last trip of a write carries the commit with it (`conclude`), and an
`@autocommit` operation needs no more than its one statement.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias, TypeVar

if TYPE_CHECKING:
    from holdfast.settings import Settings

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

#: A row: by column name, or a plain tuple where the statement says `-- returns: tuples`.
Row: TypeAlias = Any


class Mode(enum.Enum):
    """How a backend has to run an operation."""

    #: One consistent snapshot; writes nothing.
    READ = "read"
    #: As READ, and short enough to run where the caller stands.
    SMALL_READ = "small_read"
    #: A transaction that may take several trips.
    WRITE = "write"
    #: Every statement is a transaction of its own and one of them writes. What follows a statement
    #: that returned no row, though it has columns to return, only explains, and may not write.
    AUTOCOMMIT = "autocommit"


class Call(NamedTuple):
    """One statement to run: its name, its parameters, and for a bulk statement its rows."""

    name: str
    params: Mapping[str, Any]
    rows: Sequence[tuple[Any, ...]] | None = None


def call(name: str, /, **params: Any) -> Call:
    """A statement with its parameters. A list is an array on PostgreSQL, JSON on SQLite."""
    return Call(name, params)


def bulk(name: str, rows: Sequence[tuple[Any, ...]]) -> Call:
    """A statement that stores many rows at once; columns in the order its `-- bulk:` line says."""
    return Call(name, {}, rows)


class Transaction(Protocol):
    """What an operation may await, and the settings it may read."""

    settings: Settings

    async def trip(self, *calls: Call) -> list[list[Row]]:
        """Run statements in order, in one round trip; the rows of each."""
        ...

    async def conclude(self, *calls: Call) -> list[list[Row]]:
        """Run the last statements and commit, in one round trip. Nothing may follow."""
        ...

    async def all(self, name: str, /, **params: Any) -> list[Row]:
        """Run one statement; its rows."""
        ...

    async def maybe(self, name: str, /, **params: Any) -> Row | None:
        """Run one statement; its first row, or none."""
        ...

    async def promoted(self, name: str, /, **params: Any) -> list[Row]:
        """Run a statement that only some backends have, as a transaction of its own.

        No rows where the backend has no such statement, or it declined; the operation then goes
        the general way. Only allowed before the first trip.
        """
        ...

    def has(self, name: str) -> bool:
        """Whether the backend has a promoted statement."""
        ...

    def after_commit(self, action: Callable[[], None]) -> None:
        """Run `action` in the background once the write is durable."""
        ...


class Done(NamedTuple):
    """The answer of an operation that needs no database."""

    value: Any


#: What an operation is, once its arguments are checked and encoded: something to run inside a
#: transaction, again if need be, or an answer already.
Steps: TypeAlias = Callable[[Transaction], Coroutine[Any, Any, T]] | Done


def _marks(mode: Mode) -> Callable[[F], F]:
    def mark(operation: F) -> F:
        operation.mode = mode  # type: ignore[attr-defined]
        return operation

    return mark


#: Marks an operation that reads, and may read much.
read = _marks(Mode.READ)
#: Marks an operation that reads a bounded handful of rows.
small_read = _marks(Mode.SMALL_READ)
#: Marks an operation that locks, judges and writes.
write = _marks(Mode.WRITE)
#: Marks an operation with a single statement that writes, and reads that explain its refusal.
autocommit = _marks(Mode.AUTOCOMMIT)


def mode_of(operation: Callable[..., Any]) -> Mode:
    """How an operation wants to be run."""
    mode: Mode = operation.mode  # type: ignore[attr-defined]
    return mode


class LostRace(Exception):
    """A guard refused and the explanation found no reason any more: run the operation again.

    Internal (GEN-19). Backends repeat it like contention, within `wait_ms`.
    """


def run_blocking(operation: Coroutine[Any, Any, T]) -> T:
    """Finish an operation whose transaction blocks, and so never suspends."""
    try:
        operation.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    finally:
        operation.close()
    raise RuntimeError("an operation awaited something other than its transaction")
