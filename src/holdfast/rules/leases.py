"""Leases: who holds one, who may write under it, and why somebody may not.

A row here is a mapping with `generation`, `owner_id`, `incarnation_id`, `token`, `liveness`,
`claimed_at_ms` and `expires_at_ms`; all but the first are none while nobody holds it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

import msgspec

from holdfast.errors import CorruptRecord, InvalidArgument, LeaseLost, LossReason
from holdfast.model.leases import Lease, LeaseHolder, LeaseOwner, Liveness, LocalProcess, Opaque
from holdfast.rules.checks import count, identifier, integer, limit, record, text

LeaseRow: TypeAlias = Mapping[str, Any]

#: The highest process id that any system can have.
MAX_PID: Final = 2**31 - 1

_liveness = msgspec.json.Decoder(Liveness)


def check_timings(ttl_ms: int, renew_interval_ms: int) -> None:
    """Timings must leave room for two missed renewals."""
    if count(renew_interval_ms, "renew_interval_ms") < 1:
        raise InvalidArgument("renew_interval_ms", "not_positive")
    if count(ttl_ms, "ttl_ms") < 3 * renew_interval_ms:
        raise InvalidArgument("ttl_ms", "less_than_three_renewals")


def check_owner(owner: LeaseOwner) -> LeaseOwner:
    """An owner whose ids can be stored and whose liveness can be read back."""
    if not isinstance(owner, LeaseOwner):
        raise InvalidArgument("owner", "not_an_owner")
    identifier(owner.owner_id, "owner_id")
    identifier(owner.incarnation_id, "incarnation_id")
    if isinstance(owner.liveness, LocalProcess):
        for name in ("host_id", "boot_id", "process_start"):
            text(getattr(owner.liveness, name), name, max_bytes=512)
        limit(owner.liveness.pid, "pid", MAX_PID)
    elif not isinstance(owner.liveness, Opaque):
        raise InvalidArgument("liveness", "unknown_kind")
    return owner


def check_lease(lease: Lease, field: str = "lease") -> Lease:
    """A lease whose parts can be compared with what is stored."""
    record(lease, Lease, field)
    text(lease.session_id, f"{field}.session_id")
    text(lease.token, f"{field}.token")
    integer(lease.generation, f"{field}.generation")
    check_owner(lease.owner)
    return lease


def check_holder(holder: LeaseHolder, field: str = "observed_holder") -> LeaseHolder:
    """A holder whose parts can be compared with what is stored."""
    record(holder, LeaseHolder, field)
    text(holder.session_id, f"{field}.session_id")
    integer(holder.generation, f"{field}.generation")
    check_owner(holder.owner)
    return holder


def same_incarnation(one: LeaseOwner | LeaseRow, other: LeaseOwner | LeaseRow) -> bool:
    """Whether two owners are the same start of the same owner; liveness does not count."""
    return _incarnation(one) == _incarnation(other)


def is_live(row: LeaseRow | None, now_ms: int) -> bool:
    """Whether somebody holds the lease and its time is not over."""
    return row is not None and row["owner_id"] is not None and bool(row["expires_at_ms"] > now_ms)


def why_lost(
    lease: Lease | None, row: LeaseRow | None, now_ms: int, *, session_id: str | None = None
) -> LeaseLost | None:
    """The error for a lease that is no valid fence; `session_id` is what it should guard.

    None if it is valid after all: then the operation lost a race and is due again.
    """
    guarded = session_id if session_id is not None else lease.session_id if lease else ""
    reason = _loss(lease, row, now_ms, guarded)
    if reason is None:
        return None
    presented = lease.generation if lease else None
    return LeaseLost("session", guarded, reason, presented, row["generation"] if row else None)


def holder(session_id: str, row: LeaseRow | None, now_ms: int) -> LeaseHolder | None:
    """The recorded holder, live or expired; none when released or never held."""
    if row is None or row["owner_id"] is None:
        return None
    liveness = decode_liveness(row["liveness"], session_id)
    return LeaseHolder(
        session_id=session_id,
        owner=LeaseOwner(row["owner_id"], row["incarnation_id"], liveness),
        generation=row["generation"],
        claimed_at_ms=row["claimed_at_ms"],
        expires_at_ms=row["expires_at_ms"],
        live=is_live(row, now_ms),
    )


def live_holder(session_id: str, row: LeaseRow | None, now_ms: int) -> LeaseHolder | None:
    """The holder of a live lease; who held an expired one matters to nobody and is not read."""
    return holder(session_id, row, now_ms) if is_live(row, now_ms) else None


def encode_liveness(liveness: Liveness) -> str:
    """The stored form of a liveness."""
    return msgspec.json.encode(liveness, order="sorted").decode()


def decode_liveness(stored: str, key: str) -> Liveness:
    """A stored liveness; what we would not have written is corrupt, never taken for opaque."""
    try:
        liveness: Liveness = _liveness.decode(stored)
        if isinstance(liveness, LocalProcess):
            limit(liveness.pid, "pid", MAX_PID)
    except (ValueError, TypeError) as error:
        raise CorruptRecord("lease_liveness", key, "unparsable") from error
    if encode_liveness(liveness) != stored:
        raise CorruptRecord("lease_liveness", key, "unparsable")
    return liveness


def _loss(
    lease: Lease | None, row: LeaseRow | None, now_ms: int, session_id: str
) -> LossReason | None:
    if lease is not None and lease.session_id != session_id:
        return "wrong_session"
    if lease is None or row is None:
        return "missing"
    if _names(lease, row):
        return None if is_live(row, now_ms) else "expired"
    if row["owner_id"] is None and row["generation"] == lease.generation:
        return "released"
    return "superseded"


def _names(lease: Lease, row: LeaseRow) -> bool:
    return (
        row["generation"] == lease.generation
        and row["token"] == lease.token
        and same_incarnation(lease.owner, row)
    )


def _incarnation(owner: LeaseOwner | LeaseRow) -> tuple[Any, Any]:
    if isinstance(owner, LeaseOwner):
        return owner.owner_id, owner.incarnation_id
    return owner["owner_id"], owner["incarnation_id"]
