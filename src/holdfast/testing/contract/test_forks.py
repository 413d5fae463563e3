"""Section 5.6: sessions that begin with the path of another one, and share it."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast import (
    AmbiguousNode,
    Append,
    Fork,
    GraphNodeNotFound,
    InvalidArgument,
    ReplaceFull,
    SessionCreate,
    Splice,
)
from holdfast.testing.contract.samples import (
    chain,
    checkpoint,
    full_ids,
    lease_on,
    message,
    path_ids,
    put,
    spent,
)
from holdfast.testing.world import World

ROLES = {"tool_state": b"t", "plugin_snapshot": b"p", "execution_state": b"e", "other": b"o"}


def fork(store: Any, target: str = "s2", leaf: str | None = None) -> Any:
    """The first session's fork; its view."""
    return store.sessions.fork("s1", SessionCreate(session_id=target), leaf=leaf)


def find(store: Any, node_id: str) -> list[str] | None:
    """The ids of a path without its session."""
    found = store.sessions.find_path(node_id)
    return None if found is None else [node.node_id for node in found.nodes]


@pytest.mark.scenario("GRA-T14")
def test_a_fork_begins_with_exactly_the_path_to_its_node(store: Any) -> None:
    put(store, "s1", graph=chain("a", "b", "c"), config={"model": "m"})
    put(store, "s1", graph=Append([message("side", parent_node_id="a")], leaf="c"))

    fork(store, leaf="b")

    loaded = store.sessions.load("s2")
    assert full_ids(store, "s2") == ["a", "b"]
    assert (loaded.graph.leaf_node_id, loaded.head_revision) == ("b", 1)
    assert loaded.config == {"model": "m"}
    assert store.sessions.load_meta("s2").relation == Fork("s1", "b", 2)


@pytest.mark.scenario("GRA-T14")
def test_a_fork_has_checkpoint_and_frames_and_survives_its_source(store: Any) -> None:
    old = put(store, "s1", checkpoint=checkpoint(1, execution_state=b"old")).component_refs
    frames = [{"frame_id": "f1", "execution_state_ref": old["execution_state"]}, {"frame_id": "f2"}]
    put(
        store,
        "s1",
        graph=chain("a", "b", "c"),
        checkpoint=checkpoint(2, **ROLES),
        agent_frames=frames,
        current_agent_frame_id="f2",
    )
    before = store.sessions.load("s1")
    fork(store, leaf="b")

    store.sessions.delete("s1")
    store.maintenance.vacuum()
    store.maintenance.collect_garbage()

    loaded = store.sessions.load("s2")
    assert path_ids(store, "s2") == ["a", "b"]
    assert loaded.checkpoint == before.checkpoint
    assert loaded.checkpoint.components == ROLES
    assert (loaded.agent_frames, loaded.current_agent_frame_id) == (before.agent_frames, "f2")
    assert store.blobs.get(old["execution_state"]) == b"old"


@pytest.mark.scenario("GRA-T14")
def test_the_source_of_a_fork_is_unchanged(store: Any) -> None:
    put(store, "s1", graph=chain("a", "b", "c"), checkpoint=checkpoint(1, **ROLES))
    before = store.sessions.load("s1"), store.sessions.load_meta("s1")

    fork(store, leaf="b")
    put(store, "s2", graph=chain("x"))

    assert (store.sessions.load("s1"), store.sessions.load_meta("s1")) == before
    assert path_ids(store, "s2") == ["a", "b", "x"]


@pytest.mark.invariant("INV-25")
def test_a_fork_stores_no_node_again(world: World, store: Any) -> None:
    put(store, "s1", graph=chain("a", "b", "c"))

    fork(store)
    store.sessions.fork("s2", SessionCreate(session_id="s3"), leaf="b")

    assert world.sql(store, "SELECT count(*) FROM {node}") == [(3,)]
    assert path_ids(store, "s3") == ["a", "b"]


def test_usage_tag_and_lease_are_not_taken_over(store: Any) -> None:
    put(store, "s1", graph=chain("a"), head_tag="tag", usage_deltas=[spent("chat")])
    lease_on(store, "s1")

    view = fork(store)

    loaded = view.load()
    assert (loaded.token_ledger, loaded.head_tag) == ([], None)
    assert view.lease() is None


def test_a_fork_at_an_unknown_leaf_makes_nothing(store: Any) -> None:
    put(store, "s1", graph=chain("a"))

    with pytest.raises(GraphNodeNotFound):
        fork(store, leaf="nobody")

    assert store.sessions.open("s2") is None


