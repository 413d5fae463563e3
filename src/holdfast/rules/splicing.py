"""Removing the end of the active path, and what follows what remains (EXT-6)."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.model.graph import Splice
from holdfast.rules.graph import EMPTY, Draft, Known, Plan, Position, Segment, Stock, Tail
from holdfast.rules.placing import Placer, is_extendable, plan_chain

#: How many of the nodes it removed a splice returns, and what they may weigh together.
MAX_RETURNED = 1_000
MAX_RETURNED_BYTES = 16 * 1024 * 1024


def returnable() -> dict[str, int]:
    """How much of what it removes a splice returns, for the statements that read it."""
    return {"limit": MAX_RETURNED, "max_bytes": MAX_RETURNED_BYTES}


def plan_splice(
    session_id: str,
    delta: Splice,
    drafts: Sequence[Draft],
    segments: Sequence[Segment],
    cut: int,
    kept_leaf_id: str | None,
    head: Position,
    stock: Stock,
    branch_ids: Sequence[int],
) -> Plan:
    """Remove the active path from ordinal `cut` on, then append as EXT-5."""
    deleted, hidden = _removals(segments, cut)
    base = _base(segments, cut, kept_leaf_id, head)
    cut_off = bool(deleted or hidden)
    free = _ends_there(deleted, base) if cut_off else is_extendable(head, stock)
    left = _without(stock, deleted, hidden)
    placer = Placer(branch_ids)
    plan = plan_chain(session_id, delta.on_known, drafts, base, left, placer, extendable=free)
    plan.replayed = False
    plan.deleted, plan.hidden = deleted, hidden
    return plan


def _removals(segments: Sequence[Segment], cut: int) -> tuple[list[Tail], list[Tail]]:
    """What to delete in place, and what only to hide.

    In place from the leaf inwards, as long as no other path, of this session or of another,
    reaches past what is removed.
    """
    deleted: list[Tail] = []
    hidden: list[Tail] = []
    alone = True
    for segment in segments:
        start = max(cut, segment.base)
        if start >= segment.upto:
            break
        alone = alone and _is_unshared(segment, start)
        if alone:
            # Only an emptied branch stops reaching past its parent's nodes.
            alone = start == segment.base
            deleted.append(Tail(segment.branch, start, segment.upto, drop_branch=alone))
        else:
            hidden.append(Tail(segment.branch, start, segment.upto))
    return deleted, hidden


def _is_unshared(segment: Segment, start: int) -> bool:
    return (
        segment.owned
        and not segment.beyond
        and start >= max(segment.shared_upto, segment.other_base)
    )


def _base(
    segments: Sequence[Segment], cut: int, kept_leaf_id: str | None, head: Position
) -> Position:
    """The head that remains."""
    if kept_leaf_id is None:
        return EMPTY
    if cut == head.length:
        return head
    branch = next(each.branch for each in segments if each.base < cut <= each.upto)
    return Position(branch, cut, kept_leaf_id)


def _ends_there(deleted: Sequence[Tail], base: Position) -> bool:
    """Whether the branch of the remaining head ends right there."""
    return bool(deleted) and deleted[-1].branch == base.branch and not deleted[-1].drop_branch


def _without(stock: Stock, deleted: Sequence[Tail], hidden: Sequence[Tail]) -> Stock:
    """What is stored once the tails are gone; a hidden node still holds its place."""
    nodes: dict[str, Known] = {}
    gone = dict(stock.gone)
    for node_id, row in stock.nodes.items():
        if _lies_in(row, hidden):
            gone[node_id] = gone.get(node_id, frozenset()) | {row.branch}
        elif not _lies_in(row, deleted):
            nodes[node_id] = row
    return Stock(nodes, gone)


def _lies_in(row: Known, tails: Sequence[Tail]) -> bool:
    return any(
        tail.branch == row.branch and tail.start <= row.ordinal < tail.upto for tail in tails
    )
