"""What a backend offers the face: run whole operations, on threads that are the store's own.

Nothing here belongs to a caller's event loop. An operation is wrapped as `Work`, handed to the
backend once, and settled once, through a `concurrent.futures.Future`:

* `run` finishes it for a blocking caller, on its own thread where the backend can do that;
* `submit` hands it to the store's threads and returns at once, for asyncio callers.

A future can be cancelled as long as nothing of its operation is with the database, and then nothing
was written: before it starts, and on a server also between two attempts, the first of which was
rolled back. Otherwise its caller has to wait for the outcome (EXT-15).
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, Generic, Protocol, TypeVar

from holdfast.model.values import Durability
from holdfast.settings import Settings
from holdfast.transaction import Done, Mode, Steps, Transaction, mode_of

T = TypeVar("T")


class Work(Generic[T]):
    """One operation with its arguments: may be run again after a rollback."""

    __slots__ = ("mode", "name", "probe", "reconsider", "start")

    def __init__(
        self,
        name: str,
        mode: Mode,
        start: Callable[[Transaction], Coroutine[Any, Any, T]],
        reconsider: Callable[[Transaction], Coroutine[Any, Any, None]] | None = None,
        probe: Callable[[Transaction], Coroutine[Any, Any, Done | None]] | None = None,
    ) -> None:
        self.name = name
        self.mode = mode
        self.start = start
        #: A look, after waiting in vain, for a better answer than `Contention`; raises it.
        self.reconsider = reconsider
        #: A look before writing, for an answer that needs no write; none if it does.
        self.probe = probe


def prepared(operation: Callable[..., Steps[T]], *args: Any, **kwargs: Any) -> Work[T] | Done:
    """Check an operation's arguments; the work that is left, or its answer already."""
    steps = operation(*args, **kwargs)
    if isinstance(steps, Done):
        return steps
    return Work(operation.__name__, mode_of(operation), steps)


class Backend(Protocol):
    """A database with its connections and threads."""

    settings: Settings
    tier: Durability

    def open(self) -> None:
        """Connect, check the version, migrate. Called once, by whoever comes first."""
        ...

    def run(self, work: Work[T]) -> T:
        """Finish an operation for a blocking caller."""
        ...

    def submit(self, work: Work[T]) -> Future[T]:
        """Hand an operation to the store's threads."""
        ...

    def runs_inline(self, mode: Mode) -> bool:
        """Whether `run` is quick enough for an event loop to call it directly."""
        ...

    def close(self) -> None:
        """Let accepted writes finish, then stop every thread and connection."""
        ...
