"""What the contract says about graphs, as plainly as it can be written down.

No branches, no positions, no sharing: a session is a few dictionaries, and a parent is the node it
was when its child was stored. The store has to agree with this after every operation.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from holdfast import CURRENT_LEAF, KEEP, PREVIOUS, Append, Node, ReplaceFull, Splice, Unchanged


class Refusal(Exception):
    """What the store is expected to raise: the class's code and its reason, if it has one."""

    def __init__(self, code: str, reason: str | None = None) -> None:
        super().__init__(code, reason)
        self.code, self.reason = code, reason


def integrity(reason: str) -> Refusal:
    return Refusal("graph_integrity", reason)


@dataclass(eq=False)
class Stored:
    """A node; the sessions that share one through forks hold the same object."""

    node_id: str
    parent_id: str | None
    parent: Stored | None
    body: object
    sequence: int

    @property
    def user_text(self) -> str | None:
        assert isinstance(self.body, dict)
        return self.body["parts"][0]["text"] if self.body["role"] == "user" else None


@dataclass
class Outcome:
    revision: int
    replayed: bool = False
    removed: list[str] = field(default_factory=list)


class ModelSession:
    """The graph and the head of one session."""

    def __init__(self) -> None:
        self.live: dict[str, Stored] = {}
        self.tombstoned: dict[str, Stored] = {}
        self.leaf_id: str | None = None
        self.leaf: Stored | None = None
        self.revision = 0
        self.next_sequence = 1

    # --- reads -------------------------------------------------------------------------

    def sees(self, node: Stored | None) -> bool:
        return node is not None and self.live.get(node.node_id) is node

    def path_to(self, node: Stored | None) -> list[Stored]:
        """The chain up to the first link that leads to nothing visible, root first."""
        path: list[Stored] = []
        while node is not None and self.sees(node):
            path.append(node)
            node = node.parent
        return path[::-1]

    def active_path(self) -> list[Stored]:
        return self.path_to(self.leaf)

    def full(self) -> list[Stored]:
        return sorted(self.live.values(), key=lambda node: node.sequence)

    def user_texts(self) -> list[str]:
        return [node.user_text for node in self.full() if node.user_text is not None]

    # --- deltas ------------------------------------------------------------------------

    def committed(self, delta: object) -> tuple[ModelSession, Outcome]:
        """The session after a commit of the delta; the receiver stays as it is."""
        after = copy.copy(self)
        after.live, after.tombstoned = dict(self.live), dict(self.tombstoned)
        outcome = after._apply(delta)
        if not outcome.replayed:
            after.revision += 1
        outcome.revision = after.revision
        return after, outcome

    def _apply(self, delta: object) -> Outcome:
        outcome = Outcome(self.revision)
        match delta:
            case Unchanged(leaf) | Append(nodes=[], leaf=leaf):
                if leaf is not KEEP and leaf != self.leaf_id:
                    self._move_to(leaf)
            case Append(nodes, leaf, on_known):
                chained = nodes[0].parent_node_id in (PREVIOUS, CURRENT_LEAF)
                grow = self._chain if chained else self._tree
                all_known = grow(nodes, on_known)
                # A session that begins with this commit is made, whatever its path held already.
                outcome.replayed = all_known and self.revision > 0
                if leaf is not KEEP and not outcome.replayed:
                    self._move_to(leaf)
            case Splice(keep, nodes, on_known):
                outcome.removed = self._splice(keep)
                self._chain(nodes, on_known)
            case ReplaceFull(nodes, leaf):
                self._replace(nodes, leaf)
        return outcome

    def _move_to(self, leaf: str | None) -> None:
        if leaf is not None and leaf not in self.live:
            raise integrity("unknown_leaf")
        self.leaf_id, self.leaf = leaf, self.live[leaf] if leaf is not None else None

    def _insert(self, node: Node, parent_id: str | None, parent: Stored | None) -> Stored:
        stored = Stored(node.node_id, parent_id, parent, node.body, self.next_sequence)
        self.live[node.node_id] = stored
        self.next_sequence += 1
        return stored

    def _known(self, node_id: str) -> Stored | None:
        return self.live.get(node_id) or self.tombstoned.get(node_id)

    def _revive(self, stored: Stored) -> bool:
        if self.tombstoned.pop(stored.node_id, None) is None:
            return False
        self.live[stored.node_id] = stored
        return True

    def _chain(self, nodes: Sequence[Node], on_known: str) -> bool:
        """EXT-5; whether every node was there already."""
        if len({node.node_id for node in nodes}) < len(nodes):
            raise integrity("duplicate_in_delta")
        fresh: list[Node] = []
        revived = False
        for node in nodes:
            stored = self._known(node.node_id)
            if stored is None:
                fresh.append(node)
                continue
            if stored.body != node.body and on_known != "skip":
                raise Refusal("graph_node_conflict")
            revived = self._revive(stored) or revived
        if fresh and self.leaf_id is not None and not self.sees(self.leaf):
            hidden = self.leaf in self.tombstoned.values()
            raise integrity("tombstoned_parent" if hidden else "unknown_parent")
        for node in fresh:
            self.leaf = self._insert(node, self.leaf_id, self.leaf)
            self.leaf_id = node.node_id
        return bool(nodes) and not fresh and not revived

    def _tree(self, nodes: Sequence[Node], on_known: str) -> bool:
        """GRA-6."""
        listed = [node.node_id for node in nodes]
        for index, node in enumerate(nodes):
            parent_id = node.parent_node_id
            if parent_id is PREVIOUS:
                parent_id = listed[index - 1]
            parent = self._parent(node.node_id, parent_id, listed, index)
            stored = self._known(node.node_id)
            if stored is None:
                self._insert(node, parent_id, parent)
                continue
            same = stored.body == node.body and stored.parent_id == parent_id
            if not same and on_known != "skip":
                raise Refusal("graph_node_conflict")
            self._revive(stored)
        self._move_to(listed[-1])
        return False

    def _parent(
        self, node_id: str, parent_id: str | None, listed: list[str], index: int
    ) -> Stored | None:
        if node_id in listed[:index]:
            raise integrity("duplicate_in_delta")
        if parent_id is None:
            return None
        if parent_id == node_id:
            raise integrity("self_parent")
        parent = self._known(parent_id)
        if parent is None:
            raise integrity("unknown_parent")
        if parent_id not in self.live and parent_id not in listed:
            raise integrity("tombstoned_parent")
        return parent

    def _splice(self, keep: int) -> list[str]:
        path = self.active_path()
        kept = min(keep, len(path)) if keep >= 0 else max(len(path) + keep, 0)
        for node in path[kept:]:
            del self.live[node.node_id]
        self.leaf = path[kept - 1] if kept else None
        self.leaf_id = self.leaf.node_id if self.leaf else None
        return [node.node_id for node in path[kept:]]

    def _replace(self, nodes: Sequence[Node], leaf: object) -> None:
        listed = {node.node_id: node for node in nodes}
        if len(listed) < len(nodes):
            raise integrity("duplicate_in_delta")
        parents: dict[str, str | None] = {}
        for index, node in enumerate(nodes):
            parent_id = node.parent_node_id
            if parent_id is PREVIOUS:
                parent_id = nodes[index - 1].node_id if index else None
            parents[node.node_id] = parent_id
        for node_id in parents:
            seen: set[str | None] = set()
            at: str | None = node_id
            while at in parents:
                if at in seen:
                    raise integrity("cycle")
                seen.add(at)
                at = parents[at]
        self.live, self.tombstoned = {}, {}
        for node in nodes:
            self._insert(node, parents[node.node_id], None)
        for node_id, stored in self.live.items():
            stored.parent = self.live.get(parents[node_id] or "")
        last = nodes[-1].node_id if nodes else None
        self._move_to(last if leaf is KEEP else leaf)

    # --- beside commits ----------------------------------------------------------------

    def tombstone(self, node_ids: Collection[str]) -> int:
        hidden = [self.live.pop(node_id) for node_id in set(node_ids) if node_id in self.live]
        self.tombstoned |= {node.node_id: node for node in hidden}
        return len(hidden)

    def vacuum(self) -> int:
        removed = len(self.tombstoned)
        self.tombstoned = {}
        return removed

    def started_at(self, leaf: Stored | None) -> ModelSession:
        """A new session that begins with the path to a node of this one."""
        made = ModelSession()
        made.live = {node.node_id: node for node in self.path_to(leaf)}
        made.leaf, made.leaf_id = (leaf, leaf.node_id) if leaf is not None else (None, None)
        # An empty path takes nothing over, numbers included.
        made.next_sequence = self.next_sequence if made.live else 1
        return made
