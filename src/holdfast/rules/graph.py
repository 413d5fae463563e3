"""Branches and positions: what a delta is judged by, and what it changes (GRA-5 to GRA-8).

A **branch** is a run of nodes with consecutive ordinals; it leaves its parent branch after
`base` nodes. A **position** is (branch, length): the first `length` nodes met when the branch
and its ancestors are read from the root. The head of a session is a position, a fork shares
one, and an ordinal is a depth, so "the last n" is a range. Only a branch's owner appends to
it, and only where it ends; everybody else opens a new branch at their position.

What a session may no longer see of nodes it shares is *hidden* for that session alone:
tombstoned (still there for identity, may be revived) or gone.

Here are the records: what the section's reads found, and what is to be written. Which parent a
node of a delta means is said by `parents`, where its nodes go by `placing`, `splicing` and
`replacing`. None of them knows SQL.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from holdfast.model.graph import Node
from holdfast.model.values import CurrentLeaf

#: A path may hold this many nodes: SQLite packs (branch, ordinal) into one integer key.
MAX_PATH_LENGTH = 1 << 28


class Position(msgspec.Struct, frozen=True):
    """The first `length` nodes along a branch; no branch means no nodes."""

    branch: int | None
    length: int
    leaf_id: str | None


EMPTY = Position(None, 0, None)


class Known(msgspec.Struct, frozen=True):
    """A node this session stores, tombstoned ones included."""

    node_id: str
    branch: int
    ordinal: int
    tombstoned: bool
    #: Whether the session may append to the branch right behind this node.
    extendable: bool
    parent_id: str | None
    #: What GRA-6 compares, without the parent; none for a node the delta does not name.
    identity: tuple[object, ...] | None
    user_text: str | None


class Stock(msgspec.Struct, frozen=True):
    """What a session stores under the ids a delta names, and under its leaf's."""

    nodes: Mapping[str, Known]
    #: Branches that still hold a node of this id which the session sees no more.
    gone: Mapping[str, frozenset[int]]


class Draft(msgspec.Struct, frozen=True):
    """A node of a delta with its parent spelled out and its content encoded."""

    node: Node
    parent: str | None | CurrentLeaf
    identity: tuple[object, ...]
    #: The node's own columns, from `kind` to `user_text`.
    columns: tuple[object, ...]
    user_text: str | None
    size: int


class Segment(msgspec.Struct, frozen=True):
    """The part of the active path that one branch contributes, leaf side first."""

    branch: int
    base: int
    upto: int
    owned: bool
    shared_upto: int
    #: The highest base of the branch's other children, 0 without any.
    other_base: int
    #: Whether the branch goes on behind this part.
    beyond: bool


class NewBranch(msgspec.Struct, frozen=True):
    """A branch to open."""

    id: int
    parent: int | None
    base: int


class Placed(msgspec.Struct, frozen=True):
    """A node to insert."""

    branch: int
    ordinal: int
    parent_id: str | None
    draft: Draft


class Tail(msgspec.Struct, frozen=True):
    """Ordinals of a branch that a splice removes, `upto` left out."""

    branch: int
    start: int
    upto: int
    drop_branch: bool = False


class Plan(msgspec.Struct, kw_only=True):
    """What a delta changes."""

    head: Position
    branches: list[NewBranch] = []
    placed: list[Placed] = []
    revived: list[Known] = []
    #: Removed in place, because nobody else can see them.
    deleted: list[Tail] = []
    #: Removed for this session alone.
    hidden: list[Tail] = []
    #: The whole stored graph is dropped first.
    detach: bool = False
    #: Every node was known already and nothing is to be written (EXT-5).
    replayed: bool = False
