"""Waiting in event loops for the store's threads."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast import waiting


def test_a_cancelled_read_does_not_wait_for_its_end(tmp_path: Path) -> None:
    reading, go_on = threading.Event(), threading.Event()

    def linger(_: str, __: str) -> None:
        reading.set()
        assert go_on.wait(10)

    async def give_up(store: Any) -> None:
        task = asyncio.create_task(store.sessions.load("s1"))
        await asyncio.to_thread(reading.wait, 10)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, 5)

    with holdfast.open(f"sqlite:///{tmp_path / 'a.db'}") as store:
        backend: Any = store._core.backend
        backend.on_statement = linger
        asyncio.run(give_up(store.aio))
        go_on.set()


@pytest.mark.parametrize("settled_first", [False, True])
def test_a_loop_that_was_closed_is_forgotten(settled_first: bool) -> None:
    future: Future[None] = Future()
    future.set_running_or_notify_cancel()
    loop = asyncio.new_event_loop()

    async def begin(future: Future[None]) -> None:
        task = asyncio.ensure_future(waiting.settled(future, 0))
        await asyncio.sleep(0)
        task.cancel()

    loop.run_until_complete(begin(future))
    if settled_first:
        future.set_result(None)  # the loop is told, and never comes to pass it on
    loop.close()
    if not settled_first:
        future.set_result(None)

    gone = weakref.ref(loop)
    del loop, future
    asyncio.run(_settle_something())
    gc.collect()
    assert gone() is None


async def _settle_something() -> None:
    done: Future[None] = Future()
    done.set_result(None)
    await waiting.settled(done, 0)
