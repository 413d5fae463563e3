"""Asking whether a turn was committed (COM-13)."""

from __future__ import annotations

from holdfast.model.commits import TurnCommit
from holdfast.operations.address import Address
from holdfast.rules import checks, stamps
from holdfast.settings import Settings
from holdfast.transaction import Steps, Transaction, call, small_read


@small_read
def load_turn_commit(env: Settings, at: Address, turn_id: str) -> Steps[TurnCommit | None]:
    """The stamp of a turn, or none: ask before redoing its work."""
    checks.identifier(turn_id, "turn_id")

    async def steps(tx: Transaction) -> TurnCommit | None:
        sessions, rows = await tx.conclude(
            call("read_lease", session_id=at.session_id),
            call("read_stamp", session_id=at.session_id, turn_id=turn_id),
        )
        at.met(sessions[0] if sessions else None)
        if not rows:
            return None
        (row,) = rows
        return TurnCommit(
            session_id=at.session_id,
            turn_id=turn_id,
            turn_commit_hash=row["hash"],
            result=stamps.decode_result(row["result"], turn_id),
            committed_at_ms=row["committed_at_ms"],
        )

    return steps
