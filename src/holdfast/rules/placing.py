"""Where the nodes of an append go (GRA-5, GRA-6, GRA-8, EXT-5).

A list under the current leaf is one chain: known nodes are skipped, the others follow the leaf. In
any other list each node names its parent.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from holdfast.errors import GraphIntegrity, GraphNodeConflict, InvalidArgument
from holdfast.model.graph import Append, Unchanged
from holdfast.model.values import Keep
from holdfast.rules.graph import (
    EMPTY,
    MAX_PATH_LENGTH,
    Draft,
    Known,
    NewBranch,
    Placed,
    Plan,
    Position,
    Stock,
)
from holdfast.rules.parents import follows_leaf

_NOWHERE: frozenset[int] = frozenset()


class Placer:
    """Lays nodes out on branches, opening new ones from a reserved supply of ids."""

    def __init__(self, branch_ids: Sequence[int]) -> None:
        self._ids: Iterator[int] = iter(branch_ids)
        self._tips: dict[int, int] = {}
        self.branches: list[NewBranch] = []
        self.placed: list[Placed] = []
        self.positions: dict[str, tuple[int, int]] = {}

    def put(
        self,
        draft: Draft,
        parent: tuple[int, int] | None,
        parent_id: str | None,
        *,
        extendable: bool,
        taken: frozenset[int] = _NOWHERE,
    ) -> None:
        """Place a node behind `parent`; `taken` branches already hold its id."""
        branch, ordinal = self._behind(parent, extendable, taken)
        if ordinal >= MAX_PATH_LENGTH:
            raise InvalidArgument("graph", "too_large")
        self._tips[branch] = ordinal
        self.positions[draft.node.node_id] = (branch, ordinal)
        self.placed.append(Placed(branch, ordinal, parent_id, draft))

    def _behind(
        self, parent: tuple[int, int] | None, extendable: bool, taken: frozenset[int]
    ) -> tuple[int, int]:
        if parent is None:
            return self._open(None, 0), 0
        branch, ordinal = parent[0], parent[1] + 1
        tip = self._tips.get(branch)
        free = extendable if tip is None else tip == parent[1]
        if free and branch not in taken:
            return branch, ordinal
        return self._open(branch, ordinal), ordinal

    def _open(self, parent: int | None, base: int) -> int:
        branch = next(self._ids)
        self.branches.append(NewBranch(branch, parent, base))
        return branch


def plan_unchanged(session_id: str, delta: Unchanged, head: Position, stock: Stock) -> Plan:
    """GRA-5, and GRA-8 with its exception for a leaf that is already the stored one."""
    if isinstance(delta.leaf, Keep) or delta.leaf == head.leaf_id:
        return Plan(head=head)
    return Plan(head=leaf_position(session_id, delta.leaf, stock.nodes, {}))


def plan_append(
    session_id: str,
    delta: Append,
    drafts: Sequence[Draft],
    head: Position,
    stock: Stock,
    branch_ids: Sequence[int],
    *,
    repeatable: bool = False,
) -> Plan:
    """GRA-6 for a list with parents of its own, EXT-5 for one under the current leaf.

    `repeatable` says whether a chain of known nodes is a commit made before, its leaf included.
    """
    if not drafts:
        return plan_unchanged(session_id, Unchanged(delta.leaf), head, stock)
    placer = Placer(branch_ids)
    if follows_leaf(delta):
        plan = plan_chain(session_id, delta.on_known, drafts, head, stock, placer)
        plan.replayed = plan.replayed and repeatable
    else:
        plan = _plan_tree(session_id, delta.on_known, drafts, stock, placer)
    if not isinstance(delta.leaf, Keep) and not plan.replayed:
        plan.head = leaf_position(
            session_id, delta.leaf, stock.nodes, placer.positions, plan.revived
        )
    return plan


# --- one chain under the current leaf ----------------------------------------------------


def plan_chain(
    session_id: str,
    on_known: str,
    drafts: Sequence[Draft],
    head: Position,
    stock: Stock,
    placer: Placer,
    *,
    extendable: bool | None = None,
) -> Plan:
    """EXT-5: what is unknown follows the head; `extendable` says whether its branch ends there.

    Without it the head is the stored one, and its leaf is judged like any stored parent.
    """
    refuse_repeated(session_id, drafts)
    fresh, revived = _sorted_out(session_id, on_known, drafts, stock)
    if not fresh:
        return Plan(head=head, revived=revived, replayed=bool(drafts) and not revived)
    if extendable is None:
        _check_leaf(session_id, head, stock, revived)
        extendable = is_extendable(head, stock)
    at = None if head.branch is None else (head.branch, head.length - 1)
    parent_id = head.leaf_id
    for draft in fresh:
        node_id = draft.node.node_id
        taken = stock.gone.get(node_id, _NOWHERE)
        placer.put(draft, at, parent_id, extendable=extendable, taken=taken)
        at, parent_id, extendable = placer.positions[node_id], node_id, True
    return Plan(
        head=Position(at[0], at[1] + 1, parent_id) if at else EMPTY,
        branches=placer.branches,
        placed=placer.placed,
        revived=revived,
    )


def _sorted_out(
    session_id: str, on_known: str, drafts: Sequence[Draft], stock: Stock
) -> tuple[list[Draft], list[Known]]:
    """The nodes to store, and the tombstoned ones to show again."""
    fresh: list[Draft] = []
    revived: list[Known] = []
    for draft in drafts:
        stored = stock.nodes.get(draft.node.node_id)
        if stored is None:
            fresh.append(draft)
            continue
        _check_same(session_id, draft, stored, on_known, compare_parent=False)
        if stored.tombstoned:
            revived.append(stored)
    return fresh, revived


def is_extendable(head: Position, stock: Stock) -> bool:
    """Whether the session may append right behind its leaf, on the leaf's branch."""
    leaf = stock.nodes.get(head.leaf_id) if head.leaf_id is not None else None
    return leaf is not None and leaf.extendable


