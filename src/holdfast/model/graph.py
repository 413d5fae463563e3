"""The conversation graph: nodes, the deltas that change it, and what reads return."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from holdfast.model.values import KEEP, PREVIOUS, CurrentLeaf, JsonValue, Keep, Payload, Previous


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """One node, as given to a delta and as read back.

    `sequence` is the store's: left out in a draft, present in everything read.
    """

    node_id: str
    body: JsonValue | Payload
    parent_node_id: str | None | CurrentLeaf | Previous = PREVIOUS
    kind: str = "message"
    caused_by: JsonValue | None = None
    agent_frame_id: str | None = None
    role: str | None = None
    preview: str | None = None
    at_us: int | None = None
    sequence: int | None = None


class Unchanged(msgspec.Struct, frozen=True):
    """No node changes; with a leaf (or none) the head moves there."""

    leaf: str | None | Keep = KEEP


class Append(msgspec.Struct, frozen=True):
    """Add nodes in order; the leaf becomes the last of them unless one is named.

    A node without a parent of its own follows the one before it, the first one the current
    leaf. In a list that begins under the current leaf every node has to.
    """

    nodes: tuple[Node, ...] | list[Node]
    leaf: str | None | Keep = KEEP
    on_known: str = "conflict"


class ReplaceFull(msgspec.Struct, frozen=True):
    """Drop every node of the session and store this list instead."""

    nodes: tuple[Node, ...] | list[Node]
    leaf: str | None | Keep = KEEP


class Splice(msgspec.Struct, frozen=True):
    """Keep the first `keep` nodes of the active path, drop the rest, then append `nodes`."""

    keep: int
    nodes: tuple[Node, ...] | list[Node] = ()
    on_known: str = "conflict"


GraphDelta: TypeAlias = Unchanged | Append | ReplaceFull | Splice


class Graph(msgspec.Struct, frozen=True):
    """Nodes in reading order, and the leaf they lead to."""

    nodes: list[Node]
    leaf_node_id: str | None


class Path(msgspec.Struct, frozen=True):
    """A path without its session: root first; `more` says whether older nodes were left out."""

    nodes: list[Node]
    more: bool
