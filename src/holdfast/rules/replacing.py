"""A list that becomes the whole graph (GRA-7); parents may come after their children in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from holdfast.errors import GraphIntegrity
from holdfast.model.graph import ReplaceFull
from holdfast.model.values import Keep
from holdfast.rules.graph import EMPTY, Draft, Plan, Position
from holdfast.rules.placing import Placer, leaf_position, refuse_repeated

#: How many of the nodes it had a replaced graph gives up at once; vacuum removes what is left.
MAX_DROPPED = 10_000

_UNSEEN, _OPEN, _DONE = range(3)


def plan_replace(
    session_id: str, delta: ReplaceFull, drafts: Sequence[Draft], branch_ids: Sequence[int]
) -> Plan:
    """Every stored node is dropped; a parent missing from the list makes its node a root."""
    refuse_repeated(session_id, drafts)
    listed = {draft.node.node_id: index for index, draft in enumerate(drafts)}
    placer = Placer(branch_ids)
    for index in _parents_first(session_id, drafts, listed):
        _put(placer, drafts[index], index, listed)
    # Rows are numbered in the order of the list.
    placer.placed.sort(key=lambda placed: listed[placed.draft.node.node_id])
    head = _head(session_id, delta, drafts, placer)
    return Plan(head=head, branches=placer.branches, placed=placer.placed, detach=True)


def _put(placer: Placer, draft: Draft, index: int, listed: Mapping[str, int]) -> None:
    parent = draft.parent if isinstance(draft.parent, str) else None
    at = None if parent is None else placer.positions.get(parent)
    # Only the node right behind its parent in the list stays on its branch, so that sequences rise
    # along every branch and no more branches are opened than were reserved.
    follows = parent is not None and listed.get(parent) == index - 1
    taken = frozenset() if follows or at is None else frozenset({at[0]})
    placer.put(draft, at, parent, extendable=follows, taken=taken)


def _head(session_id: str, delta: ReplaceFull, drafts: Sequence[Draft], placer: Placer) -> Position:
    leaf = delta.leaf
    if isinstance(leaf, Keep):
        leaf = drafts[-1].node.node_id if drafts else None
    return EMPTY if leaf is None else leaf_position(session_id, leaf, {}, placer.positions)


def _parents_first(
    session_id: str, drafts: Sequence[Draft], listed: Mapping[str, int]
) -> list[int]:
    """Indexes in an order in which every listed parent precedes its children."""
    order: list[int] = []
    state = [_UNSEEN] * len(drafts)
    for start in range(len(drafts)):
        trail: list[int] = []
        index: int | None = start
        while index is not None and state[index] == _UNSEEN:
            state[index] = _OPEN
            trail.append(index)
            parent = drafts[index].parent
            index = listed.get(parent) if isinstance(parent, str) else None
            if index is not None and state[index] == _OPEN:
                raise GraphIntegrity(session_id, drafts[index].node.node_id, "cycle")
        for done in reversed(trail):
            state[done] = _DONE
            order.append(done)
    return order
