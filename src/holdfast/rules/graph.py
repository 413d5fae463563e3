"""Where the nodes of a delta go: the data model of branches, and the rules GRA-5 to GRA-8.

A **branch** is a run of nodes with consecutive ordinals; it leaves its parent branch after
`base` nodes. A **position** is (branch, length): the first `length` nodes met when the branch
and its ancestors are read from the root. The head of a session is a position, a fork shares
one, and an ordinal is a depth, so "the last n" is a range. Only a branch's owner appends to
it, and only where it ends; everybody else opens a new branch at their position.

What a session may no longer see of nodes it shares is *hidden* for that session alone:
tombstoned (still there for identity, may be revived) or gone.

These functions take what the section's reads found and say what to write. They know no SQL.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from holdfast.errors import GraphIntegrity, GraphNodeConflict, InvalidArgument
from holdfast.model.graph import Append, GraphDelta, Node, ReplaceFull, Splice, Unchanged
from holdfast.model.values import CURRENT_LEAF, KEEP, PREVIOUS, CurrentLeaf, Keep

#: A path may hold this many nodes: SQLite packs (branch, ordinal) into one integer key.
MAX_PATH_LENGTH = 1 << 28

LIVE, TOMBSTONED, GONE = "live", "tombstoned", "gone"


class Position(msgspec.Struct, frozen=True):
    """The first `length` nodes along a branch; no branch means no nodes."""

    branch: int | None
    length: int
    leaf_id: str | None


EMPTY = Position(None, 0, None)


class Known(msgspec.Struct, frozen=True):
    """A node this session stores, or stored and may not see any more."""

    node_id: str
    branch: int
    ordinal: int
    sequence: int
    state: str
    #: Whether the session may append to the branch right behind this node.
    extendable: bool
    parent_id: str | None
    #: What GRA-6 compares, without the parent; none for a node the delta does not name.
    identity: tuple[object, ...] | None
    user_text: str | None


class Draft(msgspec.Struct, frozen=True):
    """A node of a delta with its parent spelled out and its content encoded."""

    node: Node
    parent: str | None | CurrentLeaf
    identity: tuple[object, ...]
    #: The node's own columns, from `kind` to `user_text`.
    columns: tuple[object, ...]
    user_text: str | None
    size: int


class Segment(msgspec.Struct, frozen=True):
    """The part of the active path that one branch contributes, leaf side first."""

    branch: int
    base: int
    upto: int
    owned: bool
    shared_upto: int
    #: The highest base of the branch's other children, 0 without any.
    other_base: int
    #: Whether the branch goes on behind this part.
    beyond: bool


class NewBranch(msgspec.Struct, frozen=True):
    """A branch to open."""

    id: int
    parent: int | None
    base: int


class Placed(msgspec.Struct, frozen=True):
    """A node to insert."""

    branch: int
    ordinal: int
    parent_id: str | None
    draft: Draft


class Tail(msgspec.Struct, frozen=True):
    """Ordinals of a branch that a splice removes, `upto` left out."""

    branch: int
    start: int
    upto: int
    drop_branch: bool = False


class Plan(msgspec.Struct, kw_only=True):
    """What a delta changes."""

    head: Position
    branches: list[NewBranch] = []
    placed: list[Placed] = []
    revived: list[Known] = []
    #: Removed in place, because nobody else can see them.
    deleted: list[Tail] = []
    #: Removed for this session alone.
    hidden: list[Tail] = []
    #: The whole stored graph is dropped first.
    detach: bool = False
    #: Every node was known already and nothing is to be written (EXT-5).
    replayed: bool = False


# --- parents -----------------------------------------------------------------------------


def follows_leaf(delta: GraphDelta) -> bool:
    """Whether the delta's nodes form one chain under the current leaf (EXT-5)."""
    if isinstance(delta, Splice):
        return True
    if not isinstance(delta, Append) or not delta.nodes:
        return False
    return delta.nodes[0].parent_node_id in (PREVIOUS, CURRENT_LEAF)


