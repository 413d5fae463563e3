"""Which commits are light (EXT-7): so plain that one statement can do all of it.

This says only what a commit *is*. Whether it applies is judged where every commit is judged; the
statement merely declines whatever is not the plain case.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from holdfast.model.graph import GraphDelta, ReplaceFull, Splice
from holdfast.model.values import CURRENT_LEAF, Keep
from holdfast.rules.commits import Prepared
from holdfast.rules.graph import Draft

MAX_NODES = 200


class Shape(NamedTuple):
    """Where a light delta's one chain of nodes starts."""

    #: `leaf`, `node` (the anchor) or `root`.
    start: str
    anchor: str | None = None
    #: Of a splice.
    keep: int | None = None
    #: Whether the stored graph is dropped first.
    detach: bool = False


def shape_of(prepared: Prepared) -> Shape | None:
    """The shape of a light commit; none where the commit is more than that."""
    commit = prepared.commit
    if not prepared.carries_only_head:
        return None
    if commit.create is not None and commit.create.start_at is not None:
        return None
    if len(prepared.drafts) > MAX_NODES or not _is_chain(prepared.drafts):
        return None
    return _shape(commit.graph, prepared.drafts)


def _shape(delta: GraphDelta, drafts: list[Draft]) -> Shape | None:
    if isinstance(delta, Splice):
        return Shape("leaf", keep=delta.keep)
    if not drafts and not isinstance(delta, ReplaceFull):
        return _moved(delta.leaf)
    last = drafts[-1].node.node_id if drafts else None
    if not isinstance(delta.leaf, Keep) and delta.leaf != last:
        return None
    if isinstance(delta, ReplaceFull):
        is_root = not drafts or drafts[0].parent is None
        return Shape("root", detach=True) if is_root else None
    return _behind(drafts[0].parent)


def _moved(leaf: str | None | Keep) -> Shape:
    if isinstance(leaf, Keep):
        return Shape("leaf")
    return Shape("root") if leaf is None else Shape("node", leaf)


def _behind(parent: Any) -> Shape:
    if parent is CURRENT_LEAF:
        return Shape("leaf")
    return Shape("root") if parent is None else Shape("node", parent)


def _is_chain(drafts: list[Draft]) -> bool:
    """Whether every node follows the one before it, each id once."""
    ids = [draft.node.node_id for draft in drafts]
    if len(set(ids)) != len(ids):
        return False
    return all(draft.parent == before for draft, before in zip(drafts[1:], ids, strict=False))
