"""Holding a session's lease for the length of a turn (LEA-13).

A guard claims when it is entered, renews in the background, and releases when it is left. What it
may believe meanwhile is judged in `rules.guarding`; here are the two ways of waiting: a daemon
thread beside a blocking turn, a task beside an asyncio one.

The lease is lost once the store says so, or once the store has not confirmed it for its whole
ttl. An asyncio turn is then cancelled. A thread cannot be: it asks `check` before each step that
must not happen twice, or is told by `on_lost`.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any

from holdfast.errors import HoldfastError, LeaseLost
from holdfast.model.commits import RuntimeCommit, RuntimeCommitResult
from holdfast.model.leases import Busy, ClaimOutcome, Lease, LeaseOwner, LeaseTimings
from holdfast.rules import guarding
from holdfast.runtime.holding import Holding
from holdfast.waiting import unhurried


class Guard(Holding):
    """A session's lease around a blocking turn, renewed by a thread.

    Leaving it raises the loss, unless another error is on its way.

    >>> import holdfast
    >>> store = holdfast.open("sqlite://")
    >>> view = store.session("chat-1")
    >>> turn = holdfast.RuntimeCommit(
    ...     session_id="chat-1",
    ...     expected_head_revision=0,
    ...     config={"model": "m"},
    ...     release_session_execution_lease=True,
    ... )
    >>> with view.guard(holdfast.local_process("worker-1")) as guard:
    ...     guard.check()
    ...     guard.commit(turn).head_revision
    1
    >>> view.lease() is None
    True
    >>> store.close()
    """

    def __init__(
        self,
        view: Any,
        owner: LeaseOwner,
        timings: LeaseTimings,
        on_lost: Callable[[Exception], None] | None = None,
    ) -> None:
        """Guard the view's session; `on_lost` is called once, on the guard's thread."""
        super().__init__(view, owner, timings)
        self._on_lost = on_lost
        self._over = threading.Event()
        self._renewing = threading.Lock()
        self._thread = threading.Thread(target=self._keep, name="holdfast-guard", daemon=True)

    def __enter__(self) -> Guard:
        asked_at, ttl_ms = time.monotonic(), self._timings.ttl_ms
        outcome: ClaimOutcome = self._view.claim_lease(self._owner, ttl_ms)
        if isinstance(outcome, Busy) and self._is_dead(outcome.holder):
            asked_at = time.monotonic()
            outcome = self._view.reclaim_lease(outcome.holder, self._owner, ttl_ms)
        self._begin(outcome, asked_at)
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        self._thread.join(self._left())
        if not self._is_over():
            self._release()
        self._ended = True
        if error is None:
            self.check()

    def commit(self, commit: RuntimeCommit) -> RuntimeCommitResult:
        """Commit under the lease; a commit that releases it ends the guard's work."""
        fenced = self._fenced(commit)
        try:
            if not commit.release_session_execution_lease:
                return self._settle(fenced)
            with self._renewing:  # or a renewal takes our own release for a loss
                result = self._settle(fenced)
                self._ended = True
        except LeaseLost as lost:
            if not self._ended:
                self._lost = lost
                self._over.set()
            raise
        self._over.set()
        return result

    def _settle(self, commit: RuntimeCommit) -> RuntimeCommitResult:
        result: RuntimeCommitResult = self._view.commit(commit)
        return result

    def _release(self) -> None:
        try:
            self._view.release_lease(self.lease)
        except HoldfastError as error:
            self._unreleased(error)

    # From here on: the thread.

    def _keep(self) -> None:
        while not self._over.wait(self._held.due - time.monotonic()):
            with self._renewing:
                if not self._is_over():
                    self._renew()
            if self._is_over():
                self._over.set()
        if self._lost is not None and self._on_lost is not None:
            self._on_lost(self._lost)

    def _renew(self) -> None:
        asked_at = time.monotonic()
        answer: Lease | Exception
        try:
            answer = self._view.renew_lease(self.lease, self._timings.ttl_ms)
        except Exception as error:
            answer = error
        self._learn(answer, asked_at)


