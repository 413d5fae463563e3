"""The way in: bytes are hashed, written down, and only then readable (ATT-11, ATT-17, ATT-22).

Bytes whose hash is known are written down before anything is stored. A stream is staged while it
is hashed, a piece at a time, and takes its id only after it was written down.
"""

from __future__ import annotations

import hashlib
import logging
import threading
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
)
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO, Final, TypeAlias

import msgspec

from holdfast.attachments.port import BytePort
from holdfast.errors import InvalidArgument
from holdfast.model.attachments import AttachmentRef
from holdfast.rules import attachments, checks

if TYPE_CHECKING:
    from holdfast.attachments.backend import ByteBackend, Staged

log = logging.getLogger("holdfast")

#: How much of a stream is in hand at a time.
PIECE_BYTES: Final = 1024 * 1024

_END: Final = object()

#: What a caller may put: bytes, or where they come from, piece by piece.
Incoming: TypeAlias = (
    "bytes | bytearray | memoryview | BinaryIO | Iterable[bytes] | AsyncIterable[bytes]"
)


class Intake:
    """What is put and where it goes, how its way is waited for, and who is told of it.

    What cannot be put is refused here, before anything is done.
    """

    def __init__(
        self,
        port: BytePort,
        backend: ByteBackend,
        data: Incoming,
        progress: Callable[[int], object] | None,
    ) -> None:
        self.port = port
        self.backend = backend
        self.data = _checked_source(port, data)
        self._progress = attachments.callback(progress, "progress")

    def allow(self, byte_len: int) -> None:
        """Refuse more than the backend keeps."""
        if self.backend.max_bytes is not None:
            checks.at_most(byte_len, self.backend.max_bytes, "data")

    def tell(self, byte_len: int) -> None:
        """Say how far it is."""
        if self._progress is not None:
            self._progress(byte_len)


async def put_bytes(
    intake: Intake, meta: AttachmentRef, before: Callable[[str], Awaitable[None]]
) -> AttachmentRef:
    """Store bytes; `before` is told their id before any of them can be read under it."""
    data = intake.data
    if isinstance(data, bytes):
        id, byte_len = await _put_known(intake, data, before)
    elif isinstance(data, bytearray | memoryview):
        # It may be large, and copying it takes a while.
        id, byte_len = await _put_known(
            intake, await intake.port.call(partial(bytes, data)), before
        )
    else:
        async with aclosing(_pieces(intake.port, data)) as pieces:
            id, byte_len = await _put_stream(intake, pieces, before)
    return msgspec.structs.replace(meta, id=id, byte_len=byte_len)


async def _put_known(
    intake: Intake, data: bytes, before: Callable[[str], Awaitable[None]]
) -> tuple[str, int]:
    intake.allow(len(data))
    port, backend = intake.port, intake.backend
    if len(data) > PIECE_BYTES:
        id = await port.call(lambda: hashlib.sha256(data).hexdigest())
        await before(id)
        parts = (data[at : at + PIECE_BYTES] for at in range(0, len(data), PIECE_BYTES))
        async with _Staging(intake) as staging:
            for part in parts:
                await staging.write(part)
            await staging.publish(id)
    else:
        id = hashlib.sha256(data).hexdigest()
        await before(id)
        await port.call(partial(backend.put_small, id, data))
        intake.tell(len(data))
    return id, len(data)


async def _put_stream(
    intake: Intake, pieces: AsyncIterator[bytes], before: Callable[[str], Awaitable[None]]
) -> tuple[str, int]:
    first = await anext(pieces, b"")
    second = await anext(pieces, None)
    if second is None:
        return await _put_known(intake, first, before)
    async with _Staging(intake, hashed=True) as staging:
        await staging.write(first)
        await staging.write(second)
        async for piece in pieces:
            await staging.write(piece)
        id = staging.id
        await before(id)
        await staging.publish(id)
    return id, staging.byte_len