def parents(delta: GraphDelta) -> list[str | None | CurrentLeaf]:
    """The parent of each node in the list, with PREVIOUS spelled out; checks GRA-T17."""
    if isinstance(delta, Unchanged):
        return []
    chain = follows_leaf(delta)
    found: list[str | None | CurrentLeaf] = []
    for index, node in enumerate(delta.nodes):
        parent = node.parent_node_id
        before = delta.nodes[index - 1].node_id if index else None
        field = f"graph.nodes[{index}].parent_node_id"
        if index and parent is CURRENT_LEAF:
            raise InvalidArgument(field, "only the first node may follow the current leaf")
        if parent is PREVIOUS:
            parent = before if index else _first_parent(delta)
        elif not index and parent is CURRENT_LEAF and isinstance(delta, ReplaceFull):
            raise InvalidArgument(field, "a replaced graph has no current leaf")
        elif chain and parent != (before if index else CURRENT_LEAF):
            raise InvalidArgument(field, "must be the node before it, as the list begins under "
                                  "the current leaf")
        found.append(parent)
    return found


def _first_parent(delta: GraphDelta) -> CurrentLeaf | None:
    return None if isinstance(delta, ReplaceFull) else CURRENT_LEAF


def ids_to_look_up(delta: GraphDelta) -> list[str]:
    """Every node id whose stored state decides about the delta."""
    if isinstance(delta, ReplaceFull):
        return []
    wanted: dict[str, None] = {}
    if not isinstance(delta, Splice) and isinstance(delta.leaf, str):
        wanted[delta.leaf] = None
    if not isinstance(delta, Unchanged):
        for node, parent in zip(delta.nodes, parents(delta), strict=True):
            wanted[node.node_id] = None
            if isinstance(parent, str):
                wanted[parent] = None
    return list(wanted)


def branches_needed(delta: GraphDelta) -> int:
    """How many new branches the delta may open at most."""
    if isinstance(delta, Unchanged) or not delta.nodes:
        return 0
    if follows_leaf(delta):
        return 1
    before = None
    count = 0
    for node, parent in zip(delta.nodes, parents(delta), strict=True):
        # A node that follows the one before it shares its branch, unless that one is stored.
        count += 1 if parent != before or isinstance(delta, Append) else 0
        before = node.node_id
    return max(count, 1)


# --- placing -----------------------------------------------------------------------------


class _Placer:
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
        taken: frozenset[int] = frozenset(),
    ) -> None:
        """Place a node behind `parent`; `taken` branches already hold its id."""
        if parent is None:
            branch, ordinal = self._open(None, 0), 0
        else:
            branch, ordinal = parent[0], parent[1] + 1
            tip = self._tips.get(branch)
            free = extendable if tip is None else tip == parent[1]
            if not free or branch in taken:
                branch = self._open(branch, ordinal)
        if ordinal >= MAX_PATH_LENGTH:
            raise InvalidArgument("graph", "too_large")
        self._tips[branch] = ordinal
        self.positions[draft.node.node_id] = (branch, ordinal)
        self.placed.append(Placed(branch, ordinal, parent_id, draft))

    def _open(self, parent: int | None, base: int) -> int:
        branch = next(self._ids)
        self.branches.append(NewBranch(branch, parent, base))
        return branch


def plan_unchanged(
    session_id: str, delta: Unchanged, head: Position, known: Mapping[str, Known]
) -> Plan:
    """GRA-5, and GRA-8 with its exception for a leaf that is already the stored one."""
    if isinstance(delta.leaf, Keep) or delta.leaf == head.leaf_id:
        return Plan(head=head)
    return Plan(head=_leaf_position(session_id, delta.leaf, known, {}))


