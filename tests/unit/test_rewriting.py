"""What splices remove and what replaced graphs look like, one line per case."""

from __future__ import annotations

import pytest

from holdfast import GraphIntegrity, ReplaceFull, Splice
from holdfast.rules.graph import EMPTY, Position, Segment, Tail
from holdfast.rules.parents import branches_needed
from holdfast.rules.replacing import plan_replace
from holdfast.rules.splicing import plan_splice
from tests.unit.placing_kit import HEAD, NEW, PATH, drafts, known, nodes, opened, places, stock

# --- splices -----------------------------------------------------------------------------


def segment(branch, base, upto, **facts):
    given = {"owned": True, "shared_upto": 0, "other_base": 0, "beyond": False}
    return Segment(branch=branch, base=base, upto=upto, **given | facts)


@pytest.mark.invariant("INV-26")
@pytest.mark.parametrize(
    ("segments", "cut", "deleted", "hidden"),
    [
        ([], 0, [], []),
        ([segment(7, 0, 5)], 5, [], []),
        ([segment(7, 0, 5)], 3, [Tail(7, 3, 5)], []),
        ([segment(7, 0, 5)], 0, [Tail(7, 0, 5, True)], []),
        # Others see it, other children hang on it, it goes on behind, it is not ours.
        ([segment(7, 0, 5, shared_upto=4)], 3, [], [Tail(7, 3, 5)]),
        ([segment(7, 0, 5, shared_upto=3)], 3, [Tail(7, 3, 5)], []),
        ([segment(7, 0, 5, other_base=4)], 3, [], [Tail(7, 3, 5)]),
        ([segment(7, 0, 5, beyond=True)], 3, [], [Tail(7, 3, 5)]),
        ([segment(7, 0, 5, owned=False)], 3, [], [Tail(7, 3, 5)]),
        # An emptied branch frees its parent's end, a hidden one keeps it.
        ([segment(8, 3, 5), segment(7, 0, 3)], 2, [Tail(8, 3, 5, True), Tail(7, 2, 3)], []),
        ([segment(8, 3, 5, shared_upto=4), segment(7, 0, 3)], 2, [],
         [Tail(8, 3, 5), Tail(7, 2, 3)]),
        ([segment(8, 3, 5), segment(7, 0, 3, beyond=True)], 2, [Tail(8, 3, 5, True)],
         [Tail(7, 2, 3)]),
    ],
)  # fmt: skip
def test_only_what_nobody_else_reaches_is_deleted(segments, cut, deleted, hidden):
    head = Position(segments[0].branch, segments[0].upto, "e") if segments else EMPTY
    kept = f"n{cut}" if cut else None

    plan = plan_splice("s", Splice(cut), [], segments, cut, kept, head, stock(), NEW)

    assert (plan.deleted, plan.hidden, plan.replayed) == (deleted, hidden, False)
    left = next((each.branch for each in segments if each.base < cut <= each.upto), None)
    length = cut if kept else 0
    assert (plan.head.branch, plan.head.length) == (left, length)


@pytest.mark.parametrize(
    ("segments", "branches", "placed"),
    [
        ([segment(7, 0, 3)], [], ("c", 7, 2, "b")),
        ([segment(7, 0, 3, shared_upto=3)], [(101, 7, 2)], ("c", 101, 2, "b")),
        ([segment(8, 2, 3), segment(7, 0, 2)], [(101, 7, 2)], ("c", 101, 2, "b")),
    ],
    ids=["in-place", "shared", "own-branch"],
)
def test_a_removed_id_is_placed_anew(segments, branches, placed):
    branch = segments[0].branch
    rows = stock(known("b", 7, 1), known("c", branch, 2, extendable=True, identity=("older",)))
    delta = Splice(-1, nodes("c"))
    head = Position(branch, 3, "c")

    plan = plan_splice("s", delta, drafts(delta), segments, 2, "b", head, rows, NEW)

    assert (opened(plan), places(plan)) == (branches, [placed])


def test_a_splice_without_anything_to_remove_appends():
    delta = Splice(9, nodes("x"))
    plan = plan_splice(
        "s", delta, drafts(delta), [segment(7, 0, 3)], 3, "c", HEAD, stock(*PATH), NEW
    )

    assert (places(plan), plan.deleted, plan.hidden) == ([("x", 7, 3, "c")], [], [])


# --- replaced graphs ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pairs", "branches", "placed"),
    [
        ((), [], []),
        (("x", "y"), [(101, None, 0)], [("x", 101, 0, None), ("y", 101, 1, "x")]),
        ((("x", "gone"), "y"), [(101, None, 0)], [("x", 101, 0, "gone"), ("y", 101, 1, "x")]),
        (("x", ("y", None), ("z", "x")), [(101, None, 0), (102, None, 0), (103, 101, 1)],
         [("x", 101, 0, None), ("y", 102, 0, None), ("z", 103, 1, "x")]),
        # A child listed before its parent stands on a branch of its own.
        ((("y", "x"), ("x", None)), [(101, None, 0), (102, 101, 1)],
         [("y", 102, 1, "x"), ("x", 101, 0, None)]),
    ],
)  # fmt: skip
def test_a_list_becomes_the_graph(pairs, branches, placed):
    delta = ReplaceFull(nodes(*pairs))

    plan = plan_replace("s", delta, drafts(delta), NEW[: branches_needed(delta)])

    assert (opened(plan), places(plan), plan.detach) == (branches, placed, True)
    assert plan.head.leaf_id == (placed[-1][0] if placed else None)


@pytest.mark.invariant("INV-21")
@pytest.mark.parametrize(
    ("delta", "reason"),
    [
        (ReplaceFull(nodes("x", "x")), "duplicate_in_delta"),
        (ReplaceFull(nodes(("x", "x"))), "cycle"),
        (ReplaceFull(nodes(("x", "z"), ("y", "x"), ("z", "y"))), "cycle"),
        (ReplaceFull(nodes("x"), leaf="y"), "unknown_leaf"),
    ],
)
def test_a_broken_graph_is_refused(delta, reason):
    with pytest.raises(GraphIntegrity) as refused:
        plan_replace("s", delta, drafts(delta), NEW)
    assert refused.value.reason == reason


def test_a_replaced_graph_may_have_no_leaf():
    delta = ReplaceFull(nodes("x"), leaf=None)
    assert plan_replace("s", delta, drafts(delta), NEW).head == EMPTY
