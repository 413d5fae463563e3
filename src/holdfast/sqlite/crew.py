"""A few store threads that work off what is handed to them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Generic, TypeVar

from holdfast.errors import StoreClosed

T = TypeVar("T")

log = logging.getLogger("holdfast")


class Crew(Generic[T]):
    """Threads that call `handle` with each item, in order; they start with the first item."""

    def __init__(self, name: str, size: int, handle: Callable[[T], None]) -> None:
        self._name = name
        self._size = size
        self._handle = handle
        self._items: SimpleQueue[T | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._accepting = threading.Lock()
        self._closed = False

    def put(self, item: T) -> None:
        """Hand over an item; never waits."""
        with self._accepting:
            if self._closed:
                raise StoreClosed("closed")
            if not self._threads:
                self._start()
            self._items.put(item)

    def close(self) -> None:
        """Finish what was handed over, then end the threads."""
        with self._accepting:
            self._closed = True
        for _ in self._threads:
            self._items.put(None)
        for thread in self._threads:
            thread.join()
        self._threads = []

    def _start(self) -> None:
        for _ in range(self._size):
            thread = threading.Thread(target=self._serve, name=self._name, daemon=True)
            thread.start()
            self._threads.append(thread)

    def _serve(self) -> None:
        while (item := self._items.get()) is not None:
            try:
                self._handle(item)
            except Exception:
                log.exception("%s: an action failed", self._name)
            del item
