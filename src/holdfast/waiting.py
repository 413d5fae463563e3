"""Waiting in an event loop for what the store's threads do (EXT-14, EXT-15).

A loop is only ever told that there is news: one wake-up for all futures of one commit, since
waking a loop costs more than most of what it then does.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Coroutine
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, TypeVar
from weakref import WeakKeyDictionary, ref

T = TypeVar("T")


class _Mailbox:
    """What has been settled for one loop and not been passed on yet."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        # Weak, as is the loop's place in the table of mailboxes: neither may keep a loop alive.
        self._loop = ref(loop)
        self._settled: deque[asyncio.Future[None]] = deque()
        self._lock = threading.Lock()
        self._woken = False

    def expect(self, future: Future[Any], answered: asyncio.Future[None]) -> None:
        """Tell the loop's future once the store's is done."""
        future.add_done_callback(lambda _: self.put(answered))

    def put(self, answered: asyncio.Future[None]) -> None:
        """From any thread: this future has its answer."""
        with self._lock:
            self._settled.append(answered)
            if self._woken:
                return
            self._woken = True
        loop = self._loop()
        # A loop that was closed meanwhile has nobody left to be told.
        with suppress(RuntimeError):
            if loop is not None:
                loop.call_soon_threadsafe(self._deliver)

    def _deliver(self) -> None:
        with self._lock:
            self._woken = False
            settled, self._settled = self._settled, deque()
        for answered in settled:
            if not answered.done():
                answered.set_result(None)


_mailboxes: WeakKeyDictionary[asyncio.AbstractEventLoop, _Mailbox] = WeakKeyDictionary()
_guard = threading.Lock()


def _mailbox(loop: asyncio.AbstractEventLoop) -> _Mailbox:
    box = _mailboxes.get(loop)
    if box is None:
        with _guard:
            # What a closed loop was not told any more would keep it alive in here.
            for closed in [each for each in _mailboxes if each.is_closed()]:
                del _mailboxes[closed]
            box = _mailboxes.setdefault(loop, _Mailbox(loop))
    return box


async def unhurried(work: Coroutine[Any, Any, T]) -> T:
    """Finish `work`, whoever cancels meanwhile; they are heard when it is done."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError as cancelled:
        while not task.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait({task})
        if not task.cancelled() and (error := task.exception()) is not None:
            raise cancelled from error
        raise


async def settled(future: Future[T], wait_ms: int) -> T:
    """The outcome of handed-over work; a cancelled caller is told once it is known.

    At the latest it is told after `wait_ms`.
    """
    loop = asyncio.get_running_loop()
    box = _mailbox(loop)
    answered: asyncio.Future[None] = loop.create_future()
    box.expect(future, answered)
    try:
        await answered
    except asyncio.CancelledError as cancelled:
        if future.cancel():
            raise
        await _outlast(future, box, wait_ms)
        if future.done() and (error := future.exception()) is not None:
            raise cancelled from error
        raise
    return future.result()


async def _outlast(future: Future[Any], box: _Mailbox, wait_ms: int) -> None:
    """Wait on, whoever cancels again, for as long as a write may take."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + wait_ms / 1000
    while not future.done() and (left := deadline - loop.time()) > 0:
        answered: asyncio.Future[None] = loop.create_future()
        box.expect(future, answered)
        try:
            await asyncio.wait_for(answered, left)
        except asyncio.CancelledError:
            continue
        except TimeoutError:
            return
