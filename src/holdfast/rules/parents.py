"""Which parent each node of a delta means, and what has to be looked up to place it."""

from __future__ import annotations

from holdfast.errors import InvalidArgument
from holdfast.model.graph import Append, GraphDelta, ReplaceFull, Splice, Unchanged
from holdfast.model.values import CURRENT_LEAF, PREVIOUS, CurrentLeaf


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
    found: list[str | None | CurrentLeaf] = []
    for index, node in enumerate(delta.nodes):
        parent = node.parent_node_id
        before = delta.nodes[index - 1].node_id if index else _above_first(delta)
        if parent is PREVIOUS:
            parent = before
        field = f"graph.nodes[{index}].parent_node_id"
        _check_current_leaf(delta, index, parent, field)
        if parent != before and follows_leaf(delta):
            raise InvalidArgument(
                field, "must be the node before it, as the list begins under the current leaf"
            )
        found.append(parent)
    return found


def _above_first(delta: GraphDelta) -> CurrentLeaf | None:
    return None if isinstance(delta, ReplaceFull) else CURRENT_LEAF


def _check_current_leaf(delta: GraphDelta, index: int, parent: object, field: str) -> None:
    if parent is not CURRENT_LEAF:
        return
    if index:
        raise InvalidArgument(field, "only the first node may follow the current leaf")
    if isinstance(delta, ReplaceFull):
        raise InvalidArgument(field, "a replaced graph has no current leaf")


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
    if isinstance(delta, Append):
        # Any node may turn out to stand behind one that is stored, where a branch goes on already.
        return len(delta.nodes)
    ids = [node.node_id for node in delta.nodes]
    apart = sum(parent != before for parent, before in zip(parents(delta)[1:], ids, strict=False))
    return 1 + apart