def _check_leaf(session_id: str, head: Position, stock: Stock, revived: Sequence[Known]) -> None:
    """The current leaf as a parent: GRA-6's rules for any stored parent."""
    if head.leaf_id is None:
        return
    leaf = stock.nodes.get(head.leaf_id)
    if leaf is None:
        raise GraphIntegrity(session_id, head.leaf_id, "unknown_parent")
    if leaf.tombstoned and leaf not in revived:
        raise GraphIntegrity(session_id, head.leaf_id, "tombstoned_parent")


# --- nodes with parents of their own -----------------------------------------------------


def _plan_tree(
    session_id: str, on_known: str, drafts: Sequence[Draft], stock: Stock, placer: Placer
) -> Plan:
    listed = {draft.node.node_id for draft in drafts}
    met: set[str] = set()
    revived: list[Known] = []
    for draft in drafts:
        node_id = draft.node.node_id
        if node_id in met:
            raise GraphIntegrity(session_id, node_id, "duplicate_in_delta")
        met.add(node_id)
        parent = draft.parent if isinstance(draft.parent, str) else None
        at, extendable = _parent_position(session_id, draft, parent, listed, stock, placer)
        stored = stock.nodes.get(node_id)
        if stored is None:
            taken = stock.gone.get(node_id, _NOWHERE)
            placer.put(draft, at, parent, extendable=extendable, taken=taken)
            continue
        _check_same(session_id, draft, stored, on_known, compare_parent=True)
        if stored.tombstoned:
            revived.append(stored)
    last = drafts[-1].node.node_id
    return Plan(
        head=leaf_position(session_id, last, stock.nodes, placer.positions, revived),
        branches=placer.branches,
        placed=placer.placed,
        revived=revived,
    )


def _parent_position(
    session_id: str,
    draft: Draft,
    parent: str | None,
    listed: set[str],
    stock: Stock,
    placer: Placer,
) -> tuple[tuple[int, int] | None, bool]:
    """GRA-6 on parents, in its order; where the parent is, and whether its branch ends there."""
    if parent is None:
        return None, False
    node_id = draft.node.node_id
    if parent == node_id:
        raise GraphIntegrity(session_id, node_id, "self_parent")
    if parent in placer.positions:
        return placer.positions[parent], True
    stored = stock.nodes.get(parent)
    if stored is None:
        raise GraphIntegrity(session_id, node_id, "unknown_parent")
    # A listed parent is shown again by this very delta, wherever it stands in the list.
    if stored.tombstoned and parent not in listed:
        raise GraphIntegrity(session_id, node_id, "tombstoned_parent")
    return (stored.branch, stored.ordinal), stored.extendable


# --- shared judgements -------------------------------------------------------------------


def _check_same(
    session_id: str, draft: Draft, stored: Known, on_known: str, *, compare_parent: bool
) -> None:
    parent = draft.parent if isinstance(draft.parent, str) else None
    same = stored.identity == draft.identity
    if compare_parent:
        same = same and stored.parent_id == parent
    if not same and on_known != "skip":
        raise GraphNodeConflict(session_id, draft.node.node_id)


def leaf_position(
    session_id: str,
    leaf: str | None,
    stored: Mapping[str, Known],
    placed: Mapping[str, tuple[int, int]],
    revived: Sequence[Known] = (),
) -> Position:
    """GRA-8: none, or a node that is live after the delta."""
    if leaf is None:
        return EMPTY
    if leaf in placed:
        branch, ordinal = placed[leaf]
        return Position(branch, ordinal + 1, leaf)
    known = stored.get(leaf)
    if known is None or (known.tombstoned and known not in revived):
        raise GraphIntegrity(session_id, leaf, "unknown_leaf")
    return Position(known.branch, known.ordinal + 1, leaf)


def refuse_repeated(session_id: str, drafts: Sequence[Draft]) -> None:
    """No id may stand in a list twice."""
    seen: set[str] = set()
    for draft in drafts:
        if draft.node.node_id in seen:
            raise GraphIntegrity(session_id, draft.node.node_id, "duplicate_in_delta")
        seen.add(draft.node.node_id)
