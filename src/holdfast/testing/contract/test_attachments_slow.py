"""Puts and streams while a backend fails or is slow, a source waits, or a caller gives up."""

from __future__ import annotations

import asyncio
import io
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

import holdfast
from holdfast import (
    AttachmentNotFound,
    MemoryBytes,
    StoreClosed,
)
from holdfast.core import DRAWN_AT_ONCE
from holdfast.testing.contract.faulty import Faulty, nothing, pieces
from holdfast.testing.contract.samples import chain, put, turn
from holdfast.testing.contract.test_attachments import LARGE, SMALL, sha256
from holdfast.testing.world import World

EVER = 2**62
SOURCES: dict[str, Callable[[], Any]] = {
    "small": lambda: SMALL,
    "large": lambda: LARGE,
    "stream": lambda: io.BytesIO(LARGE),
}


# --- backends that fail, or are slow ---------------------------------------------------------


def _refuse() -> None:
    raise OSError("the bucket is gone")


@pytest.mark.parametrize("step", ["before_write", "before_publish"])
@pytest.mark.parametrize("source", SOURCES)
def test_a_failing_backend_leaves_an_intent_and_no_bytes(
    world: World, step: str, source: str
) -> None:
    backend = Faulty()
    store = world.open(attachments=backend)
    setattr(backend, step, _refuse)

    with pytest.raises(OSError, match="the bucket is gone"):
        store.attachments.put("s1", SOURCES[source]())

    assert backend.list() == []
    id = sha256(SMALL if source == "small" else LARGE)
    written_down = not (source == "stream" and step == "before_write")
    assert store.attachments.list_refs() == ([id] if written_down else [])
    with pytest.raises(AttachmentNotFound):
        store.attachments.get("s1", id)
    setattr(backend, step, nothing)
    assert store.attachments.put("s1", SOURCES[source]()).id == id
    world.clock.advance(1)
    store.attachments.delete("s1", id)
    assert store.maintenance.reclaim_attachments(0).reclaimed_count == 1


def test_a_failing_read_is_told_and_changes_nothing(world: World) -> None:
    backend = Faulty()
    store = world.open(attachments=backend)
    id = store.attachments.put("s1", SMALL).id
    before = world.dump(store)
    backend.before_read = _refuse

    with pytest.raises(OSError, match="the bucket is gone"):
        store.attachments.get("s1", id)
    with pytest.raises(OSError, match="the bucket is gone"):
        list(store.attachments.stream("s1", id))

    assert world.dump(store) == before


@pytest.mark.invariant("INV-33")
def test_a_slow_backend_holds_up_nothing_else(world: World) -> None:
    backend = Faulty()
    store = world.open(attachments=backend)
    entered, go_on = threading.Semaphore(0), threading.Event()

    def wait() -> None:
        entered.release()
        assert go_on.wait(20)

    backend.before_write = wait
    contents = [LARGE + b"%d" % number for number in range(8)]
    with ThreadPoolExecutor(8) as pool:
        slow = [pool.submit(store.attachments.put, "s1", content) for content in contents]
        for _ in contents:
            assert entered.acquire(timeout=10)

        put(store, "s1", graph=chain("a"), turn_commit=turn("t1"))
        store.maintenance.vacuum()
        store.maintenance.collect_garbage()
        assert store.sessions.load("s1").head_revision == 1
        assert len(store.attachments.list_refs()) == 8

        go_on.set()
        refs = [each.result(20) for each in slow]
    assert [store.attachments.get("s1", ref.id) for ref in refs] == contents


def test_sources_that_wait_hold_up_nothing_else() -> None:
    async def main() -> None:
        async with holdfast.open("sqlite://", attachments=MemoryBytes()) as store:
            ref = await store.attachments.put("s1", LARGE)
            waiting, go_on = threading.Semaphore(0), threading.Event()

            def source(number: int) -> Iterator[bytes]:
                yield b"%d" % number
                waiting.release()
                assert go_on.wait(30)

            # More than there are threads for any of it.
            slow = [store.attachments.put("s1", source(number)) for number in range(40)]
            tasks = [asyncio.ensure_future(each) for each in slow]
            for _ in range(DRAWN_AT_ONCE):
                assert await asyncio.to_thread(waiting.acquire, timeout=30)

            assert await store.attachments.get("s1", ref.id) == LARGE
            assert b"".join([p async for p in store.attachments.stream("s1", ref.id)]) == LARGE
            assert (await store.attachments.put("s1", SMALL)).id == sha256(SMALL)
            assert (await store.attachments.put("s1", pieces(LARGE))).id == ref.id
            await store.maintenance.reclaim_attachments(60_000)

            go_on.set()
            assert [each.id for each in await asyncio.gather(*tasks)] == [
                sha256(b"%d" % number) for number in range(40)
            ]

    asyncio.run(main())


