"""Section 5.4: reading a graph by path, by page and by node."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast import (
    Append,
    CorruptRecord,
    GraphNodeNotFound,
    InvalidArgument,
    Node,
    SessionCreate,
    Unchanged,
)
from holdfast.testing.contract.samples import (
    chain,
    checkpoint,
    full_ids,
    message,
    path_ids,
    put,
)
from holdfast.testing.world import World, racing


def two_branches(store: Any) -> None:
    """A root with a left child, whose child is the leaf, and with a right child."""
    put(
        store,
        "s1",
        graph=Append(
            [
                message("root", parent_node_id=None),
                message("left", parent_node_id="root"),
                message("left-leaf", parent_node_id="left"),
                message("right-leaf", parent_node_id="root"),
            ],
            leaf="left-leaf",
        ),
    )


@pytest.mark.scenario("GRA-T1")
def test_a_full_read_lists_every_branch_by_sequence(store: Any) -> None:
    two_branches(store)

    loaded = store.sessions.load("s1", scope="full_graph")

    ids = [node.node_id for node in loaded.graph.nodes]
    assert ids == ["root", "left", "left-leaf", "right-leaf"]
    assert loaded.graph.leaf_node_id == "left-leaf"


@pytest.mark.scenario("GRA-T1")
def test_an_active_path_leaves_siblings_out(store: Any) -> None:
    two_branches(store)

    assert path_ids(store) == ["root", "left", "left-leaf"]


@pytest.mark.scenario("GRA-T1")
def test_an_explicit_leaf_ends_the_path_instead(store: Any) -> None:
    two_branches(store)

    loaded = store.sessions.load("s1", leaf="right-leaf")

    assert [node.node_id for node in loaded.graph.nodes] == ["root", "right-leaf"]
    assert loaded.graph.leaf_node_id == "right-leaf"


@pytest.mark.scenario("GRA-T7")
def test_a_tombstoned_leaf_is_hidden_and_reported(store: Any) -> None:
    put(store, "s1", graph=chain("a", "b"))

    assert store.sessions.tombstone("s1", ["b"]) == 1

    assert store.sessions.load_node("s1", "b") is None
    for scope, ids in (("active_path", []), ("full_graph", ["a"])):
        loaded = store.sessions.load("s1", scope=scope)
        assert [node.node_id for node in loaded.graph.nodes] == ids
        assert (loaded.graph.leaf_node_id, loaded.leaf_missing) == ("b", True)


@pytest.mark.scenario("GRA-T7")
def test_a_vacuumed_leaf_is_reported_as_missing_too(store: Any) -> None:
    put(store, "s1", graph=chain("a", "b"))
    store.sessions.tombstone("s1", ["b"])

    assert store.sessions.vacuum("s1").removed_node_count == 1

    loaded = store.sessions.load("s1")
    assert (loaded.graph.nodes, loaded.leaf_missing) == ([], True)


@pytest.mark.scenario("GRA-T8")
def test_without_a_leaf_the_active_path_is_empty(store: Any) -> None:
    put(store, "s1", graph=chain("a", "b"))
    put(store, "s1", graph=Unchanged(None))

    loaded = store.sessions.load("s1")

    assert (loaded.graph.nodes, loaded.graph.leaf_node_id, loaded.leaf_missing) == ([], None, False)
    assert full_ids(store) == ["a", "b"]


@pytest.mark.scenario("GRA-T9")
@pytest.mark.parametrize("leaf", ["nobody", "hidden"])
def test_an_explicit_leaf_has_to_be_live(store: Any, leaf: str) -> None:
    put(store, "s1", graph=chain("a", "hidden"))
    store.sessions.tombstone("s1", ["hidden"])

    with pytest.raises(GraphNodeNotFound) as refused:
        store.sessions.load("s1", leaf=leaf)

    assert (refused.value.session_id, refused.value.node_id) == ("s1", leaf)


@pytest.mark.scenario("GRA-T10")
def test_a_path_starts_below_a_tombstoned_node(store: Any) -> None:
    put(store, "s1", graph=chain("a", "b", "c", "d"))

    store.sessions.tombstone("s1", ["b"])

    loaded = store.sessions.load("s1")
    assert [node.node_id for node in loaded.graph.nodes] == ["c", "d"]
    assert (loaded.more, loaded.leaf_missing) == (False, False)


@pytest.mark.invariant("INV-27")
@pytest.mark.scenario("GRA-T11")
def test_a_path_read_decodes_the_path_alone(world: World) -> None:
    # A busy machine may take long over it between the trips of its transaction.
    store = world.open(idle_in_transaction_ms=60_000)
    large = [Node(node_id=f"n{number}", body=number) for number in range(99_990)]
    put(store, "s1", graph=Append(large))
    root = Node(node_id="p0", body=0, parent_node_id=None)
    short = [f"p{number}" for number in range(10)]
    put(store, "s1", graph=Append([root, *(Node(node_id=each, body=each) for each in short[1:])]))
    # Whoever touches any other node fails.
    world.sql(store, "UPDATE {node} SET body = ? WHERE substr(node_id, 1, 1) = 'n'", b"{")

    assert path_ids(store) == short
    assert [node.node_id for node in store.sessions.find_path("p9").nodes] == short
    with pytest.raises(CorruptRecord):
        store.sessions.load("s1", leaf="n9")


@pytest.mark.invariant("INV-4")
@pytest.mark.scenario("GRA-T12")
def test_a_load_beside_commits_sees_one_revision(store: Any) -> None:
    commits = 40

    def write() -> list[Any]:
        for number in range(1, commits + 1):
            put(store, "s1", graph=chain(f"n{number}"), checkpoint=checkpoint(number))
        return []

    def read() -> list[Any]:
        seen: list[Any] = []
        while not seen or seen[-1][0] < commits:
            loaded = store.sessions.load("s1")
            if loaded is not None:
                turn = loaded.checkpoint.turn_state["turn_index"]
                seen.append((loaded.head_revision, len(loaded.graph.nodes), turn))
        return seen

    _, seen = racing(2, lambda number: read() if number else write())

    assert [row for row in seen if len(set(row)) != 1] == []


@pytest.mark.scenario("GRA-T15")
def test_the_last_nodes_of_a_path_and_the_ones_before_them(store: Any) -> None:
    ids = [f"n{number:04}" for number in range(1000)]
    put(store, "s1", graph=Append([Node(node_id=each, body=None) for each in ids]))

    nearest = store.sessions.load("s1", last=50)
    before = store.sessions.load("s1", leaf=nearest.graph.nodes[0].parent_node_id, last=50)

    assert [node.node_id for node in nearest.graph.nodes] == ids[-50:]
    assert [node.node_id for node in before.graph.nodes] == ids[-100:-50]
    assert (nearest.more, before.more) == (True, True)


@pytest.mark.scenario("GRA-T15")
@pytest.mark.parametrize(
    ("last", "ids", "more"), [(0, [], True), (2, ["b", "c"], True), (3, ["a", "b", "c"], False)]
)
def test_more_says_whether_older_nodes_were_left_out(
    store: Any, last: int, ids: list[str], more: bool
) -> None:
    put(store, "s1", graph=chain("a", "b", "c"))

    loaded = store.sessions.load("s1", last=last)

    assert [node.node_id for node in loaded.graph.nodes] == ids
    assert (loaded.more, loaded.leaf_missing) == (more, False)


def test_pages_of_nodes_go_on_behind_the_last_one_seen(store: Any) -> None:
    put(store, "s1", graph=chain(*"abcde"))
    store.sessions.tombstone("s1", ["b"])

    first = store.sessions.list_nodes("s1", limit=2)
    second = store.sessions.list_nodes("s1", after_sequence=first.nodes[-1].sequence, limit=2)

    assert ([node.node_id for node in first.nodes], first.more) == (["a", "c"], True)
    assert ([node.node_id for node in second.nodes], second.more) == (["d", "e"], False)


def test_a_full_read_takes_neither_leaf_nor_last(store: Any) -> None:
    with pytest.raises(InvalidArgument):
        store.sessions.load("s1", scope="full_graph", last=1)


def test_tombstoning_counts_what_it_newly_hides(store: Any) -> None:
    put(store, "s1", graph=chain("a", "b", "c"))
    store.sessions.tombstone("s1", ["a"])

    assert store.sessions.tombstone("s1", ["a", "b", "b", "nobody"]) == 1
    assert store.sessions.tombstone("s1", []) == 0
    assert store.sessions.load("s1").head_revision == 1
    assert store.sessions.picker_info("s1").node_count == 1


def test_nodes_are_filtered_by_the_time_they_say(store: Any) -> None:
    """EXT-3: the caller's time is no order, and a node without one is later than nothing."""
    times = {"a": 30, "b": None, "c": 10, "d": 20, "e": -5}
    put(store, "s1", graph=Append([message(name, at_us=at) for name, at in times.items()]))
    store.sessions.fork("s1", SessionCreate(session_id="s2"))

    for session_id in ("s1", "s2"):
        assert path_ids(store, session_id, after_us=10) == ["a", "d"]
        assert path_ids(store, session_id, after_us=-10, last=2) == ["d", "e"]
        assert path_ids(store, session_id, scope="full_graph", after_us=9) == ["a", "c", "d"]
        page = store.sessions.list_nodes(session_id, limit=1, after_us=10)
        assert ([node.node_id for node in page.nodes], page.more) == (["a"], True)
        rest = store.sessions.list_nodes(session_id, page.nodes[0].sequence, after_us=10)
        assert ([node.node_id for node in rest.nodes], rest.more) == (["d"], False)
    nothing = store.sessions.load("s1", after_us=99)
    assert (nothing.graph.nodes, nothing.graph.leaf_node_id) == ([], "e")
    assert (nothing.leaf_missing, nothing.more) == (False, False)
    assert store.sessions.load("s1", after_us=99, last=2).more
