"""Where the nodes of an append go, one line per case."""

from __future__ import annotations

import pytest

from holdfast import KEEP, Append, GraphIntegrity, GraphNodeConflict, InvalidArgument, Unchanged
from holdfast.rules.graph import EMPTY, MAX_PATH_LENGTH, Position
from holdfast.rules.placing import plan_unchanged
from tests.unit.placing_kit import HEAD, PATH, appended, known, nodes, opened, places, stock

# --- a chain under the current leaf ------------------------------------------------------


@pytest.mark.parametrize(
    ("head", "rows", "gone", "branches", "placed"),
    [
        (EMPTY, (), {}, [(101, None, 0)], [("x", 101, 0, None), ("y", 101, 1, "x")]),
        (HEAD, PATH, {}, [], [("x", 7, 3, "c"), ("y", 7, 4, "x")]),
        # c is followed already, or belongs to somebody else.
        (HEAD, [known("c", 7, 2)], {}, [(101, 7, 3)], [("x", 101, 3, "c"), ("y", 101, 4, "x")]),
        # A removed node that others share still holds the id on this branch.
        (HEAD, PATH, {"x": {7}}, [(101, 7, 3)], [("x", 101, 3, "c"), ("y", 101, 4, "x")]),
        (HEAD, PATH, {"y": {7}}, [(101, 7, 4)], [("x", 7, 3, "c"), ("y", 101, 4, "x")]),
        (HEAD, PATH, {"y": {8}}, [], [("x", 7, 3, "c"), ("y", 7, 4, "x")]),
        (HEAD, (*PATH, known("x", 9, 0)), {}, [], [("y", 7, 3, "c")]),
    ],
)
def test_a_chain_follows_the_leaf(head, rows, gone, branches, placed):
    gone = {node_id: frozenset(where) for node_id, where in gone.items()}

    plan = appended(Append(nodes("x", "y")), *rows, head=head, gone=gone)

    assert (opened(plan), places(plan)) == (branches, placed)
    assert plan.head == Position(placed[-1][1], placed[-1][2] + 1, "y")
    assert not plan.replayed


@pytest.mark.parametrize(
    ("rows", "content", "on_known", "options", "replayed", "revived"),
    [
        (PATH, "same", "conflict", {"repeatable": True}, True, []),
        (PATH, "same", "conflict", {}, False, []),
        (PATH, "other", "skip", {"repeatable": True}, True, []),
        ((PATH[0], known("b", 7, 1, tombstoned=True), PATH[2]), "same", "conflict",
         {"repeatable": True}, False, ["b"]),
    ],
)  # fmt: skip
def test_a_chain_of_known_nodes_places_none(rows, content, on_known, options, replayed, revived):
    delta = Append(nodes("a", "b"), on_known=on_known)

    plan = appended(delta, *rows, content=content, **options)

    assert (plan.placed, plan.head) == ([], HEAD)
    assert (plan.replayed, [row.node_id for row in plan.revived]) == (replayed, revived)


@pytest.mark.parametrize(
    ("rows", "delta", "reason"),
    [
        (PATH[:2], Append(nodes("x")), "unknown_parent"),
        ([known("c", 7, 2, tombstoned=True)], Append(nodes("x")), "tombstoned_parent"),
        (PATH, Append(nodes("x", "y", "x")), "duplicate_in_delta"),
        (PATH, Append(nodes("x"), leaf="nobody"), "unknown_leaf"),
    ],
)
def test_a_chain_that_cannot_follow_is_refused(rows, delta, reason):
    with pytest.raises(GraphIntegrity) as refused:
        appended(delta, *rows)
    assert refused.value.reason == reason


def test_a_hidden_leaf_may_be_shown_again_by_its_own_chain():
    leaf = known("c", 7, 2, tombstoned=True, extendable=True)

    plan = appended(Append(nodes("c", "x")), leaf)

    assert (places(plan), plan.revived) == ([("x", 7, 3, "c")], [leaf])


def test_a_path_does_not_outgrow_its_key():
    deep = Position(7, MAX_PATH_LENGTH, "c")
    with pytest.raises(InvalidArgument, match="too_large"):
        appended(Append(nodes("x")), PATH[2], head=deep)


# --- nodes with parents of their own -----------------------------------------------------


