"""Bytes in the memory of the process: for tests, and for what need not outlive it."""

from __future__ import annotations

import threading
from collections.abc import Iterator

from holdfast.attachments.backend import ByteBackend, Host, Staged
from holdfast.attachments.intake import PIECE_BYTES
from holdfast.errors import AttachmentNotFound
from holdfast.model.attachments import ByteEntry
from holdfast.model.values import Durability
from holdfast.settings import Clock, SystemClock


class MemoryBytes(ByteBackend):
    """Bytes in memory, gone with the process.

    >>> from holdfast import MemoryBytes
    >>> backend = MemoryBytes()
    >>> backend.get(backend.put(b"some bytes").id)
    b'some bytes'
    """

    persistence = Durability.INLINE

    def __init__(self) -> None:
        self._found: dict[str, tuple[bytes, int]] = {}
        self._stores: set[str] = set()
        self._lock = threading.Lock()
        self._clock: Clock = SystemClock()

    def attach(self, host: Host) -> ByteBackend:
        """Keep the store's time, where it was given a clock."""
        self._clock = host.settings.clock or self._clock
        return self

    def stage(self) -> Staged:
        """A list of pieces."""
        return _Pieces(self)

    def keep(self, id: str, content: bytes) -> None:
        """Publish bytes."""
        with self._lock:
            self._found[id] = (content, self._clock.now_ms())

    def read(self, id: str) -> Iterator[bytes]:
        """The bytes, a MiB at a time."""
        found = self._found.get(id)
        if found is None:
            raise AttachmentNotFound(id)
        for at in range(0, len(found[0]), PIECE_BYTES):
            yield found[0][at : at + PIECE_BYTES]

    def delete(self, id: str) -> None:
        """Forget bytes."""
        with self._lock:
            self._found.pop(id, None)

    def list(self, after: str = "", limit: int = 1_000) -> list[ByteEntry]:
        """Bytes by id."""
        with self._lock:
            ids = sorted(id for id in self._found if id > after)[:limit]
            return [self._entry(id) for id in ids]

    def head(self, id: str) -> ByteEntry | None:
        """What is known of bytes."""
        with self._lock:
            return self._entry(id) if id in self._found else None

    def sweep_staging(self, before_ms: int) -> int:  # noqa: ARG002
        """Nothing: what was not finished is gone with whoever was writing it."""
        return 0

    def join(self, store_name: str) -> None:
        """Remember the store."""
        self._stores.add(store_name)

    def stores(self) -> set[str]:
        """All that joined."""
        return set(self._stores)

    def _entry(self, id: str) -> ByteEntry:
        content, modified_at_ms = self._found[id]
        return ByteEntry(id=id, byte_len=len(content), modified_at_ms=modified_at_ms)


class _Pieces(Staged):
    def __init__(self, backend: MemoryBytes) -> None:
        self._backend = backend
        self._pieces: list[bytes] = []

    def write(self, piece: bytes) -> None:
        self._pieces.append(piece)

    def publish(self, id: str) -> None:
        self._backend.keep(id, b"".join(self._pieces))

    def discard(self) -> None:
        self._pieces.clear()
