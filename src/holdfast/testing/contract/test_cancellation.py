"""Extensions 2: a cancelled caller is told once the outcome is known (EXT-15)."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest

from holdfast import StoreUnavailable
from holdfast.testing.contract.samples import chain, checkpoint, put
from holdfast.testing.world import World

CONTENTS: dict[str, dict[str, Any]] = {"light": {}, "whole": {"checkpoint": checkpoint()}}


class Held:
    """Stops a store's write once it has been handed over, until it is let go."""

    def __init__(self, world: World, store: Any, *, fails: bool = False) -> None:
        self.reached = threading.Event()
        self.released = threading.Event()
        self._fails = fails
        world.backend(store).on_statement = self._hook

    def _hook(self, name: str, when: str) -> None:
        if when == "before" and name != "commit":
            self.reached.set()
            assert self.released.wait(10)
            if self._fails:
                raise StoreUnavailable("commit", "the disk is gone")

    async def until_reached(self) -> None:
        """Wait for the write, as an asyncio caller."""
        await asyncio.to_thread(self.reached.wait, 10)


async def cancelled_twice(aio: Any, held: Held, **content: Any) -> BaseException:
    """What a task is told that is cancelled, twice, while its write is under way."""
    task = asyncio.create_task(put(aio, "s1", graph=chain("a"), **content))
    await held.until_reached()
    for _ in range(2):
        task.cancel()
        for _ in range(5):
            await asyncio.sleep(0)
        assert not task.done(), "told before the outcome was known"
    held.released.set()
    with pytest.raises(asyncio.CancelledError) as told:
        await task
    assert task.cancelled()
    return told.value


@pytest.mark.invariant("INV-36")
@pytest.mark.scenario("EXT-T16")
@pytest.mark.parametrize("content", CONTENTS)
def test_a_cancelled_write_is_visible_when_its_caller_is_told(
    world: World, store: Any, content: str
) -> None:
    held = Held(world, store)
    aio = world.real(store).aio

    async def main() -> Any:
        await cancelled_twice(aio, held, **CONTENTS[content])
        return await aio.sessions.load("s1")

    assert asyncio.run(main()).head_revision == 1


@pytest.mark.scenario("EXT-T16")
@pytest.mark.parametrize("content", CONTENTS)
def test_a_cancelled_write_that_fails_leaves_nothing_and_says_why(
    world: World, store: Any, content: str
) -> None:
    held = Held(world, store, fails=True)
    aio = world.real(store).aio

    async def main() -> BaseException:
        return await cancelled_twice(aio, held, **CONTENTS[content])

    told = asyncio.run(main())
    world.backend(store).on_statement = None
    assert store.sessions.load("s1") is None
    assert isinstance(told.__cause__, StoreUnavailable)


@pytest.mark.invariant("INV-36")
def test_a_write_that_was_not_handed_over_is_withdrawn(world: World) -> None:
    store = world.open(pool_size=1)
    held = Held(world, store)
    aio = world.real(store).aio

    async def main() -> None:
        first = asyncio.create_task(put(aio, "s1", graph=chain("a")))
        await held.until_reached()
        second = asyncio.create_task(put(aio, "s2", graph=chain("b")))
        for _ in range(10):
            await asyncio.sleep(0)
        second.cancel()
        with pytest.raises(asyncio.CancelledError):
            await second
        assert not first.done()
        held.released.set()
        await first

    asyncio.run(main())
    assert store.sessions.load("s1").head_revision == 1
    assert store.sessions.load("s2") is None


def test_a_cancelled_caller_waits_no_longer_than_wait_ms(world: World) -> None:
    store = world.open(wait_ms=200)
    held = Held(world, store)
    aio = world.real(store).aio

    async def main() -> float:
        task = asyncio.create_task(put(aio, "s1", graph=chain("a")))
        await held.until_reached()
        began = time.monotonic()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return time.monotonic() - began

    waited = asyncio.run(main())
    held.released.set()
    assert 0.1 < waited < 5
