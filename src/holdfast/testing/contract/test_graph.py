"""Section 5: what deltas do to a session's graph."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast import (
    CURRENT_LEAF,
    Append,
    GraphIntegrity,
    GraphNodeConflict,
    InvalidArgument,
    Node,
    ReplaceFull,
    SessionCreate,
    Unchanged,
)
from holdfast.testing.contract.samples import (
    chain,
    commit,
    full_ids,
    lease_on,
    message,
    path_ids,
    put,
)
from holdfast.testing.world import World


def under(parent: Any, *node_ids: str) -> Append:
    """Messages behind a parent, one behind the other."""
    first, *rest = node_ids
    return Append([message(first, parent_node_id=parent), *[message(each) for each in rest]])


@pytest.mark.scenario("GRA-T2")
def test_an_append_follows_earlier_nodes_and_the_count_grows(store: Any) -> None:
    put(store, "s1", graph=chain("a", "b"))

    put(store, "s1", graph=chain("c", "d"))

    assert path_ids(store) == ["a", "b", "c", "d"]
    assert store.sessions.picker_info("s1").node_count == 4


@pytest.mark.scenario("GRA-T3")
def test_an_append_of_identical_nodes_makes_no_rows(store: Any) -> None:
    nodes = [message("a", parent_node_id=None), message("b", parent_node_id="a")]
    put(store, "s1", graph=Append(nodes))
    before = store.sessions.list_nodes("s1").nodes

    put(store, "s1", graph=Append(nodes))

    assert store.sessions.list_nodes("s1").nodes == before
    assert store.sessions.picker_info("s1").node_count == 2


@pytest.mark.invariant("INV-23")
@pytest.mark.scenario("GRA-T3")
def test_a_changed_body_under_a_known_id_is_a_conflict_and_leaves_no_trace(store: Any) -> None:
    put(store, "s1", graph=chain("a", "b"), config={"version": 1})
    changed = Append([message("c", parent_node_id="b"), message("b", "other", parent_node_id="a")])

    with pytest.raises(GraphNodeConflict) as refused:
        put(store, "s1", graph=changed, config={"version": 2})

    assert (refused.value.session_id, refused.value.node_id) == ("s1", "b")
    loaded = store.sessions.load("s1", scope="full_graph")
    assert [node.node_id for node in loaded.graph.nodes] == ["a", "b"]
    assert (loaded.head_revision, loaded.config) == (1, {"version": 1})


@pytest.mark.scenario("GRA-T3")
@pytest.mark.parametrize(
    "change",
    [
        {"kind": "note"},
        {"caused_by": {"tool": 1}},
        {"agent_frame_id": "f"},
        {"parent_node_id": None},
    ],
    ids=lambda change: next(iter(change)),
)
def test_whatever_counts_for_identity_makes_another_node(
    store: Any, change: dict[str, Any]
) -> None:
    put(store, "s1", graph=chain("a", "b"))
    again = message("b", "b", **{"parent_node_id": "a"} | change)

    with pytest.raises(GraphNodeConflict):
        put(store, "s1", graph=Append([again]))


@pytest.mark.scenario("GRA-T3")
def test_role_preview_and_time_do_not_count_for_identity(store: Any) -> None:
    put(store, "s1", graph=chain("a", "b"))
    again = message("b", "b", parent_node_id="a", preview="p", at_us=1)

    put(store, "s1", graph=Append([again]))

    assert store.sessions.load_node("s1", "b").preview is None


@pytest.mark.scenario("GRA-T4")
@pytest.mark.parametrize(
    ("graph", "node_id", "reason"),
    [
        (under("nobody", "x"), "x", "unknown_parent"),
        (
            Append([message("x", parent_node_id="y"), message("y", parent_node_id=None)]),
            "x",
            "unknown_parent",
        ),
        (under("hidden", "x"), "x", "tombstoned_parent"),
        (under("x", "x"), "x", "self_parent"),
        (under("a", "x", "x"), "x", "duplicate_in_delta"),
        (chain("x", "y", "x"), "x", "duplicate_in_delta"),
    ],
)
def test_a_broken_list_is_refused(store: Any, graph: Append, node_id: str, reason: str) -> None:
    put(store, "s1", graph=chain("a", "hidden"))
    put(store, "s1", graph=Unchanged("a"))
    store.sessions.tombstone("s1", ["hidden"])

    with pytest.raises(GraphIntegrity) as refused:
        put(store, "s1", graph=graph)

    assert (refused.value.node_id, refused.value.reason) == (node_id, reason)
    assert full_ids(store) == ["a"]


@pytest.mark.scenario("GRA-T4")
def test_a_tombstoned_parent_is_fine_when_the_list_shows_it_again(store: Any) -> None:
    put(store, "s1", graph=chain("a", "b"))
    store.sessions.tombstone("s1", ["b"])

    put(store, "s1", graph=Append([message("b", "b", parent_node_id="a"), message("c")]))

    assert path_ids(store) == ["a", "b", "c"]


@pytest.mark.invariant("INV-21")
@pytest.mark.scenario("GRA-T5")
def test_a_replaced_graph_may_not_run_in_a_circle(store: Any) -> None:
    put(store, "s1", graph=chain("a"))
    circle = [message("x", parent_node_id="y"), message("y", parent_node_id="x")]

    with pytest.raises(GraphIntegrity) as refused:
        put(store, "s1", graph=ReplaceFull(circle))

    assert refused.value.reason == "cycle"
    assert path_ids(store) == ["a"]


@pytest.mark.scenario("GRA-T5")
def test_a_replaced_graph_may_miss_a_parent(store: Any) -> None:
    put(store, "s1", graph=chain("a", "b"))

    put(store, "s1", graph=ReplaceFull([message("x", parent_node_id="a"), message("y")]))

    loaded = store.sessions.load("s1")
    assert [node.node_id for node in loaded.graph.nodes] == ["x", "y"]
    assert (loaded.graph.nodes[0].parent_node_id, loaded.more) == ("a", False)


@pytest.mark.invariant("INV-22")
def test_a_replaced_graph_drops_tombstones_and_numbers_above_all_used_before(store: Any) -> None:
    put(store, "s1", graph=chain("a", "b", "c"))
    store.sessions.tombstone("s1", ["c"])

    put(store, "s1", graph=ReplaceFull([message("c", "new"), message("a")]))

    nodes = store.sessions.list_nodes("s1").nodes
    assert [(node.node_id, node.sequence) for node in nodes] == [("c", 4), ("a", 5)]


def test_a_replaced_graph_may_list_children_before_their_parents(store: Any) -> None:
    backwards = [
        message("c", parent_node_id="b"),
        message("b", parent_node_id="a"),
        message("a", parent_node_id=None),
    ]

    put(store, "s1", graph=ReplaceFull(backwards, leaf="c"))

    assert path_ids(store) == ["a", "b", "c"]
    assert full_ids(store) == ["c", "b", "a"]


@pytest.mark.invariant("INV-20")
@pytest.mark.scenario("GRA-T6")
@pytest.mark.parametrize(
    "graph",
    [
        Unchanged("nobody"),
        Unchanged("hidden"),
        Append([message("x")], leaf="nobody"),
        Append([message("x")], leaf="hidden"),
        ReplaceFull([message("x")], leaf="a"),
    ],
    ids=str,
)
def test_a_leaf_that_is_not_in_the_result_is_refused(store: Any, graph: Any) -> None:
    put(store, "s1", graph=chain("a", "hidden"))
    put(store, "s1", graph=Unchanged("a"))
    store.sessions.tombstone("s1", ["hidden"])

    with pytest.raises(GraphIntegrity) as refused:
        put(store, "s1", graph=graph)

    assert refused.value.reason == "unknown_leaf"
    assert path_ids(store) == ["a"]


@pytest.mark.scenario("GRA-T6")
@pytest.mark.parametrize("graph", [Unchanged(), Unchanged("b")], ids=["kept", "repeated"])
def test_a_tombstoned_leaf_may_stay_the_leaf(store: Any, graph: Unchanged) -> None:
    put(store, "s1", graph=chain("a", "b"))
    store.sessions.tombstone("s1", ["b"])

    put(store, "s1", graph=graph)

    loaded = store.sessions.load("s1")
    assert (loaded.graph.leaf_node_id, loaded.head_revision) == ("b", 2)


@pytest.mark.scenario("GRA-T13")
def test_an_identical_append_revives_a_tombstoned_node_with_its_sequence(store: Any) -> None:
    put(store, "s1", graph=chain("a", "b", "c"))
    store.sessions.tombstone("s1", ["b"])

    put(store, "s1", graph=Append([message("b", "b", parent_node_id="a")], leaf="c"))

    assert path_ids(store) == ["a", "b", "c"]
    assert store.sessions.load_node("s1", "b").sequence == 2
    assert store.sessions.picker_info("s1").node_count == 3


@pytest.mark.invariant("INV-23")
@pytest.mark.scenario("GRA-T13")
def test_a_vacuumed_node_is_not_revived_but_new(store: Any) -> None:
    put(store, "s1", graph=chain("a", "b"))
    put(store, "s1", graph=Unchanged("a"))
    store.sessions.tombstone("s1", ["b"])
    store.sessions.vacuum("s1")

    put(store, "s1", graph=Append([message("b", "other", parent_node_id="a")]))

    assert store.sessions.load_node("s1", "b").sequence == 3


@pytest.mark.scenario("GRA-T17")
def test_the_current_leaf_of_an_empty_session_is_none(store: Any) -> None:
    put(store, "s1", graph=under(CURRENT_LEAF, "a"))

    assert store.sessions.load_node("s1", "a").parent_node_id is None


@pytest.mark.scenario("GRA-T17")
def test_the_first_node_may_follow_the_current_leaf(store: Any) -> None:
    put(store, "s1", graph=chain("a"))

    put(store, "s1", graph=under(CURRENT_LEAF, "b"))

    assert store.sessions.load_node("s1", "b").parent_node_id == "a"


@pytest.mark.scenario("GRA-T17")
def test_a_later_node_may_not_follow_the_current_leaf(store: Any) -> None:
    second = [Node(node_id="a", body=1), Node(node_id="b", body=2, parent_node_id=CURRENT_LEAF)]

    with pytest.raises(InvalidArgument) as refused:
        put(store, "s1", graph=Append(second))

    assert refused.value.field == "graph.nodes[1].parent_node_id"
    assert store.sessions.load("s1") is None


def test_a_branch_switch_is_a_commit_without_nodes(store: Any) -> None:
    put(store, "s1", graph=chain("a", "b"))
    lease = lease_on(store, "s1")

    store.sessions.commit(commit("s1", session_execution_lease=lease, graph=Unchanged("a")))

    assert path_ids(store) == ["a"]
    assert full_ids(store) == ["a", "b"]


@pytest.mark.parametrize(
    "content", [{}, {"agent_frames": [], "current_agent_frame_id": ""}], ids=["light", "whole"]
)
def test_replacements_do_not_pile_up(
    world: World, store: Any, content: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    branch = Append([message("z", parent_node_id="a")])
    for number in range(5):
        nodes = [message(each, str(number)) for each in "abc"]
        put(store, "s1", graph=ReplaceFull(nodes), **content)
        put(store, "s1", graph=branch)
    assert world.sql(store, "SELECT count(*) FROM {node}") == [(4,)]
    assert world.sql(store, "SELECT count(*) FROM {branch}") == [(2,)]

    store.sessions.fork("s1", SessionCreate(session_id="fork"), leaf="b")
    monkeypatch.setattr("holdfast.rules.replacing.MAX_DROPPED", 1)
    put(store, "s1", graph=ReplaceFull([message("a", "last")]), **content)
    assert path_ids(store, "fork") == ["a", "b"]
    assert full_ids(store) == ["a"]
    # Of `c` and `z` one is left, whichever it is.
    assert world.sql(store, "SELECT count(*) FROM {node}") == [(4,)]

    store.maintenance.vacuum()
    assert world.sql(store, "SELECT count(*) FROM {node}") == [(3,)]
    assert path_ids(store, "fork") == ["a", "b"]