class AsyncGuard(Holding):
    """A session's lease around an asyncio turn, renewed by a task of the same loop.

    When it is lost, the task that entered is cancelled, and leaving raises the loss instead.

    >>> import asyncio, holdfast
    >>> async def main():
    ...     async with holdfast.open("sqlite://") as store:
    ...         async with store.session("chat-1").guard(holdfast.local_process("me")) as guard:
    ...             return guard.lease.generation
    >>> asyncio.run(main())
    1
    """

    def __init__(self, view: Any, owner: LeaseOwner, timings: LeaseTimings) -> None:
        super().__init__(view, owner, timings)
        self._renewing = asyncio.Lock()
        self._cancelled = False

    async def __aenter__(self) -> AsyncGuard:
        try:
            await unhurried(self._claim())
        except asyncio.CancelledError:
            if self._hold is not None:
                await unhurried(self._release())
            raise
        turn = asyncio.current_task()
        assert turn is not None, "a guard is entered by a task"
        self._turn, self._cancels_before = turn, turn.cancelling()
        self._alarm = self._set_alarm()
        self._keeper = asyncio.create_task(self._keep())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._alarm.cancel()
        self._keeper.cancel()
        is_ours = self._cancelled and self._turn.uncancel() <= self._cancels_before
        await unhurried(self._leave())
        if self._lost is not None and (
            error is None or (is_ours and isinstance(error, asyncio.CancelledError))
        ):
            raise self._lost

    async def commit(self, commit: RuntimeCommit) -> RuntimeCommitResult:
        """Commit under the lease; a commit that releases it ends the guard's work."""
        fenced = self._fenced(commit)
        try:
            if not commit.release_session_execution_lease:
                return await self._settle(fenced)
            async with self._renewing:  # or a renewal takes our own release for a loss
                result = await self._settle(fenced)
                self._ended = True
        except LeaseLost as lost:
            if not self._ended:
                self._lost = lost
            raise
        return result

    async def _leave(self) -> None:
        """Let a renewal under way finish, then give the lease back."""
        await asyncio.wait({self._keeper}, timeout=self._left())
        if not self._is_over():
            await self._release()
        self._ended = True

    async def _claim(self) -> None:
        asked_at, ttl_ms = time.monotonic(), self._timings.ttl_ms
        outcome: ClaimOutcome = await self._view.claim_lease(self._owner, ttl_ms)
        if isinstance(outcome, Busy) and self._is_dead(outcome.holder):
            asked_at = time.monotonic()
            outcome = await self._view.reclaim_lease(outcome.holder, self._owner, ttl_ms)
        self._begin(outcome, asked_at)

    async def _settle(self, commit: RuntimeCommit) -> RuntimeCommitResult:
        result: RuntimeCommitResult = await self._view.commit(commit)
        return result

    async def _release(self) -> None:
        try:
            await self._view.release_lease(self.lease)
        except HoldfastError as error:
            self._unreleased(error)

    async def _keep(self) -> None:
        while not self._is_over():
            await asyncio.sleep(self._held.due - time.monotonic())
            async with self._renewing:
                if not self._is_over():
                    await self._renew()
        if self._lost is not None:
            self._cancel_turn()

    async def _renew(self) -> None:
        asked_at = time.monotonic()
        answer: Lease | Exception
        try:
            answer = await self._view.renew_lease(self.lease, self._timings.ttl_ms)
        except Exception as error:
            answer = error
        self._learn(answer, asked_at)
        self._alarm.cancel()
        self._alarm = self._set_alarm()

    def _set_alarm(self) -> asyncio.TimerHandle:
        """A renewal may hang: the deadline must not wait for it."""
        return asyncio.get_running_loop().call_later(self._left(), self._expire)

    def _expire(self) -> None:
        if self._lost is None and not self._ended:
            self._lost = guarding.overdue(self._held, self._held.deadline)
            self._cancel_turn()

    def _cancel_turn(self) -> None:
        if not self._cancelled:
            self._cancelled = self._turn.cancel()