@pytest.mark.parametrize(
    ("delta", "branches", "placed"),
    [
        (Append(nodes(("x", None), "y")), [(101, None, 0)],
         [("x", 101, 0, None), ("y", 101, 1, "x")]),
        (Append(nodes(("x", "c"), "y")), [], [("x", 7, 3, "c"), ("y", 7, 4, "x")]),
        (Append(nodes(("x", "b"), "y")), [(101, 7, 2)], [("x", 101, 2, "b"), ("y", 101, 3, "x")]),
        (Append(nodes(("x", "c"), ("y", "c"))), [(101, 7, 3)],
         [("x", 7, 3, "c"), ("y", 101, 3, "c")]),
        (Append(nodes(("c", "b"), "x")), [], [("x", 7, 3, "c")]),
        (Append(nodes(("x", None), ("y", None))), [(101, None, 0), (102, None, 0)],
         [("x", 101, 0, None), ("y", 102, 0, None)]),
    ],
)  # fmt: skip
def test_a_tree_grows_where_its_parents_are(delta, branches, placed):
    plan = appended(delta, *PATH)

    assert (opened(plan), places(plan)) == (branches, placed)
    assert plan.head == Position(placed[-1][1], placed[-1][2] + 1, placed[-1][0])


HIDDEN = known("h", 7, 1, "a", tombstoned=True)


@pytest.mark.parametrize(
    ("delta", "reason"),
    [
        (Append(nodes(("x", "nobody"))), "unknown_parent"),
        (Append(nodes(("x", "h"))), "tombstoned_parent"),
        (Append(nodes(("x", "x"))), "self_parent"),
        (Append(nodes(("x", None), ("x", None))), "duplicate_in_delta"),
        # In the order of the list, and per node in the order of GRA-6.
        (Append(nodes(("x", "nobody"), ("y", "y"))), "unknown_parent"),
        (Append(nodes(("x", None), ("x", "x"))), "duplicate_in_delta"),
        (Append(nodes(("x", None)), leaf="h"), "unknown_leaf"),
    ],
)
def test_a_broken_tree_is_refused(delta, reason):
    with pytest.raises(GraphIntegrity) as refused:
        appended(delta, *PATH, HIDDEN)
    assert refused.value.reason == reason


@pytest.mark.parametrize(
    ("pair", "content", "conflict"),
    [(("b", "a"), "same", False), (("b", "a"), "other", True), (("b", None), "same", True)],
)
def test_a_known_node_of_a_tree_has_to_be_the_same(pair, content, conflict):
    if conflict:
        with pytest.raises(GraphNodeConflict):
            appended(Append(nodes(pair)), *PATH, content=content)
    else:
        assert appended(Append(nodes(pair)), *PATH, content=content).head == Position(7, 2, "b")
    skipped = appended(Append(nodes(pair), on_known="skip"), *PATH, content=content)
    assert skipped.placed == []


@pytest.mark.parametrize("order", [["h", "x"], ["x", "h"]], ids=["before", "after"])
def test_a_hidden_parent_may_be_shown_again_anywhere_in_the_list(order):
    pairs = {"h": ("h", "a"), "x": ("x", "h")}

    plan = appended(Append(nodes(*(pairs[each] for each in order))), *PATH, HIDDEN)

    assert places(plan) == [("x", 101, 2, "h")]
    assert plan.revived == [HIDDEN]


@pytest.mark.invariant("INV-20")
@pytest.mark.parametrize(
    ("leaf", "expected"),
    [(KEEP, HEAD), ("c", HEAD), (None, EMPTY), ("b", Position(7, 2, "b"))],
    ids=str,
)
def test_a_head_moves_to_a_live_node(leaf, expected):
    assert plan_unchanged("s", Unchanged(leaf), HEAD, stock(*PATH)).head == expected
    assert appended(Append([], leaf=leaf), *PATH).head == expected


def test_a_hidden_leaf_may_be_kept_but_not_chosen():
    hidden = Position(7, 2, "h")
    assert plan_unchanged("s", Unchanged("h"), hidden, stock(HIDDEN)).head == hidden
    with pytest.raises(GraphIntegrity, match="unknown_leaf"):
        plan_unchanged("s", Unchanged("h"), HEAD, stock(HIDDEN))
