"""What the killed process commits, and what a session must look like after each of its turns.

Both sides derive turn n of a session from its number alone, so the one that checks needs nothing
from the one that was killed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import msgspec

from holdfast import (
    Append,
    CheckpointDraft,
    Node,
    ReplaceFull,
    RuntimeCommit,
    Splice,
    TokenLedgerEntry,
    TokenUsage,
    TurnStamp,
)

#: Sessions that are committed to at the same time; those before LEASED under a lease.
SESSIONS = ("leased-1", "leased-2", "free-1", "free-2")
LEASED = 2
#: The component that stays the same in every checkpoint.
PLUGIN = hashlib.shake_128(b"plugin").digest(20_000)


class Expected(msgspec.Struct, frozen=True):
    """A session as it has to be after some turns."""

    turns: int = 0
    tag: str | None = None
    config: Any = {}
    nodes: tuple[tuple[str, Any], ...] = ()
    turn_state: Any = None
    components: dict[str, Any] = {}
    usage: TokenUsage = TokenUsage()

    def after(self, commit: RuntimeCommit) -> Expected:
        """The session after one turn more."""
        changes: dict[str, Any] = {"turns": self.turns + 1, "nodes": self._nodes_after(commit)}
        if isinstance(commit.head_tag, str):
            changes["tag"] = commit.head_tag
        if isinstance(commit.config, dict):
            changes["config"] = commit.config
        if isinstance(commit.checkpoint, CheckpointDraft):
            changes["turn_state"] = commit.checkpoint.turn_state
            changes["components"] = commit.checkpoint.components
        for entry in commit.usage_deltas:
            counted = self.usage.input_tokens + entry.usage.input_tokens
            changes["usage"] = TokenUsage(counted, self.usage.output_tokens + 1)
        return msgspec.structs.replace(self, **changes)

    def _nodes_after(self, commit: RuntimeCommit) -> tuple[tuple[str, Any], ...]:
        delta, nodes = commit.graph, self.nodes
        if isinstance(delta, ReplaceFull):
            nodes = ()
        if isinstance(delta, Splice):
            nodes = nodes[: delta.keep]
        if isinstance(delta, Append | ReplaceFull | Splice):
            nodes += tuple((node.node_id, node.body) for node in delta.nodes)
        return nodes


def turn(session_id: str, number: int) -> RuntimeCommit:
    """Turn `number` of a session, without a lease. The shapes take turns."""
    shape = SHAPES[number % len(SHAPES)]
    commit = RuntimeCommit(session_id=session_id, expected_head_revision=number - 1)
    return msgspec.structs.replace(commit, **shape(session_id, number))


def is_stamped(number: int) -> bool:
    """Whether this turn leaves a stamp."""
    return "turn_commit" in SHAPES[number % len(SHAPES)]("any", number)


def _whole(session_id: str, number: int) -> dict[str, Any]:
    """Everything a turn of an agent settles."""
    state = hashlib.shake_128(b"%d" % number).hexdigest(4_000).encode()
    return _stamped(session_id, number) | {
        "graph": Append(_nodes(number, 2)),
        "config": {"model": "some-model", "turn": number},
        "checkpoint": CheckpointDraft(
            turn_state={"turn": number},
            components={"tool_state": state, "plugin_snapshot": PLUGIN},
        ),
        "usage_deltas": _usage(number),
    }


def _light(_session_id: str, number: int) -> dict[str, Any]:
    """One message, in one trip on PostgreSQL."""
    return {"graph": Append(_nodes(number, 1))}


def _state(_session_id: str, number: int) -> dict[str, Any]:
    """No message: what an adapter keeps beside the conversation."""
    return {"config": {"turn": number}, "head_tag": f"tag-{number}"}


def _many(session_id: str, number: int) -> dict[str, Any]:
    """Tool calls and their results."""
    return _stamped(session_id, number) | {
        "graph": Append(_nodes(number, 40)),
        "usage_deltas": _usage(number),
    }


def _splice(session_id: str, number: int) -> dict[str, Any]:
    """The last three messages replaced by two."""
    return _stamped(session_id, number) | {"graph": Splice(keep=-3, nodes=_nodes(number, 2))}


def _parting(session_id: str, number: int) -> dict[str, Any]:
    """A turn that gives the lease back, where there is one."""
    leased = SESSIONS.index(session_id) < LEASED if session_id in SESSIONS else False
    return _stamped(session_id, number) | {
        "graph": Append(_nodes(number, 2)),
        "release_session_execution_lease": leased,
    }


def _compacted(session_id: str, number: int) -> dict[str, Any]:
    """The conversation replaced by its summary."""
    return _whole(session_id, number) | {"graph": ReplaceFull(_nodes(number, 6))}


SHAPES: tuple[Callable[[str, int], dict[str, Any]], ...] = (
    _compacted,
    _whole,
    _light,
    _state,
    _many,
    _splice,
    _whole,
    _parting,
    _light,
)


def _stamped(session_id: str, number: int) -> dict[str, Any]:
    return {"turn_commit": TurnStamp(session_id, f"turn-{number}")}


def _usage(number: int) -> list[TokenLedgerEntry]:
    return [TokenLedgerEntry("chat", "some-model", TokenUsage(number, 1))]


def _nodes(number: int, count: int) -> list[Node]:
    return [
        Node(node_id=f"{number}-{index}", body={"role": "user", "text": f"message {index}"})
        for index in range(count)
    ]