def plan_append(
    session_id: str,
    delta: Append,
    drafts: Sequence[Draft],
    head: Position,
    known: Mapping[str, Known],
    branch_ids: Sequence[int],
) -> Plan:
    """GRA-6 for a list with parents of its own, EXT-5 for one under the current leaf."""
    if not drafts:
        return plan_unchanged(session_id, Unchanged(delta.leaf), head, known)
    placer = _Placer(branch_ids)
    if follows_leaf(delta):
        plan = _plan_chain(session_id, delta.on_known, drafts, head, known, placer)
    else:
        plan = _plan_tree(session_id, delta.on_known, drafts, known, placer)
    if not isinstance(delta.leaf, Keep) and not plan.replayed:
        plan.head = _leaf_position(session_id, delta.leaf, known, placer.positions, plan.revived)
    return plan


def plan_splice(
    session_id: str,
    delta: Splice,
    drafts: Sequence[Draft],
    segments: Sequence[Segment],
    cut: int,
    kept_leaf_id: str | None,
    head: Position,
    known: Mapping[str, Known],
    branch_ids: Sequence[int],
) -> Plan:
    """EXT-6: remove the active path from ordinal `cut` on, then append as EXT-5."""
    deleted, hidden = _removals(segments, cut)
    removed = bool(deleted or hidden)
    base = _position_at(segments, cut, kept_leaf_id) if removed else head
    if kept_leaf_id is None:
        base = EMPTY
    free = _ends_there(deleted, base) if removed else _extendable(head, known)
    remaining = {row.node_id: row for row in known.values() if not _lies_in(row, deleted, hidden)}
    gone = {row.node_id: row for row in known.values() if _lies_in(row, hidden)}
    placer = _Placer(branch_ids)
    plan = _plan_chain(
        session_id, delta.on_known, drafts, base, remaining, placer, extendable=free, gone=gone
    )
    plan.replayed = False
    plan.deleted, plan.hidden = deleted, hidden
    return plan


def plan_replace(
    session_id: str, delta: ReplaceFull, drafts: Sequence[Draft], branch_ids: Sequence[int]
) -> Plan:
    """GRA-7: the list becomes the graph; parents may come after their children in it."""
    listed = {draft.node.node_id: index for index, draft in enumerate(drafts)}
    if len(listed) != len(drafts):
        raise GraphIntegrity(session_id, _first_repeated(drafts), "duplicate_in_delta")
    placer = _Placer(branch_ids)
    for index in _parents_first(session_id, drafts, listed):
        draft = drafts[index]
        parent = draft.parent if isinstance(draft.parent, str) else None
        at = placer.positions.get(parent) if parent is not None else None
        # Sequences follow the list and must rise along a branch.
        rises = parent is not None and listed.get(parent, index) < index
        placer.put(draft, at, parent, extendable=rises, taken=_unless(rises, at))
    head = EMPTY
    leaf = drafts[-1].node.node_id if drafts and isinstance(delta.leaf, Keep) else delta.leaf
    if isinstance(leaf, str):
        head = _leaf_position(session_id, leaf, {}, placer.positions)
    placer.placed.sort(key=lambda placed: listed[placed.draft.node.node_id])
    return Plan(head=head, branches=placer.branches, placed=placer.placed, detach=True)


def _unless(rises: bool, at: tuple[int, int] | None) -> frozenset[int]:
    return frozenset() if rises or at is None else frozenset({at[0]})


# --- one chain under the current leaf ----------------------------------------------------