def test_a_fork_into_a_known_session_is_refused(store: Any) -> None:
    put(store, "s1", graph=chain("a"))
    put(store, "s2", graph=chain("b"))

    with pytest.raises(InvalidArgument, match="session_exists"):
        fork(store)


def test_an_uncommitted_source_has_no_forks(store: Any) -> None:
    store.sessions.create(SessionCreate(session_id="s1"))

    assert fork(store) is None
    assert store.sessions.open("s2") is None


@pytest.mark.invariant("INV-25")
@pytest.mark.scenario("GRA-T16")
def test_tombstoning_and_vacuum_of_one_are_invisible_in_the_other(store: Any) -> None:
    put(store, "s1", graph=chain("a", "b", "c"))
    fork(store)

    store.sessions.tombstone("s1", ["b"])
    assert path_ids(store, "s2") == ["a", "b", "c"]
    store.maintenance.vacuum()

    assert path_ids(store, "s1") == ["c"]
    assert path_ids(store, "s2") == ["a", "b", "c"]
    assert store.sessions.picker_info("s2").node_count == 3


def test_what_one_shows_again_stays_hidden_in_the_other(store: Any) -> None:
    put(store, "s1", graph=chain("a", "b", "c"))
    fork(store)
    for session_id in ("s1", "s2"):
        store.sessions.tombstone(session_id, ["b"])

    put(store, "s1", graph=Append([message("b", "b")]), config={"n": 1})
    assert (full_ids(store, "s1"), full_ids(store, "s2")) == (["a", "b", "c"], ["a", "c"])

    store.sessions.tombstone("s1", ["b"])
    put(store, "s2", graph=Append([message("b", "b")]), config={"n": 1})
    assert (full_ids(store, "s1"), full_ids(store, "s2")) == (["a", "c"], ["a", "b", "c"])


@pytest.mark.invariant("INV-25")
@pytest.mark.scenario("GRA-T16")
@pytest.mark.parametrize(
    "graph", [ReplaceFull([message("b", "new")]), Splice(0)], ids=["replaced", "spliced"]
)
def test_a_rewritten_source_is_invisible_in_the_fork(store: Any, graph: Any) -> None:
    put(store, "s1", graph=chain("a", "b", "c"))
    fork(store)

    put(store, "s1", graph=graph)
    store.maintenance.vacuum()

    assert path_ids(store, "s2") == ["a", "b", "c"]
    assert store.sessions.load_node("s2", "b").body == message("b", "b").body


@pytest.mark.scenario("GRA-T16")
def test_a_rewritten_fork_is_invisible_in_the_source(store: Any) -> None:
    put(store, "s1", graph=chain("a", "b", "c"))
    fork(store)

    store.sessions.tombstone("s2", ["a"])
    put(store, "s2", graph=Splice(0))
    store.maintenance.vacuum()
    store.sessions.delete("s2")
    store.maintenance.vacuum()

    assert path_ids(store, "s1") == ["a", "b", "c"]


@pytest.mark.scenario("EXT-T4")
@pytest.mark.parametrize("deleted", ["s1", "s2"])
def test_a_shared_path_is_found_as_long_as_one_session_has_it(store: Any, deleted: str) -> None:
    put(store, "s1", graph=chain("a", "b", "c"))
    fork(store)

    store.sessions.delete(deleted)
    store.maintenance.vacuum()

    assert find(store, "b") == ["a", "b"]


@pytest.mark.scenario("EXT-T4")
def test_a_path_nobody_has_any_more_is_not_found(store: Any) -> None:
    put(store, "s1", graph=chain("a", "b", "c"))
    fork(store)

    store.sessions.delete("s1")
    store.sessions.delete("s2")

    assert find(store, "b") is None


def test_one_id_for_two_nodes_is_ambiguous_however_many_share_one_of_them(store: Any) -> None:
    put(store, "s1", graph=chain("a"))
    for number in range(12):
        fork(store, f"fork-{number:02}")
    put(store, "z", graph=chain("a"))

    with pytest.raises(AmbiguousNode) as refused:
        store.sessions.find_path("a")

    assert refused.value.node_id == "a"
    assert "z" in refused.value.session_ids
    assert len(refused.value.session_ids) <= 10


def test_a_found_path_may_be_cut_to_its_last_nodes(store: Any) -> None:
    put(store, "s1", graph=chain("a", "b", "c"))

    found = store.sessions.find_path("c", last=2)

    assert [node.node_id for node in found.nodes] == ["b", "c"]
    assert found.more
