"""A store's one engine behind both faces: opened once, used from anywhere, closed once.

Nothing here belongs to an event loop. An asyncio caller hands its operation over and waits for a
future of its own loop; the store's threads only ever tell that loop that there is an answer.
"""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Final, TypeVar, cast
from weakref import finalize

from holdfast.attachments.backend import ByteBackend, Host
from holdfast.attachments.database import DatabaseBytes
from holdfast.collector import AutoCollector
from holdfast.engine import Backend, Work
from holdfast.errors import Contention, Fault, ReadOnlyStore, StoreClosed, StoreUnavailable
from holdfast.settings import Settings
from holdfast.transaction import Done, Mode
from holdfast.waiting import settled

T = TypeVar("T")

_WRITING = (Mode.WRITE, Mode.AUTOCOMMIT)
_INTERRUPTED = StoreUnavailable("open", "whoever was opening it was interrupted", True, False)

#: How many of an asyncio caller's blocking sources are drawn from at once.
DRAWN_AT_ONCE: Final = 32

_forks = 0


def _count_fork() -> None:
    global _forks  # noqa: PLW0603  (the process itself is what has changed)
    _forks += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_count_fork)


def _let_go(backend: Backend, born: int | None) -> None:
    """Close what a store that nobody has any more left open, without holding up anyone."""
    if born == _forks:
        warnings.warn("a store was dropped without being closed", ResourceWarning, stacklevel=2)
        threading.Thread(target=backend.close, name="holdfast-close", daemon=True).start()


