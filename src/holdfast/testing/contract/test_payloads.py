"""EXT-1 to EXT-3: opaque payloads, any kind, and what a caller says about a node."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast import Append, GraphNodeConflict, InvalidArgument, Node, Payload
from holdfast.testing.contract.samples import message, put

PAYLOADS = {
    "lone-surrogate": Payload(b'{"text": "\\ud800"}', tag="json"),
    "nan": Payload("[NaN, Infinity, -0.0]", tag="json"),
    "repeated": Payload('{"a": 1, "a": 2}', tag="x/json"),
    "blanks": Payload("{ }  \n\t ", tag="json"),
    "random": Payload(bytes(range(256)) * 3 + b"\x00\xff\x00", tag="bytes"),
    "nul": Payload("a\x00b", tag="text"),
    "pickled": Payload(b"cos\nabort\n(tR.", tag="pickle"),  # whoever loads it ends
    "empty": Payload(b"", tag="pickled"),
    "long-tag": Payload("é", tag="t" * 64),
}


@pytest.mark.invariant("INV-9", "INV-30")
@pytest.mark.scenario("EXT-T1")
@pytest.mark.parametrize("payload", PAYLOADS.values(), ids=PAYLOADS)
def test_a_payload_comes_back_byte_for_byte(store: Any, payload: Payload) -> None:
    put(store, "s1", graph=Append([Node(node_id="a", body=payload)]), config=payload)

    loaded = store.sessions.load("s1")

    for found in (loaded.graph.nodes[0].body, loaded.config):
        assert type(found) is Payload
        assert type(found.data) is type(payload.data)
        assert (found.data, found.tag) == (payload.data, payload.tag)


@pytest.mark.invariant("INV-30")
@pytest.mark.scenario("EXT-T2")
@pytest.mark.parametrize("first", [0, 1], ids=["value-first", "payload-first"])
def test_a_payload_is_never_equal_to_a_value(store: Any, first: int) -> None:
    bodies = [{"a": 1}, Payload(b'{"a":1}', tag="json")]
    put(store, "s1", graph=Append([Node(node_id="a", body=bodies[first])]))

    with pytest.raises(GraphNodeConflict):
        put(store, "s1", graph=Append([Node(node_id="a", body=bodies[1 - first])]))


@pytest.mark.scenario("EXT-T2")
@pytest.mark.parametrize("other", [Payload(b"x", tag="u"), Payload(b"y", tag="t")], ids=str)
def test_payloads_differ_by_tag_and_by_bytes(store: Any, other: Payload) -> None:
    put(store, "s1", graph=Append([Node(node_id="a", body=Payload(b"x", tag="t"))]))

    with pytest.raises(GraphNodeConflict):
        put(store, "s1", graph=Append([Node(node_id="a", body=other)]))


@pytest.mark.parametrize("tag", ["", "t" * 65, "a\0b"], ids=["empty", "long", "nul"])
def test_a_tag_is_a_label(store: Any, tag: str) -> None:
    with pytest.raises(InvalidArgument):
        put(store, "s1", graph=Append([Node(node_id="a", body=Payload(b"", tag=tag))]))


@pytest.mark.scenario("EXT-T3")
def test_a_node_of_any_kind_with_a_role_and_a_preview_is_listed(store: Any) -> None:
    event = Node(
        node_id="a", body=Payload(b"\x80", tag="x"), kind="event", role="user", preview="Hello"
    )

    put(store, "s1", graph=Append([event]))

    line = store.sessions.picker_info("s1")
    assert (line.user_message_count, line.first_user_message) == (1, "Hello")


@pytest.mark.scenario("EXT-T3")
def test_a_given_role_counts_instead_of_the_body(store: Any) -> None:
    put(
        store,
        "s1",
        graph=Append(
            [
                message("a", "hello", role="user"),
            ]
        ),
    )
    put(store, "s1", graph=Append([_with_role(message("b", "hi", role="user"), "assistant")]))

    assert store.sessions.picker_info("s1").user_message_count == 1


def _with_role(node: Node, role: str) -> Node:
    return Node(node_id=node.node_id, body=node.body, role=role)


def test_what_a_caller_says_about_a_node_comes_back(store: Any) -> None:
    given = Node(
        node_id="a",
        body=None,
        kind="note",
        caused_by={"tool": "x"},
        agent_frame_id="f1",
        role="user",
        preview="p" * 501,
        at_us=-5,
    )

    put(store, "s1", graph=Append([given]))

    node = store.sessions.load_node("s1", "a")
    assert (node.kind, node.caused_by, node.agent_frame_id) == ("note", {"tool": "x"}, "f1")
    assert (node.role, node.preview, node.at_us) == ("user", "p" * 500, -5)


@pytest.mark.parametrize("kind", ["", "k" * 65, "a\0b"], ids=["empty", "long", "nul"])
def test_a_kind_is_a_label(store: Any, kind: str) -> None:
    with pytest.raises(InvalidArgument):
        put(store, "s1", graph=Append([Node(node_id="a", body=1, kind=kind)]))
