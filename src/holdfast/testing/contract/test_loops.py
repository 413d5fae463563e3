"""Extensions 2: one store under any number of threads and event loops (EXT-14)."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from typing import Any

import pytest

from holdfast.testing.contract.samples import chain, create, put
from holdfast.testing.world import World, racing

CALLERS = 16
OPERATIONS = 1_000
#: One operation in so many writes.
WRITES = 50


def blocking_work(store: Any, name: str, count: int = OPERATIONS) -> int:
    """So many operations on a session of one's own; how many of them were right."""
    sessions, right = store.sessions, 0
    for number in range(1, count + 1):
        if number % WRITES == 0:
            right += put(store, name, graph=chain(f"{name}-{number}")).head_revision == (
                number // WRITES
            )
        else:
            right += sessions.lease(name) is None
    return right


async def async_work(aio: Any, name: str, count: int = OPERATIONS) -> int:
    """The same for asyncio."""
    sessions, right = aio.sessions, 0
    for number in range(1, count + 1):
        if number % WRITES == 0:
            done = await put(aio, name, graph=chain(f"{name}-{number}"))
            right += done.head_revision == number // WRITES
        else:
            right += await sessions.lease(name) is None
    return right


@pytest.mark.invariant("INV-37")
@pytest.mark.scenario("EXT-T15")
def test_threads_with_and_without_loops_share_a_store(world: World) -> None:
    real = world.real(world.open())

    def caller(number: int) -> int:
        if number % 2:
            return asyncio.run(async_work(real.aio, f"loop-{number}"))
        return blocking_work(real, f"thread-{number}")

    assert racing(2 * CALLERS, caller) == [OPERATIONS] * (2 * CALLERS)


@pytest.mark.scenario("EXT-T15")
def test_a_loop_that_closes_in_the_middle_disturbs_no_other(world: World) -> None:
    real = world.real(world.open())
    closed = threading.Event()

    async def leave_unfinished() -> None:
        for number in range(20):
            task = asyncio.ensure_future(async_work(real.aio, f"left-{number}"))
            task.add_done_callback(lambda done: done.cancelled() or done.exception())
        await asyncio.sleep(0.005)

    def caller(number: int) -> Any:
        if number:
            done = asyncio.run(async_work(real.aio, f"loop-{number}", 200))
            assert closed.wait(10)
            return done + asyncio.run(async_work(real.aio, f"again-{number}", 100))
        loop = asyncio.new_event_loop()
        loop.run_until_complete(leave_unfinished())
        for task in asyncio.all_tasks(loop):
            task._log_destroy_pending = False  # type: ignore[attr-defined]
        loop.close()
        closed.set()
        return 300

    assert racing(5, caller) == [300] * 5


#: A module that makes its store when it is imported, and uses it in one loop after the other.
_PROGRAM = """
import asyncio, sys
import holdfast
from holdfast.testing.contract.samples import create

STORE = holdfast.open({url!r}, schema={schema!r})

async def main(number):
    await create(STORE.aio, f"s{{number}}")
    return len((await STORE.aio.sessions.list()).sessions)

print([asyncio.run(main(number)) for number in range(3)])
STORE.close()
"""


@pytest.mark.invariant("INV-37")
@pytest.mark.scenario("EXT-T15")
def test_a_store_made_at_import_works_in_successive_loops(world: World) -> None:
    program = _PROGRAM.format(url=world.url, schema=world.schema)

    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": ":".join(path for path in sys.path if path)},
        capture_output=True,
        check=True,
        text=True,
    )

    assert done.stdout.strip() == "[1, 2, 3]"


def test_making_a_store_does_no_io(world: World) -> None:
    store = world.open()
    store.session("s1")

    if world.database == "file":
        assert not world.path.exists()
    create(store, "s1")
    assert store.session("s1").load_meta().session_id == "s1"
