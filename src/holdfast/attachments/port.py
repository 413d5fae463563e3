"""What a long procedure may await, so that one text serves blocking and asyncio callers.

A procedure over bytes is no transaction: between its steps the caller's own code runs, a file is
read, a server far away is waited for. It is written once as a coroutine and awaits nothing but
its port. The blocking port does what it is asked where the caller stands and never suspends; the
asyncio one hands it to a thread of the store, a step at a time.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from holdfast.operations.address import Address
from holdfast.rules.attachments import Owner
from holdfast.transaction import Steps, run_blocking

if TYPE_CHECKING:
    from holdfast.attachments.backend import ByteBackend

T = TypeVar("T")

_END: Final = object()


class BytePort(Protocol):
    """What a procedure over bytes alone may await."""

    #: Whether the caller has an event loop, and may bring an async iterable.
    aio: bool

    async def call(self, task: Callable[[], T]) -> T:
        """Do something that may block."""
        ...

    async def draw(self, task: Callable[[], T]) -> T:
        """Do something that may wait for a source of the caller's, for as long as that likes."""
        ...

    async def undo(self, task: Callable[[], None]) -> None:
        """Do something that has to be done, however often the caller is cancelled meanwhile."""
        ...


class Port(BytePort, Protocol):
    """What a procedure over bytes and the manifest may await."""

    def owner_at(self, session_id: str) -> Owner:
        """Who owns what the caller puts, as it was bound when the procedure was called."""
        ...

    async def introduce(self, backend: ByteBackend) -> None:
        """Let a byte backend know, once, that the store keeps bytes there."""
        ...

    async def admit(self, name: str) -> None:
        """Open the store, and refuse to write where nothing may be written."""
        ...

    async def run(self, operation: Callable[..., Steps[T]], *args: Any) -> T:
        """An operation on the store as a whole."""
        ...

    async def run_on(
        self, at: Address, operation: Callable[..., Steps[T]], *args: Any, **kwargs: Any
    ) -> T:
        """An operation on a session."""
        ...


class Here:
    """Everything where the caller stands: for bytes without a store."""

    aio = False

    async def call(self, task: Callable[[], T]) -> T:
        """Do it now."""
        return task()

    async def draw(self, task: Callable[[], T]) -> T:
        """Do it now."""
        return task()

    async def undo(self, task: Callable[[], None]) -> None:
        """Do it now."""
        task()


def drawn(pieces: AsyncIterator[T]) -> Iterator[T]:
    """What an async iterator over a blocking port gives, for a caller that blocks."""
    try:
        while (piece := run_blocking(_next(pieces))) is not _END:
            yield piece
    finally:
        run_blocking(_closed(pieces))


async def _next(pieces: AsyncIterator[T]) -> Any:
    return await anext(pieces, _END)


async def _closed(pieces: Any) -> None:
    await pieces.aclose()