class Core:
    """The backend, opened by whoever comes first."""

    def __init__(self, backend: Backend, settings: Settings) -> None:
        self.backend = backend
        self.settings = settings
        self.collector = AutoCollector(self.run, settings)
        #: The process that began to open the store, by its forks; none yet.
        self._born: int | None = None
        self._turn = threading.Lock()
        self._attempt: Future[None] | None = None
        self._opener: int | None = None
        # Reentrant, for a signal may close what its thread is closing.
        self._closing = threading.RLock()
        self._opened = False
        self._closed = False
        # Opening and levers take long: neither may hold up a caller's loop.
        self._helpers = ThreadPoolExecutor(4, thread_name_prefix="holdfast-helper")
        given: ByteBackend | None = settings.attachments
        chosen = DatabaseBytes() if given is None else given
        #: Where the bytes of attachments are.
        self.bytes = chosen.attach(Host(self.run, settings, backend.tier))
        #: Whether they are there under this store's name.
        self.introduced = False
        # A slow byte backend holds up neither levers nor opening.
        self._byte_threads = ThreadPoolExecutor(8, thread_name_prefix="holdfast-bytes")
        # Nor does a source of the caller's, which may even wait for what a backend brings.
        self._source_threads = ThreadPoolExecutor(
            DRAWN_AT_ONCE, thread_name_prefix="holdfast-sources"
        )

    # --- life ------------------------------------------------------------------------

    def open(self) -> None:
        """Open the database unless it is open; a failed opening may be tried again."""
        self.check_alive()
        if self._opened:
            return
        with self._turn:
            attempt, first = self._attempt, self._attempt is None
            if attempt is None:
                self._born = _forks
                attempt = self._attempt = Future()
        if first:
            self._try(attempt)
        # Whoever came meanwhile shares its outcome, or each would wait in vain after the other.
        attempt.result()
        if self._closed:
            self.close()
        self.check_alive()

    def _try(self, attempt: Future[None]) -> None:
        self._opener = threading.get_ident()
        try:
            self.backend.open()
        except BaseException as error:
            self._attempt = None
            told = error if isinstance(error, Exception) else _INTERRUPTED
            attempt.set_exception(told)
            raise
        self._dropped = finalize(self, _let_go, self.backend, self._born)
        self._dropped.atexit = False
        self._opened = True
        attempt.set_result(None)

    def close(self) -> None:
        """Let accepted writes finish and let go of the database; again does nothing."""
        if self._is_inherited:
            return
        self._closed = True
        with self._closing:
            attempt = self._attempt
            # A signal may close what its own thread is opening; who opens then closes.
            if attempt is not None and self._opener != threading.get_ident():
                with suppress(Exception):
                    attempt.result()
            if self._opened:
                self.backend.close()
                self._dropped.detach()
            self._helpers.shutdown(wait=False)
            self._byte_threads.shutdown(wait=False)
            self._source_threads.shutdown(wait=False)

    @property
    def _is_inherited(self) -> bool:
        """Whether the store was opened by the parent of this forked process."""
        return self._born is not None and self._born != _forks

    def check_alive(self) -> None:
        """Refuse a store that was closed, or that another process opened."""
        if self._is_inherited:
            raise StoreClosed("forked")
        if self._closed:
            raise StoreClosed("closed")

    def admit(self, operation: str, mode: Mode) -> None:
        """Open the database, and refuse a write where nothing may be written."""
        self.open()
        if mode in _WRITING and self.read_only:
            raise ReadOnlyStore(operation)

    @property
    def read_only(self) -> bool:
        """Whether writes are refused, by setting or because the schema is newer."""
        return self.settings.read_only or bool(getattr(self.backend, "read_only", False))

    # --- work ------------------------------------------------------------------------

    def run(self, work: Work[T]) -> T:
        """Finish an operation for a blocking caller."""
        self.admit(work.name, work.mode)
        probe = _probe(work)
        if probe is not None and (answer := self.backend.run(probe)) is not None:
            return cast(T, answer.value)
        try:
            return self.backend.run(work)
        except Contention:
            look = _second_look(work)
            if look is not None:
                with suppress(Fault):
                    self.backend.run(look)
            raise

    async def wait(self, work: Work[T]) -> T:
        """Finish an operation for an asyncio caller, of whichever loop."""
        await self.admitted(work.name, work.mode)
        if self.backend.runs_inline(work.mode):
            return self.backend.run(work)
        probe = _probe(work)
        if probe is not None and (answer := await self._look(probe)) is not None:
            return cast(T, answer.value)
        try:
            return await self._answer(work)
        except Contention:
            look = _second_look(work)
            if look is not None:
                with suppress(Fault):
                    await self._look(look)
            raise

    async def admitted(self, operation: str, mode: Mode) -> None:
        """As `admit`, without ever blocking a loop."""
        self.check_alive()
        if not self._opened:
            await self.aside(self.open)
        self.admit(operation, mode)

    async def _look(self, look: Work[T]) -> T:
        # Never on the loop: a probe passes over whatever is held or comes later.
        return await self._answer(look)

    async def _answer(self, work: Work[T]) -> T:
        """Hand an operation over; a cancelled caller waits for the outcome of a write only."""
        patience_ms = self.settings.wait_ms if work.mode in _WRITING else 0
        return await settled(self.backend.submit(work), patience_ms)

    async def aside(self, task: Callable[[], T]) -> T:
        """Run something long on a thread of the store."""
        return await settled(self._start(self._helpers, task), self.settings.wait_ms)

    def start_beside(self, task: Callable[[], T]) -> Future[T]:
        """Start something that waits for a byte backend, on a thread for nothing else."""
        return self._start(self._byte_threads, task)

    def start_drawing(self, task: Callable[[], T]) -> Future[T]:
        """Start something that waits for a source of the caller's, on a thread for nothing else."""
        return self._start(self._source_threads, task)

    def _start(self, threads: ThreadPoolExecutor, task: Callable[[], T]) -> Future[T]:
        self.check_alive()
        try:
            return threads.submit(task)
        except RuntimeError:  # it was shut down since
            raise StoreClosed("closed") from None


def _probe(work: Work[Any]) -> Work[Done | None] | None:
    """What to ask before writing: whether there is anything to write."""
    if work.probe is None:
        return None
    return Work(work.name, Mode.SMALL_READ, work.probe)


def _second_look(work: Work[T]) -> Work[None] | None:
    """What to ask after `Contention`: whether a better answer is true as well (GEN-14)."""
    if work.reconsider is None:
        return None
    return Work(work.name, Mode.READ, work.reconsider)
