"""What a commit that only ever waited is told (GEN-14)."""

from __future__ import annotations

from holdfast.model.graph import Append
from holdfast.rules import heads
from holdfast.rules.commits import Prepared
from holdfast.transaction import Transaction, call


async def look_again(tx: Transaction, prepared: Prepared) -> None:
    """Raise the conflict that the commit would meet anyhow; not where it may be a replay."""
    commit, stamp = prepared.commit, prepared.commit.turn_commit
    found, stamped, known = await tx.conclude(
        call("read_head", session_id=commit.session_id),
        call("read_stamp", session_id=commit.session_id, turn_id=stamp and stamp.turn_id),
        call("known_nodes", session_id=commit.session_id, node_ids=prepared.node_ids),
    )
    appends_only = isinstance(commit.graph, Append) and prepared.carries_only_nodes
    may_be_repeated = appends_only and any(row["compared"] for row in known)
    if not stamped and not may_be_repeated:
        head = found[0] if found else None
        heads.must_match(commit.session_id, commit.expected_head_revision, head)