def _plan_chain(
    session_id: str,
    on_known: str,
    drafts: Sequence[Draft],
    head: Position,
    known: Mapping[str, Known],
    placer: _Placer,
    *,
    extendable: bool | None = None,
    gone: Mapping[str, Known] | None = None,
) -> Plan:
    _refuse_repeated(session_id, drafts)
    fresh: list[Draft] = []
    revived: list[Known] = []
    for draft in drafts:
        stored = _stored(known, draft)
        if stored is None:
            fresh.append(draft)
            continue
        _check_same(session_id, draft, stored, on_known, compare_parent=False)
        if stored.state == TOMBSTONED:
            revived.append(stored)
    if not fresh:
        return Plan(head=head, revived=revived, replayed=bool(drafts) and not revived)
    if extendable is None:
        _check_leaf(session_id, head, known, revived)
        extendable = _extendable(head, known)
    at = None if head.branch is None else (head.branch, head.length - 1)
    parent_id = head.leaf_id
    for draft in fresh:
        taken = _taken(draft, known, gone or {})
        placer.put(draft, at, parent_id, extendable=extendable, taken=taken)
        at, parent_id = placer.positions[draft.node.node_id], draft.node.node_id
        extendable = True
    return Plan(
        head=Position(at[0], at[1] + 1, parent_id) if at else EMPTY,
        branches=placer.branches,
        placed=placer.placed,
        revived=revived,
    )


def _extendable(head: Position, known: Mapping[str, Known]) -> bool:
    leaf = known.get(head.leaf_id) if head.leaf_id is not None else None
    return leaf is not None and leaf.extendable


def _check_leaf(
    session_id: str, head: Position, known: Mapping[str, Known], revived: Sequence[Known]
) -> None:
    """The current leaf as a parent: GRA-6's rules for any stored parent."""
    if head.leaf_id is None:
        return
    leaf = known.get(head.leaf_id)
    if leaf is None or leaf.state == GONE:
        raise GraphIntegrity(session_id, head.leaf_id, "unknown_parent")
    if leaf.state == TOMBSTONED and leaf not in revived:
        raise GraphIntegrity(session_id, head.leaf_id, "tombstoned_parent")


# --- nodes with parents of their own -----------------------------------------------------


def _plan_tree(
    session_id: str,
    on_known: str,
    drafts: Sequence[Draft],
    known: Mapping[str, Known],
    placer: _Placer,
) -> Plan:
    listed: dict[str, Known | None] = {}
    revived: list[Known] = []
    for draft in drafts:
        node_id = draft.node.node_id
        if node_id in listed:
            raise GraphIntegrity(session_id, node_id, "duplicate_in_delta")
        parent = draft.parent if isinstance(draft.parent, str) else None
        at, extendable = _parent_position(session_id, draft, parent, listed, known, placer)
        stored = listed[node_id] = _stored(known, draft)
        if stored is None:
            taken = _taken(draft, known, {})
            placer.put(draft, at, parent, extendable=extendable, taken=taken)
            continue
        _check_same(session_id, draft, stored, on_known, compare_parent=True)
        if stored.state == TOMBSTONED:
            revived.append(stored)
    last = drafts[-1].node.node_id
    return Plan(
        head=_leaf_position(session_id, last, known, placer.positions, revived),
        branches=placer.branches,
        placed=placer.placed,
        revived=revived,
    )


def _parent_position(
    session_id: str,
    draft: Draft,
    parent: str | None,
    listed: Mapping[str, Known | None],
    known: Mapping[str, Known],
    placer: _Placer,
) -> tuple[tuple[int, int] | None, bool]:
    """GRA-6 on parents, in its order; where the parent is, and whether its branch ends there."""
    if parent is None:
        return None, False
    if parent == draft.node.node_id:
        raise GraphIntegrity(session_id, parent, "self_parent")
    if parent in placer.positions:
        return placer.positions[parent], True
    stored = known.get(parent)
    if stored is None or stored.state == GONE:
        raise GraphIntegrity(session_id, draft.node.node_id, "unknown_parent")
    if stored.state == TOMBSTONED and parent not in listed:
        raise GraphIntegrity(session_id, draft.node.node_id, "tombstoned_parent")
    return (stored.branch, stored.ordinal), stored.extendable


