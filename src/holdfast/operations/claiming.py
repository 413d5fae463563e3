"""What claims of queued work and of turn inputs do alike: take under a lease, and give back.

A claim is one trip: the section is locked by a statement of its own, so that the one behind it
sees every claim, completion and cancellation that came before, and judges lease and rows there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypeVar

import msgspec

from holdfast.model.leases import Lease
from holdfast.operations.address import Address
from holdfast.operations.leases import fence
from holdfast.rules import leases
from holdfast.rules.claims import Family, presented
from holdfast.settings import Settings
from holdfast.transaction import Call, Done, Row, Steps, Transaction, call

T = TypeVar("T")

#: The claim that a statement made, if it took anything, by its rows and its call.
Told: TypeAlias = Callable[[Address, Lease, list[Row], Call], T | None]


def fence_and_token(env: Settings, at: Address, lease: Lease) -> dict[str, Any]:
    """What every statement that claims is given: the lease, and the token the claim gets."""
    return fence(at, lease) | {"claim_token": env.ids.token()}


def claiming(at: Address, lease: Lease, taking: Call, told: Told[T]) -> Steps[T | None]:
    """Takes what a fenced statement finds behind the section's lock."""

    async def steps(tx: Transaction) -> T | None:
        _, rows = await tx.conclude(call("lock_section", session_id=at.session_id), taking)
        judge(at, lease, rows)
        return told(at, lease, rows, taking)

    return steps


def judge(at: Address, lease: Lease, rows: list[Row]) -> None:
    """Judge the lease by what a fenced statement found: its first row tells of the session.

    The statement judged it too, by the same reading of the clock; a lost lease has done nothing.
    """
    session = rows[0] if rows else None
    at.met(session)
    lost = leases.why_lost(lease, session, session["now_ms"] if session else 0)
    if lost is not None:
        raise lost


def taken_by(rows: list[Row]) -> list[Row]:
    """The rows a fenced statement took."""
    return [row for row in rows if row["seq"] is not None]


def claim_of(at: Address, lease: Lease, taken: list[Row], taking: Call) -> dict[str, Any]:
    """The fields that claims of both families have, of rows that were taken."""
    return {
        "session_id": at.session_id,
        "claim_id": taken[0]["claim_id"],
        "owner": lease.owner,
        "claim_token": taking.params["claim_token"],
        "claim_count": taken[0]["claim_count"],
        "session_lease_generation": lease.generation,
    }


def abandoning(name: str, family: Family, given: Sequence[Any], at: Address | None) -> Steps[int]:
    """Frees what claims of a family still own; how many rows."""
    if at is not None:
        shown = [presented(family, each, "claim") for each in given]
        at.check_same(shown[0]["session_id"])
    else:
        shown = [presented(family, each, f"claims[{i}]") for i, each in enumerate(given)]
    if not shown:
        return Done(0)
    ids = sorted({each["session_id"] for each in shown})
    document = msgspec.json.encode(shown).decode()

    async def steps(tx: Transaction) -> int:
        entered, freed = await tx.conclude(
            call("lock_sections", session_ids=ids),
            call(name, claims=document, bound_key=None if at is None else at.key),
        )
        if at is not None:
            at.met(entered[0] if entered else None)
        return len(freed)

    return steps
