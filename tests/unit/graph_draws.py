"""Random deltas over a small pool of ids; many of them are refused."""

from __future__ import annotations

import random
from typing import Any

from holdfast import (
    CURRENT_LEAF,
    KEEP,
    PREVIOUS,
    Append,
    Node,
    ReplaceFull,
    Splice,
    Unchanged,
)
from tests.unit.graph_model import ModelSession

IDS = list("abcdefgh")


class Draws:
    """What a walk does next."""

    def __init__(self, source: random.Random) -> None:
        self.random = source

    def delta(self, session: ModelSession) -> Any:
        kinds = {self.chain: 30, self.tree: 26, self.splice: 22, self.unchanged: 14,
                 self.replace: 8}  # fmt: skip
        (draw,) = self.random.choices(list(kinds), list(kinds.values()))
        return draw(session)

    def leaf(self) -> Any:
        if self.random.random() < 0.75:
            return KEEP
        return self.random.choice([None, *IDS])

    def ids(self, least: int) -> list[str]:
        count = self.random.randint(least, 4)
        if self.random.random() < 0.05:
            return self.random.choices(IDS, k=count)
        return self.random.sample(IDS, k=count)

    def node(self, node_id: str, parent: Any) -> Node:
        text = node_id if self.random.random() < 0.9 else node_id + "!"
        role = "user" if node_id in "aceg" else "assistant"
        body = {"role": role, "parts": [{"type": "text", "text": text}]}
        return Node(node_id=node_id, body=body, parent_node_id=parent)

    def on_known(self) -> str:
        return self.random.choice(["conflict", "conflict", "skip"])

    def chain(self, _: ModelSession) -> Append:
        first = self.random.choice([PREVIOUS, CURRENT_LEAF])
        nodes = [self.node(each, PREVIOUS if i else first) for i, each in enumerate(self.ids(1))]
        return Append(nodes, self.leaf(), self.on_known())

    def tree(self, session: ModelSession) -> Append:
        nodes: list[Node] = []
        for node_id in self.ids(1):
            known = session._known(node_id)
            near = [node.node_id for node in nodes] + list(session.live) + [None]
            parent = self.random.choice(near if self.random.random() < 0.8 else IDS)
            if known is not None and self.random.random() < 0.6:
                parent = known.parent_id
            if nodes and self.random.random() < 0.3:
                parent = PREVIOUS
            nodes.append(self.node(node_id, parent))
        return Append(nodes, self.leaf(), self.on_known())

    def splice(self, session: ModelSession) -> Splice:
        keep = self.random.choice([-3, -2, -1, -1, -1, 0, 1, 2, 3, 99])
        return Splice(keep, [self.node(each, PREVIOUS) for each in self.ids(0)], self.on_known())

    def unchanged(self, _: ModelSession) -> Unchanged:
        return Unchanged(self.random.choice([KEEP, None, *IDS]))

    def replace(self, _: ModelSession) -> ReplaceFull:
        nodes = [
            self.node(each, self.random.choice([PREVIOUS, PREVIOUS, None, *IDS[:4]]))
            for each in self.ids(0)
        ]
        return ReplaceFull(nodes, self.leaf())


def brief(delta: Any) -> str:
    """A delta as short as a failing test can use it."""
    words = [type(delta).__name__, str(getattr(delta, "keep", ""))]
    for node in getattr(delta, "nodes", ()):
        words.append(f"{node.body['parts'][0]['text']}<{node.parent_node_id}")
    return " ".join(
        [*words, f"leaf={getattr(delta, 'leaf', KEEP)}", getattr(delta, "on_known", "")]
    )
