"""Hiding nodes (GRA-17)."""

from __future__ import annotations

from collections.abc import Collection

from holdfast.operations.address import Address
from holdfast.rules import checks
from holdfast.settings import Settings
from holdfast.transaction import Done, Steps, Transaction, call, write


@write
def tombstone(env: Settings, at: Address, node_ids: Collection[str]) -> Steps[int]:
    """Hide nodes from every read of the session until they are appended again or vacuumed."""
    ids = [checks.identifier(each, "node_ids") for each in checks.listed(node_ids, "node_ids")]
    if not ids:
        return Done(0)

    async def steps(tx: Transaction) -> int:
        target = {"session_id": at.session_id, "bound_key": at.key, "node_ids": ids}
        entered, _, hidden, _ = await tx.conclude(
            call("enter_section", session_id=at.session_id, create=False),
            call("forget_tombstoned", **target),
            call("tombstone", **target),
            call("replace_first_user", session_id=at.session_id, node_ids=ids),
        )
        at.met(entered[0] if entered else None)
        return len(hidden)

    return steps
