"""The session lease: claim, reclaim, renew, release, look (LEA-1 to LEA-11)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from holdfast.errors import CorruptRecord
from holdfast.model.leases import (
    Acquired,
    Busy,
    ClaimOutcome,
    Lease,
    LeaseHolder,
    LeaseOwner,
)
from holdfast.operations.address import Address
from holdfast.owners import proven_dead
from holdfast.rules import checks, leases
from holdfast.settings import Settings
from holdfast.transaction import LostRace, Steps, Transaction, autocommit, small_read

_DEAD = ("dead_owner_id", "dead_incarnation_id", "dead_liveness", "dead_generation")
_displaced = msgspec.json.Decoder(dict[str, Any])


@autocommit
def claim_lease(
    env: Settings, at: Address, owner: LeaseOwner, ttl_ms: int | None = None
) -> Steps[ClaimOutcome]:
    """Take the lease if nobody holds it live; one's own is re-entered and never shortened."""
    return _claim(env, at, owner, ttl_ms, None)


@autocommit
def reclaim_lease(
    env: Settings,
    at: Address,
    observed_holder: LeaseHolder,
    owner: LeaseOwner,
    ttl_ms: int | None = None,
) -> Steps[ClaimOutcome]:
    """Take over from a holder that is provably dead, if it is still the one observed."""
    leases.check_holder(observed_holder)
    at.check_same(observed_holder.session_id)
    leases.check_owner(owner)
    # The probe reads this host's process table: never inside the transaction (LEA-5).
    dead = proven_dead(owner, observed_holder.owner)
    return _claim(env, at, owner, ttl_ms, observed_holder if dead else None)


def _claim(
    env: Settings, at: Address, owner: LeaseOwner, ttl_ms: int | None, dead: LeaseHolder | None
) -> Steps[ClaimOutcome]:
    leases.check_owner(owner)
    ttl_ms = env.lease_timings.ttl_ms if ttl_ms is None else checks.duration(ttl_ms, "ttl_ms")
    token = env.ids.token()

    async def steps(tx: Transaction) -> ClaimOutcome:
        row = await tx.maybe(
            "claim_lease",
            session_id=at.session_id,
            bound_key=at.key,
            ttl_ms=ttl_ms,
            token=token,
            **_owner_columns(owner),
            **_dead_columns(dead),
        )
        if row is not None:
            at.met(row)
            return _acquired(at.session_id, owner, row, reentered=row["token"] != token)
        held = await tx.maybe("read_lease", session_id=at.session_id)
        at.met(held)
        holder = held and leases.holder(at.session_id, held, held["now_ms"])
        if not isinstance(holder, LeaseHolder) or not holder.live:
            raise LostRace(at.session_id)
        return Busy(holder)

    return steps


def _owner_columns(owner: LeaseOwner) -> dict[str, Any]:
    return {
        "owner_id": owner.owner_id,
        "incarnation_id": owner.incarnation_id,
        "liveness": leases.encode_liveness(owner.liveness),
    }


def _dead_columns(dead: LeaseHolder | None) -> dict[str, Any]:
    """Whom a claim may replace before its time: exactly whom the probe looked at.

    Its liveness included: the same incarnation may have re-entered from a process that lives.
    """
    if dead is None:
        return dict.fromkeys(_DEAD)
    named = {f"dead_{name}": value for name, value in _owner_columns(dead.owner).items()}
    return named | {"dead_generation": dead.generation}


def _acquired(
    session_id: str, owner: LeaseOwner, row: Mapping[str, Any], *, reentered: bool
) -> Acquired:
    lease = Lease(
        session_id=session_id,
        owner=owner,
        token=row["token"],
        generation=row["generation"],
        claimed_at_ms=row["claimed_at_ms"],
        expires_at_ms=row["expires_at_ms"],
    )
    displaced = None if reentered else _decode_displaced(session_id, row["displaced"])
    return Acquired(lease, reentered, displaced)


def _decode_displaced(session_id: str, stored: str | None) -> LeaseHolder | None:
    if stored is None:
        return None
    try:
        row = _displaced.decode(stored)
        return leases.holder(session_id, row, now_ms=row["expires_at_ms"])
    except (ValueError, KeyError) as error:
        raise CorruptRecord("lease_displaced", session_id, "unparsable") from error


@autocommit
def renew_lease(
    env: Settings, at: Address, lease: Lease, ttl_ms: int | None = None
) -> Steps[Lease]:
    """Extend a live lease; `LeaseLost` says why it cannot be."""
    fenced = fence(at, lease)
    ttl_ms = env.lease_timings.ttl_ms if ttl_ms is None else checks.duration(ttl_ms, "ttl_ms")

    async def steps(tx: Transaction) -> Lease:
        row = await tx.maybe("renew_lease", ttl_ms=ttl_ms, **fenced)
        if row is not None:
            at.met(row)
            return msgspec.structs.replace(lease, expires_at_ms=row["expires_at_ms"])
        held = await tx.maybe("read_lease", session_id=at.session_id)
        at.met(held)
        lost = leases.why_lost(lease, held, held["now_ms"] if held else 0)
        raise lost or LostRace(at.session_id)

    return steps


@autocommit
def release_lease(env: Settings, at: Address, lease: Lease) -> Steps[bool]:
    """Give the lease back; false, and nothing done, if it is not the recorded one any more."""
    fenced = fence(at, lease)

    async def steps(tx: Transaction) -> bool:
        row = await tx.maybe("release_lease", **fenced)
        if row is not None:
            at.met(row)
        elif at.key is not None:
            # Nothing to release: only a bound view has to know whether its session is gone.
            at.met(await tx.maybe("read_lease", session_id=at.session_id))
        return row is not None

    return steps


def fence(at: Address, lease: Lease) -> dict[str, Any]:
    """What a statement compares a lease by, and the session it is about."""
    leases.check_lease(lease)
    at.check_same(lease.session_id)
    return {
        "session_id": at.session_id,
        "bound_key": at.key,
        "token": lease.token,
        "generation": lease.generation,
        "owner_id": lease.owner.owner_id,
        "incarnation_id": lease.owner.incarnation_id,
    }


@small_read
def lease(env: Settings, at: Address) -> Steps[LeaseHolder | None]:
    """The recorded holder, live or expired; none when released or never held."""

    async def steps(tx: Transaction) -> LeaseHolder | None:
        row = await tx.maybe("read_lease", session_id=at.session_id)
        at.met(row)
        return None if row is None else leases.holder(at.session_id, row, row["now_ms"])

    return steps
