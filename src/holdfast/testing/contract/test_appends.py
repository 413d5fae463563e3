"""EXT-5: an append that may be repeated by a caller who lost the answer."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast import Append, GraphIntegrity, GraphNodeConflict, InvalidArgument, SessionCreate
from holdfast.testing.clock import ManualClock
from holdfast.testing.contract.samples import chain, full_ids, message, path_ids, put


@pytest.mark.scenario("EXT-T5")
def test_a_repeated_append_leaves_what_others_appended_alone(
    store: Any, clock: ManualClock
) -> None:
    put(store, "s1", graph=chain("a", "b"), expected_head_revision=0)
    put(store, "s1", graph=chain("c"))
    before = store.sessions.picker_info("s1")
    clock.advance(1_000)

    again = put(store, "s1", graph=chain("a", "b"), expected_head_revision=0)

    assert (again.replayed, again.head_revision) == (True, 2)
    assert store.sessions.load("s1").graph.leaf_node_id == "c"
    assert path_ids(store) == ["a", "b", "c"]
    assert store.sessions.picker_info("s1") == before


@pytest.mark.scenario("EXT-T5")
def test_only_the_unknown_half_follows_the_current_leaf(store: Any) -> None:
    put(store, "s1", graph=chain("a", "b"))
    put(store, "s1", graph=chain("c"))

    result = put(store, "s1", graph=chain("a", "b", "d", "e"))

    assert (result.replayed, result.head_revision) == (False, 3)
    assert path_ids(store) == ["a", "b", "c", "d", "e"]


@pytest.mark.scenario("EXT-T5")
def test_changed_content_under_a_known_id_is_a_conflict(store: Any) -> None:
    put(store, "s1", graph=chain("a", "b"))

    with pytest.raises(GraphNodeConflict) as refused:
        put(store, "s1", graph=Append([message("b", "other"), message("c")]))

    assert refused.value.node_id == "b"
    assert full_ids(store) == ["a", "b"]


@pytest.mark.scenario("EXT-T5")
def test_with_skip_the_stored_content_stays(store: Any) -> None:
    put(store, "s1", graph=chain("a", "b"))

    put(store, "s1", graph=Append([message("b", "other"), message("c")], on_known="skip"))

    assert path_ids(store) == ["a", "b", "c"]
    assert store.sessions.load_node("s1", "b").body == message("b", "b").body


@pytest.mark.scenario("EXT-T5")
def test_parent_time_role_and_preview_do_not_make_a_known_node_another(store: Any) -> None:
    put(store, "s1", graph=chain("a", "b"))

    again = put(store, "s1", graph=Append([message("b", "b", at_us=5, preview="p")]))

    assert again.replayed


def test_a_known_node_on_another_branch_counts_as_known(store: Any) -> None:
    put(store, "s1", graph=chain("a", "b"))
    put(store, "s1", graph=Append([message("c", "c", parent_node_id="a")]))

    put(store, "s1", graph=chain("b", "d"))

    assert path_ids(store) == ["a", "c", "d"]


def test_what_comes_with_known_nodes_is_still_applied(store: Any) -> None:
    put(store, "s1", graph=chain("a"))

    result = put(store, "s1", graph=chain("a"), config={"model": "m"})

    assert (result.replayed, result.head_revision) == (False, 2)
    assert store.sessions.load("s1").config == {"model": "m"}


def test_nothing_follows_a_leaf_that_is_hidden(store: Any) -> None:
    put(store, "s1", graph=chain("a", "b"))
    store.sessions.tombstone("s1", ["b"])

    with pytest.raises(GraphIntegrity) as refused:
        put(store, "s1", graph=chain("c"))

    assert refused.value.reason == "tombstoned_parent"


def test_a_list_under_the_current_leaf_is_one_chain(store: Any) -> None:
    put(store, "s1", graph=chain("a", "b"))
    forked = [message("c"), message("d", parent_node_id="a")]

    with pytest.raises(InvalidArgument) as refused:
        put(store, "s1", graph=Append(forked))

    assert refused.value.field == "graph.nodes[1].parent_node_id"


@pytest.mark.scenario("EXT-T5")
@pytest.mark.parametrize("content", [{}, {"config": {"n": 1}}], ids=["bare", "with config"])
def test_what_a_fork_inherited_is_known_to_it(store: Any, content: dict[str, Any]) -> None:
    put(store, "source", graph=chain("a", "b"))
    store.sessions.fork("source", SessionCreate(session_id="s1"))

    with pytest.raises(GraphNodeConflict):
        put(store, "s1", graph=Append([message("b", "something else")]), **content)
    again = put(store, "s1", graph=chain("b"), **content)
    put(store, "s1", graph=chain("b", "c"), **content)

    assert again.replayed is not bool(content)
    assert path_ids(store) == full_ids(store) == ["a", "b", "c"]