class _Staging:
    """A staging that is given up unless it was published.

    What touches it takes turns: a caller who was cancelled is told after a while even if the
    backend has not answered yet, and what it gives up may so meet what is still being written.
    """

    def __init__(self, intake: Intake, *, hashed: bool = False) -> None:
        self._intake = intake
        self._hash = hashlib.sha256() if hashed else None
        self._turn = threading.Lock()
        self._staged: Staged | None = None
        self._over = False
        self.byte_len = 0

    async def __aenter__(self) -> _Staging:
        return self

    async def __aexit__(self, kind: object, error: object, trace: object) -> None:
        if not self._over:
            await self._intake.port.undo(self._discard)

    @property
    def id(self) -> str:
        """The hash of everything written."""
        assert self._hash is not None
        return self._hash.hexdigest()

    async def write(self, piece: bytes) -> None:
        """The next bytes; the first ones make the staging."""
        self.byte_len += len(piece)
        self._intake.allow(self.byte_len)
        await self._intake.port.call(partial(self._write, piece))
        self._intake.tell(self.byte_len)

    async def publish(self, id: str) -> None:
        """Let it be read under its id."""
        await self._intake.port.call(partial(self._publish, id))

    def _write(self, piece: bytes) -> None:
        with self._turn:
            if self._over:
                return
            if self._staged is None:
                self._staged = self._intake.backend.stage()
            if self._hash is not None:
                self._hash.update(piece)
            self._staged.write(piece)

    def _publish(self, id: str) -> None:
        with self._turn:
            if self._staged is not None and not self._over:
                self._staged.publish(id)
                self._staged, self._over = None, True

    def _discard(self) -> None:
        with self._turn:
            staged, self._staged, self._over = self._staged, None, True
            try:
                if staged is not None:
                    staged.discard()
            except Exception:
                # What went wrong before it is what the caller has to hear of.
                log.warning("a staging is left to the sweep", exc_info=True)


# --- where bytes come from ---------------------------------------------------------------


def _checked_source(port: BytePort, data: Any) -> Any:
    """What bytes can come from: itself bytes, a file, or an iterable of one of two kinds."""
    if hasattr(data, "__aiter__"):
        if not port.aio:
            raise InvalidArgument("data", "an async iterable is for the asyncio face")
    elif not _is_file(data) and (not isinstance(data, Iterable) or isinstance(data, str | dict)):
        raise InvalidArgument("data", "not_bytes")
    return data


async def _pieces(port: BytePort, data: Any) -> AsyncGenerator[bytes, None]:
    """What comes in, in pieces of at least a MiB, the last one but for the rest."""
    if hasattr(data, "__aiter__"):
        async for piece in _gathered(data):
            yield piece
        return
    source = _source(data)
    # Reading may block as much as writing, and for longer.
    while piece := await port.draw(partial(_take, source)):
        yield piece


def _is_file(data: Any) -> bool:
    return callable(getattr(data, "read", None))


def _source(data: Any) -> Iterator[Any]:
    """What a file or an iterable gives; neither is touched before the first piece is asked for."""
    pieces = iter(partial(data.read, PIECE_BYTES), b"") if _is_file(data) else data
    for piece in pieces:  # noqa: UP028  (an iterator of the caller's is not ours to close)
        yield piece


def _take(source: Iterator[Any]) -> bytes:
    taken: list[bytes] = []
    size = 0
    while size < PIECE_BYTES and (piece := next(source, _END)) is not _END:
        taken.append(_checked(piece))
        size += len(taken[-1])
    return taken[0] if len(taken) == 1 else b"".join(taken)


async def _gathered(data: AsyncIterable[Any]) -> AsyncIterator[bytes]:
    taken = bytearray()
    async for piece in data:
        taken += _checked(piece)
        if len(taken) >= PIECE_BYTES:
            yield bytes(taken)
            taken.clear()
    if taken:
        yield bytes(taken)


def _checked(piece: Any) -> bytes:
    if not isinstance(piece, bytes | bytearray | memoryview):
        raise InvalidArgument("data", "not_bytes")
    return bytes(piece)
