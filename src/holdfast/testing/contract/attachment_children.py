"""What other operating-system processes do with attachments in the tests of the contract."""

from __future__ import annotations

import asyncio
import hashlib
import os
import signal
import threading
import time
import tracemalloc
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import holdfast
from holdfast import AttachmentNotFound, ByteBackend, DatabaseBytes, DirectoryBytes
from holdfast.testing.calm import Calm
from holdfast.testing.clock import ManualClock
from holdfast.testing.contract.children import real, reopened, status_of

MIB = 1024 * 1024
_BLOCK = bytes(range(256)) * (MIB // 256)


def through(store: Any, folder: str, size: int) -> tuple[int, str, str, int, int]:
    """Length, id, and the hash of what came back of a stream; the memory it took, by two counts."""
    backend = DirectoryBytes(folder)
    before = _high_water()
    tracemalloc.start()
    if isinstance(store, Calm):
        told = asyncio.run(_through_aio(backend, size))
    else:
        told = _through_blocking(backend, size)
    _, peak = tracemalloc.get_traced_memory()
    return (*told, peak, _high_water() - before)


def _through_blocking(backend: ByteBackend, size: int) -> tuple[int, str, str]:
    back = hashlib.sha256()
    with holdfast.open("sqlite://", attachments=backend) as store:
        ref = store.attachments.put("s1", _blocks(size))
        for piece in store.attachments.stream("s1", ref.id):
            back.update(piece)
    return ref.byte_len, ref.id, back.hexdigest()


async def _through_aio(backend: ByteBackend, size: int) -> tuple[int, str, str]:
    back = hashlib.sha256()
    async with holdfast.open("sqlite://", attachments=backend) as store:
        ref = await store.attachments.put("s1", _later(_blocks(size)))
        async for piece in store.attachments.stream("s1", ref.id):
            back.update(piece)
    return ref.byte_len, ref.id, back.hexdigest()


def _blocks(size: int) -> Iterator[bytes]:
    for _ in range(size // MIB):
        yield _BLOCK


async def _later(pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece


def _high_water() -> int:
    """The most memory this process ever had; 0 where the system does not say."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return 0
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


#: A put of 6 MiB comes in 21 pieces; before some of these it is killed, and some ms behind them.
PIECE = 300_000
KILLED_BEFORE_PIECES = (0, 5, 10, 15, 20)
KILLED_MS_BEHIND = range(0, 40, 5)


def die_in_many_puts(
    store: Any, url: str, settings: dict[str, Any], folder: str | None
) -> dict[str, list[tuple[str, int]]]:
    """What processes left that were killed within a stream, about its end, and behind their put."""
    store.close()  # nothing of it may be open in the processes that follow
    place = Place(store, url, settings, folder)
    return {
        "within": [place.die(_Content(before_piece=number)) for number in KILLED_BEFORE_PIECES],
        "about_its_end": [place.die(_Content(ms_behind=delay)) for delay in KILLED_MS_BEHIND],
        "behind": [place.die(_Content())],
    }


class _Content:
    """Something to put, and when its reader is killed."""

    def __init__(self, before_piece: int | None = None, ms_behind: int | None = None) -> None:
        self.bytes = f"{before_piece} {ms_behind}".encode() + bytes(MIB) * 6
        self.id = hashlib.sha256(self.bytes).hexdigest()
        self._before_piece = before_piece
        self.ms_behind = ms_behind

    def pieces(self) -> Iterator[bytes]:
        for number, at in enumerate(range(0, len(self.bytes), PIECE)):
            if number == self._before_piece:
                _die()
            yield self.bytes[at : at + PIECE]
        if self.ms_behind is not None:
            threading.Timer(self.ms_behind / 1_000, _die).start()


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class Place:
    """Where files are put, in the colour of a store."""

    def __init__(self, store: Any, url: str, settings: dict[str, Any], folder: str | None) -> None:
        self._store = store
        self._url = url
        self._settings = settings
        self._folder = folder

    def die(self, content: _Content) -> tuple[str, int]:
        """Be killed in a put; what is left of it, and how much staging a sweep had to remove."""
        status = status_of(lambda: self._put_and_die(content))
        assert status == -signal.SIGKILL, status
        return self._left(content)

    def _put_and_die(self, content: _Content) -> None:
        with self._opened() as own:
            pieces = content.pieces()
            own.attachments.put("s1", _later(pieces) if isinstance(own, Calm) else pieces)
            if content.ms_behind is not None:
                threading.Event().wait()
            _die()

    def _left(self, content: _Content) -> tuple[str, int]:
        """`nothing` or `all`; an error if it is anything else, or a sweep leaves any of it."""
        # By an hour's difference in the clocks everything is old enough for the sweep.
        later = ManualClock(time.time_ns() // 1_000_000 + 3_600_000)
        with self._opened(clock=later) as own:
            backend = real(own)._core.bytes
            listed = [entry.id for entry in backend.list()]
            try:
                assert own.attachments.get("s1", content.id) == content.bytes
                left = "all"
            except AttachmentNotFound:
                left = "nothing"
            assert listed == ([content.id] if left == "all" else [])
            own.attachments.delete("s1", content.id)
            swept = own.maintenance.reclaim_attachments(0)
            assert backend.list() == []
            assert backend.sweep_staging(2**62) == 0
            assert own.attachments.list_refs() == []
        if self._folder is not None:
            files = [each for each in Path(self._folder).rglob("*") if each.is_file()]
            assert not [each for each in files if each.parent.name != "stores"]
        return left, swept.removed_staging_count

    def _opened(self, **more: Any) -> Any:
        backend = DatabaseBytes() if self._folder is None else DirectoryBytes(self._folder)
        return reopened(self._store, self._url, self._settings | more | {"attachments": backend})
