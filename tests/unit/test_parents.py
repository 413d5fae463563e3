"""Which parent each node of a delta means, one line per case."""

from __future__ import annotations

import pytest

from holdfast import CURRENT_LEAF, Append, InvalidArgument, ReplaceFull, Splice, Unchanged
from holdfast.rules.parents import branches_needed, ids_to_look_up, parents
from tests.unit.placing_kit import nodes


@pytest.mark.parametrize(
    ("delta", "expected"),
    [
        (Unchanged(), []),
        (Append(nodes("x", "y")), [CURRENT_LEAF, "x"]),
        (Append(nodes(("x", CURRENT_LEAF), ("y", "x"))), [CURRENT_LEAF, "x"]),
        (Append(nodes(("x", None), "y", ("z", "x"))), [None, "x", "x"]),
        (Splice(1, nodes("x", "y")), [CURRENT_LEAF, "x"]),
        (ReplaceFull(nodes("x", "y", ("z", "x"))), [None, "x", "x"]),
    ],
)
def test_each_node_has_a_parent(delta, expected):
    assert parents(delta) == expected


@pytest.mark.parametrize(
    ("delta", "index"),
    [
        (Append(nodes("x", ("y", CURRENT_LEAF))), 1),
        (Append(nodes(("x", None), ("y", CURRENT_LEAF))), 1),
        (Append(nodes("x", "y", ("z", "x"))), 2),
        (Append(nodes("x", ("y", None))), 1),
        (Splice(0, nodes(("x", "a"))), 0),
        (Splice(0, nodes(("x", None))), 0),
        (ReplaceFull(nodes(("x", CURRENT_LEAF))), 0),
    ],
)
def test_a_chain_has_no_other_parents(delta, index):
    with pytest.raises(InvalidArgument) as refused:
        parents(delta)
    assert refused.value.field == f"graph.nodes[{index}].parent_node_id"


@pytest.mark.parametrize(
    ("delta", "ids", "branches"),
    [
        (Unchanged(), [], 0),
        (Unchanged("l"), ["l"], 0),
        (Append([], leaf="l"), ["l"], 0),
        (Append(nodes("x", "y"), leaf="l"), ["l", "x", "y"], 1),
        (Append(nodes(("x", "p"), ("y", None))), ["x", "p", "y"], 2),
        (Splice(0), [], 0),
        (Splice(0, nodes("x", "y")), ["x", "y"], 1),
        (ReplaceFull(nodes("x", "y", "z")), [], 1),
        (ReplaceFull(nodes("x", ("y", None), ("z", "x"))), [], 3),
    ],
)
def test_what_has_to_be_looked_up_and_reserved(delta, ids, branches):
    assert (ids_to_look_up(delta), branches_needed(delta)) == (ids, branches)
