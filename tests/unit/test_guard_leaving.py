"""A guard gives its lease back also when its task is cancelled while it leaves (LEA-13)."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast import InvalidArgument, SessionMeta


def test_a_cancellation_while_leaving_withdraws_no_release(tmp_path: Path) -> None:
    writing, go_on = threading.Event(), threading.Event()

    def hold(name: str, moment: str) -> None:
        if (name, moment) == ("save_meta", "before"):
            writing.set()
            assert go_on.wait(10)

    async def leave_while_the_writer_is_busy(store: Any) -> Any:
        view = store.session("s1")
        guard = await view.guard(holdfast.local_process("me")).__aenter__()
        meta = SessionMeta(session_id="s2", session_name="", created_at_ms=0)
        busy = asyncio.create_task(store.sessions.save_meta(meta))
        await asyncio.to_thread(writing.wait, 10)

        leaving = asyncio.create_task(guard.__aexit__(None, None, None))
        while not waiting.qsize():
            await asyncio.sleep(0)
        for _ in range(2):
            leaving.cancel()
            await asyncio.sleep(0)
        go_on.set()

        await busy
        with pytest.raises(asyncio.CancelledError):
            await leaving
        return await view.lease()

    with holdfast.open(f"sqlite:///{tmp_path / 'a.db'}") as store:
        backend: Any = store._core.backend
        backend.on_statement, waiting = hold, backend._writer._queue
        assert asyncio.run(leave_while_the_writer_is_busy(store.aio)) is None


@pytest.mark.parametrize("given", [{"timings": (3, 1)}, {"owner": "me"}])
def test_a_guard_is_given_its_records(given: dict[str, Any]) -> None:
    with holdfast.open("sqlite://") as store:
        arguments = {"owner": holdfast.local_process("me")} | given
        with pytest.raises(InvalidArgument) as refused:
            store.session("s1").guard(**arguments)
        assert refused.value.field == next(iter(given))
