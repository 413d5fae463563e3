"""What other operating-system processes do with attachments in the tests of the contract."""

from __future__ import annotations

import asyncio
import hashlib
import os
import random
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


def die_in_many_puts(
    store: Any, url: str, settings: dict[str, Any], folder: str | None, rounds: int
) -> list[str]:
    """What each of a row of processes left that was killed at some moment of a put."""
    store.close()  # nothing of it may be open in the processes that follow
    seed = random.Random(7)
    found = []
    for number in range(rounds):
        content = b"%d" % number + bytes(MIB) * 6
        child = os.fork()
        if not child:
            _put_and_die(url, settings, folder, content, seed.random())
        seed.random()
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert status in (0, -signal.SIGKILL), status
        found.append(_left(url, settings, folder, content))
    return found


def _backend(folder: str | None) -> ByteBackend:
    return DatabaseBytes() if folder is None else DirectoryBytes(folder)


def _put_and_die(
    url: str, settings: dict[str, Any], folder: str | None, content: bytes, when: float
) -> None:
    """Put a stream, and be killed: at some byte of it, or at some moment around its end."""
    try:
        with holdfast.open(url, attachments=_backend(folder), **settings) as store:
            last = int(when * 1.4 * len(content))

            def pieces() -> Iterator[bytes]:
                for at in range(0, len(content), 300_000):
                    if at >= last:
                        os.kill(os.getpid(), signal.SIGKILL)
                    yield content[at : at + 300_000]
                delay = when * 0.02
                threading.Timer(delay, os.kill, (os.getpid(), signal.SIGKILL)).start()

            store.attachments.put("s1", pieces())
            time.sleep(0.05)
    finally:
        os._exit(0)


def _left(url: str, settings: dict[str, Any], folder: str | None, content: bytes) -> str:
    """`nothing` or `all` of a put; an error if it is anything else, or a sweep leaves any of it."""
    id = hashlib.sha256(content).hexdigest()
    with holdfast.open(url, attachments=_backend(folder), **settings) as store:
        backend = store._core.bytes
        listed = [entry.id for entry in backend.list()]
        try:
            assert store.attachments.get("s1", id) == content
            left = "all"
        except AttachmentNotFound:
            left = "nothing"
        assert listed == ([id] if left == "all" else []) or (left, listed) == ("nothing", [])
        time.sleep(0.002)
        store.attachments.delete("s1", id)
        store.maintenance.reclaim_attachments(0)
        assert backend.list() == []
        assert backend.sweep_staging(2**62) == 0
        assert store.attachments.list_refs() == []
    if folder is not None:
        left_over = [each for each in Path(folder).rglob("*") if each.is_file()]
        assert not [each for each in left_over if each.parent.name != "stores"]
    return left
