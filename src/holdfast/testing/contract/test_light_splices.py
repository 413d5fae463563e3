"""Extensions 2: splices that take one trip, and those that may not (EXT-7)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from holdfast import Append, Node, SessionCreate, Splice, Unchanged
from holdfast.testing.contract.samples import chain, full_ids, message, path_ids, put
from holdfast.testing.world import World

#: What a commit by momentary lease takes: one trip if it is light; else those of any commit too.
LIGHT, WHOLE = 1, 3


def six(store: Any) -> None:
    """A session with six messages."""
    put(store, "s1", graph=chain(*"abcdef"))


def branched(store: Any) -> None:
    """Its leaf is on a branch of four that leaves the first one behind `c`."""
    six(store)
    put(store, "s1", graph=Unchanged("c"))
    put(store, "s1", graph=chain(*"wxyz"))


def forked(store: Any) -> None:
    """A fork at `c` of another session, with four messages of its own."""
    put(store, "source", graph=chain(*"abcdef"))
    store.sessions.fork("source", SessionCreate(session_id="s1"), leaf="c")
    put(store, "s1", graph=chain(*"wxyz"))


def hidden(session_ids: str, before: Callable[[Any], None] = six) -> Callable[[Any], None]:
    """As before, but for some nodes that are tombstoned."""

    def prepare(store: Any) -> None:
        before(store)
        store.sessions.tombstone("s1", list(session_ids))

    return prepare


def forked_behind_a_tombstone(store: Any) -> None:
    """A fork that never saw the first nodes of the branch it shares."""
    put(store, "source", graph=chain(*"abcdef"))
    store.sessions.tombstone("source", ["b"])
    store.sessions.fork("source", SessionCreate(session_id="s1"), leaf="d")
    put(store, "s1", graph=chain(*"wxyz"))


def forked_from_what_is_gone(store: Any) -> None:
    """A fork that shares the upper branch of two, of which the lower one was removed since."""
    hidden("c", branched)(store)
    store.sessions.fork("s1", SessionCreate(session_id="kept"))
    store.sessions.delete("s1")
    store.maintenance.vacuum()
    store.sessions.fork("kept", SessionCreate(session_id="s1"))
    put(store, "s1", graph=chain("p", "q"))


def with_a_child(node_id: str) -> Callable[[Any], None]:
    """A branch of one node leaves the path behind a node; the leaf stays."""

    def prepare(store: Any) -> None:
        six(store)
        side = message("side", parent_node_id=node_id)
        put(store, "s1", graph=Append([side], leaf="f"))

    return prepare


def with_a_fork(leaf: str) -> Callable[[Any], None]:
    """Another session sees the path up to a node."""

    def prepare(store: Any) -> None:
        six(store)
        store.sessions.fork("s1", SessionCreate(session_id="other"), leaf=leaf)

    return prepare


def moved_back(store: Any) -> None:
    """The leaf stands before the end of its branch."""
    six(store)
    put(store, "s1", graph=Unchanged("d"))


def shortened(store: Any) -> None:
    """What is hidden behind the leaf was removed for good."""
    six(store)
    put(store, "s1", graph=Unchanged("d"))
    store.sessions.tombstone("s1", ["e", "f"])
    store.sessions.vacuum("s1")


class Case(NamedTuple):
    """A splice, what it leaves of the path and what it removes, and its trips on a server."""

    prepare: Callable[[Any], None]
    delta: Splice
    path: str
    removed: str
    trips: int = LIGHT


CASES = {
    "a pop": Case(six, Splice(-1), "abcde", "f"),
    "all of it": Case(six, Splice(0), "", "abcdef"),
    "more than there is": Case(six, Splice(-(2**63)), "", "abcdef"),
    "nothing": Case(six, Splice(2**63 - 1), "abcdef", ""),
    "a branch's end": Case(branched, Splice(-2), "abcwx", "yz"),
    "a branch's end, from the root": Case(branched, Splice(5), "abcwx", "yz"),
    "a whole branch": Case(branched, Splice(3), "abc", "wxyz"),
    "a branch and more": Case(branched, Splice(2), "ab", "cwxyz", WHOLE),
    "a fork's end": Case(forked, Splice(-2), "abcwx", "yz"),
    "a fork's end, from the root": Case(forked, Splice(5), "abcwx", "yz"),
    "all a fork has of its own": Case(forked, Splice(3), "abc", "wxyz"),
    "what a fork shares": Case(forked, Splice(1), "a", "bcwxyz", WHOLE),
    "a pop behind a tombstone": Case(hidden("b"), Splice(-1), "cde", "f"),
    "keep counts from the tombstone": Case(hidden("b"), Splice(1), "c", "def"),
    "all behind a tombstone": Case(hidden("b"), Splice(0), "", "cdef"),
    "keep behind a tombstone below": Case(hidden("b", branched), Splice(5), "cwxyz", ""),
    "less behind a tombstone below": Case(hidden("b", branched), Splice(2), "cw", "xyz"),
    "all of a branch behind a tombstone": Case(hidden("c", branched), Splice(0), "", "wxyz"),
    "a fork behind a tombstone": Case(hidden("b", forked), Splice(2), "cw", "xyz"),
    "what a fork never saw": Case(forked_behind_a_tombstone, Splice(3), "cdw", "xyz"),
    "what is gone": Case(forked_from_what_is_gone, Splice(5), "wxyzp", "q"),
    "an unseen leaf": Case(hidden("f"), Splice(-1), "", ""),
    "behind a branch": Case(with_a_child("c"), Splice(3), "abc", "def"),
    "below a branch": Case(with_a_child("d"), Splice(3), "abc", "def", WHOLE),
    "behind a fork": Case(with_a_fork("c"), Splice(3), "abc", "def"),
    "below a fork": Case(with_a_fork("d"), Splice(3), "abc", "def", WHOLE),
    "before the end": Case(moved_back, Splice(-1), "abc", "d", WHOLE),
    "before what was removed": Case(shortened, Splice(-1), "abc", "d"),
}


@pytest.mark.parametrize("name", CASES)
def test_a_splice_leaves_the_same_in_one_trip_and_in_three(
    world: World, store: Any, name: str
) -> None:
    case = CASES[name]
    case.prepare(store)
    counts = world.backend(store).counts
    counts.clear()

    done = put(store, "s1", graph=case.delta)

    if world.is_server:
        assert counts["trips"] == case.trips
    assert [node.node_id for node in done.removed_nodes] == list(case.removed)
    assert path_ids(store) == list(case.path)
    assert not {*case.removed} & {*full_ids(store)}
    assert store.sessions.picker_info("s1").node_count == len(full_ids(store))

    put(store, "s1", graph=chain("next", *case.removed[:1]))

    assert path_ids(store) == [*case.path, "next", *case.removed[:1]]


@pytest.mark.parametrize("name", CASES)
def test_nodes_of_the_same_commit_follow_what_is_kept(world: World, store: Any, name: str) -> None:
    case = CASES[name]
    case.prepare(store)

    put(store, "s1", graph=Splice(case.delta.keep, [message("next")]))

    assert path_ids(store) == [*case.path, "next"]
    used = "SELECT count(*) FROM {branch} WHERE id NOT IN (SELECT branch FROM {node})"
    assert world.sql(store, used) == [(0,)]


def test_a_leaf_that_cannot_be_seen_may_be_named_again(world: World, store: Any) -> None:
    hidden("f")(store)
    counts = world.backend(store).counts
    counts.clear()

    put(store, "s1", graph=Unchanged("f"))

    if world.is_server:
        assert counts["trips"] == LIGHT
    loaded = store.sessions.load("s1")
    assert (loaded.graph.leaf_node_id, loaded.leaf_missing) == ("f", True)


@pytest.mark.parametrize("leaf", ["c", "d"])
def test_a_branch_that_left_what_is_removed_keeps_no_more_than_itself(
    store: Any, leaf: str
) -> None:
    with_a_child(leaf)(store)

    put(store, "s1", graph=Splice(2))
    put(store, "s1", graph=chain("p", "q", "r"))

    assert path_ids(store, leaf="side") == ["side"]
    assert path_ids(store) == ["a", "b", "p", "q", "r"]


def test_the_first_user_message_is_looked_for_where_a_splice_removes_it(
    world: World, store: Any
) -> None:
    put(store, "s1", graph=chain("first", "second"))
    put(store, "s1", graph=Append([message("side", "side", parent_node_id=None)], leaf="second"))
    counts = world.backend(store).counts
    counts.clear()

    put(store, "s1", graph=Splice(0, [message("late", "late")]))

    line = store.sessions.picker_info("s1")
    assert (line.user_message_count, line.first_user_message) == (2, "side")
    put(store, "s1", graph=Unchanged("side"))
    put(store, "s1", graph=Splice(0))
    line = store.sessions.picker_info("s1")
    assert (line.user_message_count, line.first_user_message) == (1, "late")
    put(store, "s1", graph=Unchanged("late"))
    put(store, "s1", graph=Splice(0, [Node(node_id="x", body=1)]))
    line = store.sessions.picker_info("s1")
    assert (line.user_message_count, line.first_user_message) == (0, "")
    if world.is_server:
        assert (counts["enter_section"], counts["light_commit"]) == (0, 5)
