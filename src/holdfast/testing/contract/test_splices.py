"""EXT-6: taking nodes off the end of the active path for good."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from holdfast import (
    Append,
    HeadRevisionConflict,
    Node,
    Payload,
    SessionCreate,
    Splice,
)
from holdfast.testing.contract.samples import chain, full_ids, message, path_ids, put, spent
from holdfast.testing.world import World, racing

TEN = list("abcdefghij")


def removed(result: Any) -> list[str]:
    """The ids of what a splice removed."""
    return [node.node_id for node in result.removed_nodes]


@pytest.mark.scenario("EXT-T6")
def test_splices_return_what_they_remove_until_nothing_is_left(store: Any) -> None:
    put(store, "s1", graph=chain(*TEN))

    assert removed(put(store, "s1", graph=Splice(-1))) == ["j"]
    assert removed(put(store, "s1", graph=Splice(0))) == TEN[:9]
    assert removed(put(store, "s1", graph=Splice(0))) == []
    assert removed(put(store, "s1", graph=Splice(-1))) == []
    assert (path_ids(store), full_ids(store)) == ([], [])


@pytest.mark.scenario("EXT-T6")
def test_removed_ids_can_be_appended_again_with_other_content(store: Any) -> None:
    put(store, "s1", graph=chain(*TEN))
    put(store, "s1", graph=Splice(0))

    put(store, "s1", graph=chain(*reversed(TEN)))

    assert path_ids(store) == TEN[::-1]


@pytest.mark.scenario("EXT-T6")
def test_a_fork_made_before_still_reads_all(store: Any) -> None:
    put(store, "s1", graph=chain(*TEN))
    store.sessions.fork("s1", SessionCreate(session_id="s2"))

    put(store, "s1", graph=Splice(-1))
    put(store, "s1", graph=Splice(0))
    put(store, "s1", graph=chain(*reversed(TEN)))
    store.maintenance.vacuum()

    assert path_ids(store, "s2") == TEN
    assert path_ids(store) == TEN[::-1]


@pytest.mark.parametrize(
    ("keep", "left"), [(2, "ab"), (-2, "abc"), (5, "abcde"), (99, "abcde"), (-5, ""), (-99, "")]
)
def test_keep_counts_from_the_root_or_from_the_end(store: Any, keep: int, left: str) -> None:
    put(store, "s1", graph=chain(*"abcde"))

    result = put(store, "s1", graph=Splice(keep))

    assert path_ids(store) == list(left)
    assert removed(result) == list("abcde"[len(left) :])


def test_new_nodes_follow_what_is_kept(store: Any) -> None:
    put(store, "s1", graph=chain(*"abc"))

    put(store, "s1", graph=Splice(1, [message("c", "again"), message("d")]))

    assert path_ids(store) == ["a", "c", "d"]
    assert store.sessions.load_node("s1", "c").parent_node_id == "a"


def test_other_branches_stay(store: Any) -> None:
    put(store, "s1", graph=chain(*"abc"))
    put(store, "s1", graph=Splice(1))
    put(store, "s1", graph=chain(*"xy"))
    put(store, "s1", graph=Splice(-1, [message("z")]))

    assert full_ids(store) == ["a", "x", "z"]


def test_keep_counts_what_can_be_seen_of_the_path(store: Any) -> None:
    put(store, "s1", graph=chain(*"abcde"))
    store.sessions.tombstone("s1", ["b"])

    result = put(store, "s1", graph=Splice(1))

    assert removed(result) == ["d", "e"]
    assert path_ids(store) == ["c"]


def test_all_but_the_path_stays_after_an_empty_splice(store: Any) -> None:
    put(store, "s1", graph=chain("a"), config={"model": "m"}, usage_deltas=[spent("chat")])

    put(store, "s1", graph=Splice(0))

    loaded = store.sessions.load("s1")
    assert (loaded.config, len(loaded.token_ledger)) == ({"model": "m"}, 1)
    assert (loaded.graph.leaf_node_id, loaded.leaf_missing) == (None, False)
    assert store.sessions.picker_info("s1").first_user_message == ""


def test_at_most_a_thousand_removed_nodes_are_returned(store: Any) -> None:
    put(store, "s1", graph=chain(*(f"n{number:04}" for number in range(1_005))))

    result = put(store, "s1", graph=Splice(0))

    assert removed(result) == [f"n{number:04}" for number in range(5, 1_005)]
    assert full_ids(store) == []


@pytest.mark.parametrize(
    "content", [{}, {"agent_frames": [], "current_agent_frame_id": ""}], ids=["light", "whole"]
)
@pytest.mark.parametrize("ways", [1, 2], ids=["one branch", "two branches"])
def test_removed_nodes_are_returned_as_far_as_their_bytes_go(
    store: Any, monkeypatch: pytest.MonkeyPatch, content: dict[str, Any], ways: int
) -> None:
    monkeypatch.setattr("holdfast.rules.splicing.MAX_RETURNED_BYTES", 100)
    sizes = {"a": 11, "b": 60, "c": 30, "d": 40, "e": 101, "f": 5, "g": 50, "h": 45}
    nodes = [Node(node_id=each, body=Payload(b"x" * size, "t")) for each, size in sizes.items()]
    put(store, "s1", graph=Append(nodes[:4]))
    if ways == 2:
        put(store, "s1", graph=Append([message("side", parent_node_id="b")], leaf="d"))
        put(store, "s1", graph=Append([message("d2", parent_node_id="c")], leaf="c"))
        put(store, "s1", graph=Append([msgspec.structs.replace(nodes[3], node_id="d3")]))
    put(store, "s1", graph=Append(nodes[4:]))

    answers = [removed(put(store, "s1", graph=Splice(4), **content))]
    put(store, "s1", graph=Append([nodes[4]]))
    answers.append(removed(put(store, "s1", graph=Splice(-2), **content)))
    answers.append(removed(put(store, "s1", graph=Splice(-3), **content)))

    assert answers == [["f", "g", "h"], ["e"], ["b", "c"]]
    assert path_ids(store) == []


def test_a_cause_weighs_as_a_body_does(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.rules.splicing.MAX_RETURNED_BYTES", 100)
    put(store, "s1", graph=Append([message("a"), Node(node_id="b", body=1, caused_by="x" * 96)]))
    put(store, "s1", graph=Append([Node(node_id="c", body=1)]))

    assert removed(put(store, "s1", graph=Splice(0))) == ["b", "c"]


@pytest.mark.invariant("INV-27")
@pytest.mark.scenario("EXT-T7")
def test_a_thousand_rounds_of_pop_and_append_make_no_read_slower(world: World, store: Any) -> None:
    put(store, "s1", graph=chain("a", "b"))
    put(store, "s1", graph=Splice(-1, [message("n0")]))
    once = _cost_of_a_read(world, store)

    for number in range(1, 1_000):
        put(store, "s1", graph=Splice(-1, [message(f"n{number}")]))

    assert _cost_of_a_read(world, store) == once
    assert path_ids(store) == ["a", "n999"]


@pytest.mark.scenario("EXT-T7")
def test_nor_do_they_where_a_fork_keeps_what_was_popped_first(world: World, store: Any) -> None:
    put(store, "s1", graph=chain("a", "b"))
    store.sessions.fork("s1", SessionCreate(session_id="s2"))
    put(store, "s1", graph=Splice(-1))
    put(store, "s1", graph=chain("n0"))
    once = _cost_of_a_read(world, store)

    for number in range(1, 50):
        put(store, "s1", graph=Splice(-1))
        put(store, "s1", graph=chain(f"n{number}"))

    assert _cost_of_a_read(world, store) == once
    assert (path_ids(store), path_ids(store, "s2")) == (["a", "n49"], ["a", "b"])


def _cost_of_a_read(world: World, store: Any) -> tuple[int, list[int]]:
    """How many statements a load takes, and how many branches and hidden nodes there are."""
    before = world.backend(store).counts.total()
    store.sessions.load("s1")
    taken = world.backend(store).counts.total() - before
    rows = world.dump(store)
    return taken, [len(rows[each]) for each in ("branch", "hidden", "node")]


@pytest.mark.scenario("EXT-T8")
def test_of_two_splices_with_one_expectation_one_applies(store: Any) -> None:
    put(store, "s1", graph=chain(*TEN))

    def pop(_: int) -> Any:
        return put(store, "s1", graph=Splice(-1), expected_head_revision=1)

    won, lost = sorted(racing(2, pop), key=lambda answer: isinstance(answer, Exception))

    assert removed(won) == ["j"]
    assert isinstance(lost, HeadRevisionConflict)
    assert (lost.expected, lost.actual) == (1, 2)
    assert path_ids(store) == TEN[:9]
