"""An asyncio face that looks blocking, so that one test serves both colours."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import AsyncGenerator, Coroutine, Iterator
from typing import Any

from holdfast.store import AsyncStore, SessionView

_WRAPPED = (AsyncStore, SessionView)


class Loop:
    """An event loop on a thread of its own."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """The result of a coroutine, for a caller that blocks."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result()

    def close(self) -> None:
        """Stop the loop and its thread."""
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()


class Calm:
    """Every attribute of the wrapped object; what would have to be awaited is awaited."""

    def __init__(self, target: Any, loop: Loop) -> None:
        self._target = target
        self._loop = loop

    def __getattr__(self, name: str) -> Any:
        return self._calmed(getattr(self._target, name))

    def __enter__(self) -> Any:
        return self._calmed(self._loop.run(self._target.__aenter__()))

    def __exit__(self, *error: Any) -> Any:
        return self._loop.run(self._target.__aexit__(*error))

    def _drawn(self, pieces: AsyncGenerator[Any, Any]) -> Iterator[Any]:
        end = object()
        try:
            while (piece := self._loop.run(_next(pieces, end))) is not end:
                yield piece
        finally:
            self._loop.run(_closed(pieces))

    def _calmed(self, value: Any) -> Any:
        if inspect.isasyncgen(value):
            return self._drawn(value)
        if inspect.iscoroutine(value):
            return self._calmed(self._loop.run(value))
        if inspect.isroutine(value):
            return lambda *args, **kwargs: self._calmed(value(*args, **kwargs))
        module = type(value).__module__
        if isinstance(value, _WRAPPED) or module in (
            "holdfast.store",
            "holdfast.face",
            "holdfast.attachment_area",
            "holdfast.runtime.guard",
        ):
            return Calm(value, self._loop)
        return value


async def _next(pieces: AsyncGenerator[Any, Any], end: object) -> Any:
    return await anext(pieces, end)


async def _closed(pieces: AsyncGenerator[Any, Any]) -> None:
    await pieces.aclose()
