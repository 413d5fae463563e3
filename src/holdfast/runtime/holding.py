"""What a guard of either colour knows of the lease it holds."""

from __future__ import annotations

import logging
import time
from typing import Any

import msgspec

from holdfast.errors import HoldfastError, SessionBusy
from holdfast.model.commits import RuntimeCommit
from holdfast.model.leases import (
    Acquired,
    ClaimOutcome,
    Lease,
    LeaseHolder,
    LeaseOwner,
    LeaseTimings,
)
from holdfast.owners import proven_dead
from holdfast.rules import guarding
from holdfast.rules.guarding import Hold

log = logging.getLogger("holdfast")


class Holding:
    """The lease, what is believed of it, and whether the guard's work is over."""

    def __init__(self, view: Any, owner: LeaseOwner, timings: LeaseTimings) -> None:
        self._view = view
        self._owner = owner
        self._timings = timings
        self._hold: Hold | None = None
        self._lost: Exception | None = None
        self._ended = False

    @property
    def lease(self) -> Lease:
        """The lease as last confirmed: the fence of the turn's writes."""
        return self._held.lease

    @property
    def lost(self) -> Exception | None:
        """Why the lease counts as lost: `LeaseLost`, or the fault of an outage that outlasted it.

        None while it is held, and after it was given back.
        """
        if self._lost is None and not self._ended:
            return guarding.overdue(self._held, time.monotonic())
        return self._lost

    @property
    def is_lost(self) -> bool:
        """Whether the turn has to stop."""
        return self.lost is not None

    def check(self) -> None:
        """Raise the loss, if there is one."""
        lost = self.lost
        if lost is not None:
            raise lost

    @property
    def _held(self) -> Hold:
        if self._hold is None:
            raise RuntimeError("the guard was not entered")
        return self._hold

    def _is_dead(self, holder: LeaseHolder) -> bool:
        return proven_dead(self._owner, holder.owner)

    def _is_over(self) -> bool:
        """Whether there is nothing left to renew; takes note of a deadline that has passed."""
        lost = self.lost
        if lost is not None:
            self._lost = lost
        return self._ended or lost is not None

    def _begin(self, outcome: ClaimOutcome, asked_at: float) -> None:
        if not isinstance(outcome, Acquired):
            raise SessionBusy(outcome.holder.session_id, outcome.holder)
        self._hold = guarding.held(outcome.lease, self._timings, asked_at)

    def _learn(self, answer: Lease | Exception, asked_at: float) -> None:
        """Believe what a renewal's answer says."""
        believed = guarding.after_renewal(
            self._held, self._timings, answer, asked_at=asked_at, now=time.monotonic()
        )
        if isinstance(believed, Hold):
            self._hold = believed
        else:
            self._lost = believed

    def _fenced(self, commit: RuntimeCommit) -> RuntimeCommit:
        self.check()
        return msgspec.structs.replace(commit, session_execution_lease=self.lease)

    def _left(self) -> float:
        """Seconds for which the lease is still believed in."""
        return max(0.0, self._held.deadline - time.monotonic())

    def _unreleased(self, error: HoldfastError) -> None:
        log.warning("%r was not given back and ends by itself: %s", self.lease, error)