def _parents_first(
    session_id: str, drafts: Sequence[Draft], listed: Mapping[str, int]
) -> list[int]:
    """Indexes in an order in which every listed parent precedes its children."""
    order: list[int] = []
    state = [0] * len(drafts)
    for start in range(len(drafts)):
        trail: list[int] = []
        index: int | None = start
        while index is not None and state[index] == 0:
            state[index] = 1
            trail.append(index)
            parent = drafts[index].parent
            index = listed.get(parent) if isinstance(parent, str) else None
            if index is not None and state[index] == 1:
                raise GraphIntegrity(session_id, drafts[index].node.node_id, "cycle")
        for done in reversed(trail):
            state[done] = 2
            order.append(done)
    return order


# --- shared judgements -------------------------------------------------------------------


def _stored(known: Mapping[str, Known], draft: Draft) -> Known | None:
    stored = known.get(draft.node.node_id)
    return None if stored is None or stored.state == GONE else stored


def _taken(
    draft: Draft, known: Mapping[str, Known], gone: Mapping[str, Known]
) -> frozenset[int]:
    """Branches on which this id is still stored although the session no longer sees it."""
    rows = (known.get(draft.node.node_id), gone.get(draft.node.node_id))
    return frozenset(row.branch for row in rows if row is not None)


def _check_same(
    session_id: str, draft: Draft, stored: Known, on_known: str, *, compare_parent: bool
) -> None:
    parent = draft.parent if isinstance(draft.parent, str) else None
    same = stored.identity == draft.identity
    if compare_parent:
        same = same and stored.parent_id == parent
    if not same and on_known != "skip":
        raise GraphNodeConflict(session_id, draft.node.node_id)


def _leaf_position(
    session_id: str,
    leaf: str | None,
    known: Mapping[str, Known],
    placed: Mapping[str, tuple[int, int]],
    revived: Sequence[Known] = (),
) -> Position:
    """GRA-8: none, or a node that is live after the delta."""
    if leaf is None:
        return EMPTY
    if leaf in placed:
        branch, ordinal = placed[leaf]
        return Position(branch, ordinal + 1, leaf)
    stored = known.get(leaf)
    if stored is None or (stored.state != LIVE and stored not in revived):
        raise GraphIntegrity(session_id, leaf, "unknown_leaf")
    return Position(stored.branch, stored.ordinal + 1, leaf)


def _first_repeated(drafts: Sequence[Draft]) -> str:
    seen: set[str] = set()
    for draft in drafts:
        if draft.node.node_id in seen:
            return draft.node.node_id
        seen.add(draft.node.node_id)
    raise AssertionError("no node id is repeated")


def _refuse_repeated(session_id: str, drafts: Sequence[Draft]) -> None:
    if len({draft.node.node_id for draft in drafts}) != len(drafts):
        raise GraphIntegrity(session_id, _first_repeated(drafts), "duplicate_in_delta")


# --- removing the end of a path ----------------------------------------------------------


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
        alone = alone and (
            segment.owned
            and not segment.beyond
            and start >= max(segment.shared_upto, segment.other_base)
        )
        if alone:
            # Only an emptied branch stops reaching past its parent's nodes.
            alone = start == segment.base
            deleted.append(Tail(segment.branch, start, segment.upto, drop_branch=alone))
        else:
            hidden.append(Tail(segment.branch, start, segment.upto))
    return deleted, hidden


def _position_at(segments: Sequence[Segment], cut: int, leaf_id: str | None) -> Position:
    for segment in segments:
        if segment.base < cut <= segment.upto:
            return Position(segment.branch, cut, leaf_id)
    return EMPTY


def _ends_there(deleted: Sequence[Tail], base: Position) -> bool:
    """Whether the branch of the remaining head ends right there."""
    return bool(deleted) and deleted[-1].branch == base.branch and not deleted[-1].drop_branch


def _lies_in(row: Known, *groups: Sequence[Tail]) -> bool:
    return any(
        tail.branch == row.branch and tail.start <= row.ordinal < tail.upto
        for group in groups
        for tail in group
    )
