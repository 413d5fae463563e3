"""Section 4, summaries: what a listing says about the user messages of a session (MET-8)."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast import Append, Node, ReplaceFull, SessionCreate, Splice, Unchanged
from holdfast.testing.contract.samples import chain, message, put


def summary(store: Any, session_id: str = "s1") -> tuple[int, str]:
    """How many user messages a session has, and the first one's text."""
    line = store.sessions.picker_info(session_id)
    return line.user_message_count, line.first_user_message


@pytest.mark.scenario("MET-T5")
def test_it_covers_every_branch(store: Any) -> None:
    put(store, "s1", graph=Append([message("root", "setup", role="system")]))
    put(store, "s1", graph=chain("on one branch"))
    other = message("x", "on the other", parent_node_id="root")
    put(store, "s1", graph=Append([other, message("y", "answer", role="assistant")]))

    assert summary(store) == (2, "on one branch")
    put(store, "s1", graph=Unchanged("root"))
    assert summary(store) == (2, "on one branch")


@pytest.mark.scenario("MET-T5")
def test_the_first_text_is_the_earliest_inserted_not_the_nearest_to_the_root(store: Any) -> None:
    nodes = [message("root", "setup", role="system"), message("mid", "m", role="assistant")]
    put(store, "s1", graph=Append([*nodes, message("deep", "deep but early")]))

    put(store, "s1", graph=Append([message("near", "late", parent_node_id="root")]))

    assert summary(store) == (2, "deep but early")


@pytest.mark.scenario("MET-T6")
def test_the_text_leaves_tools_out_and_names_attachments(store: Any) -> None:
    parts = [
        {"type": "text", "text": "  one "},
        {"type": "tool_call", "text": "call"},
        {"type": "tool_result", "content": "result"},
        {"type": "attachment", "text": "bytes"},
        {"type": "text", "text": " \n\t "},
        {"type": "text", "text": "two\n"},
    ]
    body = {"role": "user", "parts": parts}

    put(store, "s1", graph=Append([Node(node_id="a", body=body)]))

    assert summary(store) == (1, "one \n\n[Attachment]\n\ntwo")


@pytest.mark.scenario("MET-T6")
def test_the_text_is_cut_to_500_characters(store: Any) -> None:
    put(store, "s1", graph=Append([message("a", " " + "é👋" * 300)]))

    assert summary(store) == (1, "é👋" * 250)


TEXTLESS: list[dict[str, Any]] = [
    {},
    {"parts": []},
    {"parts": "text"},
    {"parts": [None, 1, {}, {"type": "text"}, {"text": 5}]},
    {"parts": [{"type": "tool_result", "text": "result"}]},
]


def test_a_user_message_without_text_counts_and_shows_nothing(store: Any) -> None:
    for number, body in enumerate(TEXTLESS):
        textless = Node(node_id="a", body={"role": "user"} | body)
        put(store, f"s{number}", graph=Append([textless, message("b", "later")]))

        assert summary(store, f"s{number}") == (2, "")


def test_a_nul_in_a_message_does_not_keep_it_from_being_listed(store: Any) -> None:
    put(store, "s1", graph=Append([message("a", "a\0b")]))

    assert summary(store) == (1, "a\ufffdb")


def test_what_is_no_user_message_does_not_count(store: Any) -> None:
    bodies: list[Any] = [None, [], "user", {}, {"role": ["user"]}, {"role": "User"}]
    nodes = [Node(node_id=str(number), body=body) for number, body in enumerate(bodies)]
    note = Node(node_id="note", kind="note", body={"role": "user"})

    put(store, "s1", graph=Append([*nodes, note]))

    assert summary(store) == (0, "")


@pytest.mark.invariant("INV-24")
@pytest.mark.scenario("MET-T8")
def test_after_the_first_message_is_hidden_it_shows_the_next(store: Any) -> None:
    put(store, "s1", graph=chain("first", "second", "third"))

    store.sessions.tombstone("s1", ["first"])

    (line,) = store.sessions.list().sessions
    assert (line.user_message_count, line.first_user_message) == (2, "second")
    assert line.node_count == 2
    assert summary(store) == (2, "second")


@pytest.mark.scenario("MET-T8")
def test_a_vacuum_changes_nothing_in_it(store: Any) -> None:
    put(store, "s1", graph=chain("first", "second"))
    store.sessions.tombstone("s1", ["first"])

    store.sessions.vacuum("s1")

    assert summary(store) == (1, "second")


def test_a_message_shown_again_is_the_first_again(store: Any) -> None:
    put(store, "s1", graph=chain("first", "second"))
    store.sessions.tombstone("s1", ["first"])

    first = message("first", "first", parent_node_id=None)
    put(store, "s1", graph=Append([first], leaf="second"))

    assert summary(store) == (2, "first")


def test_what_is_hidden_behind_the_first_leaves_its_text(store: Any) -> None:
    put(store, "s1", graph=chain("first", "second"))

    store.sessions.tombstone("s1", ["second"])

    assert summary(store) == (1, "first")


def test_it_is_empty_without_messages(store: Any) -> None:
    put(store, "s1", graph=chain("first", "second"))

    store.sessions.tombstone("s1", ["first", "second"])

    assert summary(store) == (0, "")


@pytest.mark.invariant("INV-24")
def test_a_splice_takes_its_messages_out(store: Any) -> None:
    put(store, "s1", graph=chain("first", "second"))

    put(store, "s1", graph=Splice(0, [message("third", "third")]))

    assert summary(store) == (1, "third")


def test_a_replaced_graph_has_a_summary_of_its_own(store: Any) -> None:
    put(store, "s1", graph=chain("first", "second"))

    put(store, "s1", graph=ReplaceFull([message("second", "other")]))

    assert summary(store) == (1, "other")


def test_a_fork_counts_its_own_path(store: Any) -> None:
    put(store, "s1", graph=chain("first", "second"))
    store.sessions.tombstone("s1", ["first"])
    put(store, "s1", graph=Append([message("side", "side", parent_node_id=None)], "second"))

    store.sessions.fork("s1", SessionCreate(session_id="s2"))

    assert summary(store, "s2") == (1, "second")
