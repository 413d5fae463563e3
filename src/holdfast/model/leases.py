"""Leases: who may run something now, and how everybody else sees it."""

from __future__ import annotations

from typing import TypeAlias

import msgspec


class Opaque(msgspec.Struct, frozen=True, tag="opaque", tag_field="kind"):
    """An owner whose death cannot be proved; only expiry frees its lease."""


class LocalProcess(msgspec.Struct, frozen=True, tag="local_process", tag_field="kind"):
    """An owner that is a process of a known host, so that its death can be proved there."""

    host_id: str
    boot_id: str
    pid: int
    process_start: str


Liveness: TypeAlias = Opaque | LocalProcess


class LeaseOwner(msgspec.Struct, frozen=True):
    """Who claims: a stable owner id, and an incarnation id new with every start of it."""

    owner_id: str
    incarnation_id: str
    liveness: Liveness = Opaque()


class Lease(msgspec.Struct, frozen=True):
    """The acquirer's proof that it holds a session. Keep `token` to yourself."""

    session_id: str
    owner: LeaseOwner
    token: str
    generation: int
    claimed_at_ms: int
    expires_at_ms: int

    def __repr__(self) -> str:
        # A log line must never hand out the right to write.
        return (
            f"Lease(session_id={self.session_id!r}, owner={self.owner!r}, "
            f"generation={self.generation}, expires_at_ms={self.expires_at_ms})"
        )


class LeaseHolder(msgspec.Struct, frozen=True):
    """The recorded holder of a lease as everybody but the acquirer sees it."""

    session_id: str
    owner: LeaseOwner
    generation: int
    claimed_at_ms: int
    expires_at_ms: int
    live: bool


class Acquired(msgspec.Struct, frozen=True):
    """The claim succeeded. `displaced` is the expired holder that never released."""

    lease: Lease
    reentered: bool = False
    displaced: LeaseHolder | None = None


class Busy(msgspec.Struct, frozen=True):
    """Somebody else holds a live lease."""

    holder: LeaseHolder


ClaimOutcome: TypeAlias = Acquired | Busy


class LeaseTimings(msgspec.Struct, frozen=True):
    """How long a lease lasts and how often its guard renews it.

    >>> from holdfast import LeaseTimings
    >>> LeaseTimings.from_ttl(60).renew_interval_ms
    20
    """

    ttl_ms: int = 30_000
    renew_interval_ms: int = 10_000

    def __post_init__(self) -> None:
        from holdfast.rules.leases import check_timings

        check_timings(self.ttl_ms, self.renew_interval_ms)

    @classmethod
    def from_ttl(cls, ttl_ms: int) -> LeaseTimings:
        """Timings that leave room for two missed renewals."""
        return cls(ttl_ms, ttl_ms // 3)
