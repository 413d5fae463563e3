"""Which parent each node of a delta means, and what has to be looked up to place it."""

from __future__ import annotations

from holdfast.errors import InvalidArgument
from holdfast.model.graph import Append, GraphDelta, Node, ReplaceFull, Splice, Unchanged
from holdfast.model.values import CURRENT_LEAF, PREVIOUS, CurrentLeaf, Keep, Previous
from holdfast.rules import checks

MAX_NODES = 100_000


def check_delta(delta: object) -> None:
    """Refuse what is no delta, and one whose leaf, nodes or links are not what they should be."""
    if not isinstance(delta, Unchanged | Append | ReplaceFull | Splice):
        raise InvalidArgument("graph", "not_a_delta")
    if not isinstance(delta, Splice) and not isinstance(delta.leaf, Keep | None):
        checks.identifier(delta.leaf, "graph.leaf")
    if isinstance(delta, Splice):
        checks.integer(delta.keep, "graph.keep")
    if isinstance(delta, Append | Splice):
        checks.one_of(delta.on_known, "graph.on_known", ("conflict", "skip"))
    if not isinstance(delta, Unchanged):
        _check_nodes(delta.nodes)


def _check_nodes(nodes: object) -> None:
    # In an order, and there for more than one look at it.
    if not isinstance(nodes, list | tuple):
        raise InvalidArgument("graph.nodes", "not_a_list")
    for index, node in enumerate(checks.listed(nodes, "graph.nodes", MAX_NODES)):
        field = f"graph.nodes[{index}]"
        checks.record(node, Node, field)
        checks.identifier(node.node_id, f"{field}.node_id")
        if not isinstance(node.parent_node_id, CurrentLeaf | Previous | None):
            checks.identifier(node.parent_node_id, f"{field}.parent_node_id")


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
