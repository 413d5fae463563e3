"""Sources and byte backends of a test's own: those that fail, or wait, where it says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator

from holdfast import MemoryBytes, Staged


async def pieces(content: bytes, size: int = 100_000) -> AsyncIterator[bytes]:
    """What an asyncio caller draws, bit by bit."""
    for at in range(0, len(content), size):
        await asyncio.sleep(0)
        yield content[at : at + size]


def nothing() -> None:
    """Nothing happens."""


class Faulty(MemoryBytes):
    """A backend that fails, or does something else, at one of its steps."""

    def __init__(self) -> None:
        super().__init__()
        self.before_write: Callable[[], object] = nothing
        self.before_publish: Callable[[], object] = nothing
        self.before_read: Callable[[], object] = nothing
        self.discarded = 0

    def stage(self) -> Staged:
        return _Watched(self, super().stage())

    def read(self, id: str) -> Iterator[bytes]:
        self.before_read()
        yield from super().read(id)


class _Watched(Staged):
    def __init__(self, backend: Faulty, staged: Staged) -> None:
        self._backend = backend
        self._staged = staged

    def write(self, piece: bytes) -> None:
        self._backend.before_write()
        self._staged.write(piece)

    def publish(self, id: str) -> None:
        self._backend.before_publish()
        self._staged.publish(id)

    def discard(self) -> None:
        self._backend.discarded += 1
        self._staged.discard()