def test_what_is_read_can_be_piped_into_puts() -> None:
    async def pipe(store: Any, id: str) -> str:
        """A blocking source that waits for what a stream of the same store brings."""
        pieces: SimpleQueue[bytes] = SimpleQueue()
        put = asyncio.ensure_future(
            store.attachments.put("s2", iter(partial(pieces.get, timeout=30), b""))
        )
        async for piece in store.attachments.stream("s1", id):
            pieces.put(piece)
            await asyncio.sleep(0)
        pieces.put(b"")
        return str((await put).id)

    async def main() -> None:
        async with holdfast.open("sqlite://", attachments=MemoryBytes()) as store:
            ref = await store.attachments.put("s1", LARGE)
            pipes = asyncio.gather(*(pipe(store, ref.id) for _ in range(16)))
            assert await asyncio.wait_for(pipes, 60) == [ref.id] * 16

    asyncio.run(main())


class Strict:
    """A source that an event loop may not touch."""

    def __init__(self, loop: threading.Thread) -> None:
        self._loop = loop
        self._left = 3

    def _check(self) -> None:
        assert threading.current_thread() is not self._loop

    def __iter__(self) -> Strict:
        self._check()
        return self

    def __next__(self) -> bytes:
        self._check()
        self._left -= 1
        if self._left < 0:
            raise StopIteration
        return bytes(1_000_000)


def test_a_loop_touches_no_blocking_source() -> None:
    async def main() -> None:
        async with holdfast.open("sqlite://", attachments=MemoryBytes()) as store:
            source = Strict(threading.current_thread())
            assert (await store.attachments.put("s1", source)).byte_len == 3_000_000

    asyncio.run(main())


class Copied(bytearray):
    """Bytes of the caller's that say which thread copied them."""

    by: threading.Thread

    def __bytes__(self) -> bytes:
        self.by = threading.current_thread()
        return bytes(memoryview(self))


def test_a_loop_copies_no_large_bytes() -> None:
    async def main() -> None:
        async with holdfast.open("sqlite://", attachments=MemoryBytes()) as store:
            data = Copied(LARGE)
            assert (await store.attachments.put("s1", data)).id == sha256(LARGE)
            assert data.by is not threading.current_thread()

    asyncio.run(main())


# --- cancellation --------------------------------------------------------------------------


@pytest.mark.parametrize("times", [1, 2])
def test_a_cancelled_put_leaves_nothing(times: int) -> None:
    backend = Faulty()
    entered, go_on = threading.Event(), threading.Event()

    def wait() -> None:
        entered.set()
        assert go_on.wait(10)

    async def main() -> None:
        async with holdfast.open("sqlite://", attachments=backend) as store:
            await store.sessions.list()
            backend.before_write = wait
            task = asyncio.ensure_future(store.attachments.put("s1", io.BytesIO(LARGE)))
            assert await asyncio.to_thread(entered.wait, 10)
            for _ in range(times):
                task.cancel()
                await asyncio.sleep(0.01)
            assert not task.done(), "it is told once the write under way has ended"
            go_on.set()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert backend.list() == []
            assert backend.discarded == 1
            assert await store.attachments.list_refs() == []
            ref = await store.attachments.put("s1", io.BytesIO(LARGE))
            assert await store.attachments.get("s1", ref.id) == LARGE

    asyncio.run(main())


def test_what_was_put_is_given_up_also_when_that_is_cancelled_before_it_began() -> None:
    backend = Faulty()
    go_on = threading.Event()

    async def main() -> None:
        async with holdfast.open("sqlite://", attachments=backend) as store:
            staged = asyncio.Event()

            async def source() -> AsyncIterator[bytes]:
                yield LARGE
                yield LARGE
                yield LARGE
                staged.set()
                await asyncio.Event().wait()

            task = asyncio.ensure_future(store.attachments.put("s1", source()))
            await asyncio.wait_for(staged.wait(), 20)
            busy = [store._core.start_beside(partial(go_on.wait, 20)) for _ in range(8)]
            assert await asyncio.to_thread(_until, lambda: all(each.running() for each in busy))

            task.cancel()
            await asyncio.sleep(0)  # giving it up is queued behind them
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert backend.discarded == 0

            go_on.set()
            assert await asyncio.to_thread(_until, lambda: backend.discarded == 1)

    asyncio.run(main())


def _until(found: Callable[[], bool]) -> bool:
    """Whether something comes true before long."""
    deadline = time.monotonic() + 20
    while not found() and time.monotonic() < deadline:
        time.sleep(0.005)
    return found()


def test_a_cancelled_stream_lets_go(tmp_path: Path) -> None:
    async def main() -> None:
        backend = holdfast.DirectoryBytes(tmp_path)
        async with holdfast.open("sqlite://", attachments=backend) as store:
            ref = await store.attachments.put("s1", LARGE)

            async def read() -> None:
                async for _ in store.attachments.stream("s1", ref.id):
                    await asyncio.sleep(60)

            task = asyncio.ensure_future(read())
            await asyncio.sleep(0.05)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert await store.attachments.get("s1", ref.id) == LARGE

    asyncio.run(main())


@pytest.mark.parametrize("start", ["start_beside", "start_drawing", "aside"])
def test_what_meets_a_closing_store_is_told_so(start: str) -> None:
    async def main() -> None:
        async with holdfast.open("sqlite://") as store:
            core: Any = store._core
            check = core.check_alive

            def check_and_close() -> None:
                check()
                core.close()

            core.check_alive = check_and_close
            with pytest.raises(StoreClosed) as told:
                begun = getattr(core, start)(lambda: None)
                await begun
            assert told.value.reason == "closed"

    asyncio.run(main())
