"""One engine behind both faces: opened once, closed once, by whoever and whatever comes between."""

from __future__ import annotations

import asyncio
import gc
import itertools
import os
import threading
import warnings
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast import SessionCreate, StoreClosed, StoreUnavailable
from holdfast.core import Core
from holdfast.model.values import Durability
from holdfast.settings import Settings


class Backend:
    """Counts its openings and closings, and does in them what a test says."""

    tier = Durability.INLINE

    def __init__(self, opening: Any = None, closing: Any = None) -> None:
        self.settings = Settings()
        self.opening, self.closing = opening, closing
        self.opened = self.closed = 0

    def open(self) -> None:
        self.opened += 1
        if self.opening is not None:
            self.opening()

    def close(self) -> None:
        self.closed += 1
        if self.closing is not None:
            self.closing()


def core(backend: Backend) -> Core:
    return Core(backend, backend.settings)  # type: ignore[arg-type]


def test_callers_who_wait_for_an_opening_share_its_failure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waiting, all_wait = itertools.count(1), threading.Event()

    class Awaited(Future[None]):
        def result(self, timeout: float | None = None) -> None:
            if next(waiting) == 9:
                all_wait.set()
            return super().result(timeout)

    def fail() -> None:
        assert all_wait.wait(10)
        raise StoreUnavailable("open", "not today", True, False)

    monkeypatch.setattr("holdfast.core.Future", Awaited)
    backend = Backend(opening=fail)
    made = core(backend)
    with ThreadPoolExecutor(10) as threads:
        callers = [threads.submit(made.open) for _ in range(10)]
        errors = [caller.exception(20) for caller in callers]

    assert {type(error) for error in errors} == {StoreUnavailable}
    assert backend.opened == 1


def test_after_a_failed_opening_the_next_caller_tries_again() -> None:
    failures = [StoreUnavailable("open", "not yet", True, False)]

    def fail_once() -> None:
        if failures:
            raise failures.pop()

    made = core(Backend(opening=fail_once))
    with pytest.raises(StoreUnavailable):
        made.open()
    made.open()
    made.close()


def test_whoever_waits_for_an_interrupted_opening_hears_a_fault() -> None:
    begun, go_on = threading.Event(), threading.Event()

    def interrupted() -> None:
        begun.set()
        assert go_on.wait(10)
        raise KeyboardInterrupt

    made = core(Backend(opening=interrupted))
    with ThreadPoolExecutor(1) as threads:
        first = threads.submit(made.open)
        assert begun.wait(10)
        attempt = made._attempt
        assert isinstance(attempt, Future)
        go_on.set()
        assert isinstance(first.exception(10), KeyboardInterrupt)
    with pytest.raises(StoreUnavailable, match="interrupted"):
        attempt.result(10)


def test_closing_within_a_closing_ends() -> None:
    """As a signal handler does that closes what its thread is closing."""
    backend = Backend()
    made = core(backend)
    made.open()
    backend.closing = lambda: made.close() if backend.closed == 1 else None

    made.close()

    assert backend.closed == 2


def test_closing_within_an_opening_closes_what_was_opened() -> None:
    backend = Backend()
    made = core(backend)
    backend.opening = made.close

    with pytest.raises(StoreClosed):
        made.open()
    assert backend.closed == 1


def test_an_interrupted_closing_can_be_finished() -> None:
    def interrupted() -> None:
        if backend.closed == 1:
            raise KeyboardInterrupt

    backend = Backend(closing=interrupted)
    made = core(backend)
    made.open()

    with pytest.raises(KeyboardInterrupt):
        made.close()
    made.close()

    assert backend.closed == 2


def test_a_dropped_store_is_let_go_of_with_a_warning() -> None:
    closed = threading.Event()
    backend = Backend(closing=closed.set)
    made = core(backend)
    made.open()

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        del made
        gc.collect()

    assert closed.wait(10)
    assert [warning.category for warning in told] == [ResourceWarning]


def test_a_closed_store_is_dropped_in_silence() -> None:
    backend = Backend()
    made = core(backend)
    made.open()
    made.close()

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        del made
        gc.collect()
    assert backend.closed == 1


def test_a_cancelled_closing_is_waited_for() -> None:
    begun, go_on = threading.Event(), threading.Event()

    def linger() -> None:
        begun.set()
        assert go_on.wait(10)

    async def close() -> bool:
        closing = asyncio.create_task(store.close())
        await asyncio.to_thread(begun.wait, 10)
        closing.cancel()
        await asyncio.wait({closing}, timeout=0.05)
        waited = not closing.done()
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await closing
        return waited

    backend = Backend(closing=linger)
    store = holdfast.Store(core(backend)).aio
    store._core.open()
    assert asyncio.run(close())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_store_that_nobody_opened_yet_serves_a_forked_child(tmp_path: Path) -> None:
    """As a module-level store of a server that forks its workers."""
    store = holdfast.open(f"sqlite:///{tmp_path / 'store.db'}")
    child = os.fork()
    if not child:
        try:
            store.sessions.create(SessionCreate(session_id="s1"))
            store.close()
        except BaseException:
            os._exit(1)
        os._exit(0)

    assert os.waitpid(child, 0)[1] == 0
    assert [found.session_id for found in store.sessions.list().sessions] == ["s1"]
    store.close()


def test_a_closed_store_refuses_what_needs_no_database() -> None:
    store = holdfast.open("sqlite://")
    store.close()

    with pytest.raises(StoreClosed):
        store.queue.list("s1", limit=0)
    with pytest.raises(StoreClosed):
        asyncio.run(_list_nothing(store))


async def _list_nothing(store: holdfast.Store) -> None:
    await store.aio.queue.list("s1", limit=0)
