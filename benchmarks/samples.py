"""The operations that are measured: a small append, and a turn of 28 KB."""

from __future__ import annotations

import itertools
import random
from typing import Any

import msgspec

from holdfast import (
    ANY,
    Append,
    CheckpointDraft,
    Node,
    RuntimeCommit,
    TokenLedgerEntry,
    TokenUsage,
    TurnStamp,
)

#: Unique within a run, and all of the same length.
numbers = itertools.count(100_000_000)

_dice = random.Random(1)


def text(length: int) -> str:
    """Text that compresses somewhat, as prose does."""
    words = " ".join(f"{_dice.randrange(10_000):x}" for _ in range(length))
    return words[:length]


#: The body of a message of 400 bytes, and of one of 2 KB.
SMALL: Any = {"role": "assistant", "parts": [{"type": "text", "text": text(340)}]}
LARGE: Any = {"role": "assistant", "parts": [{"type": "text", "text": text(1_990)}]}
STATE = text(20_000).encode()


def small(session_id: str) -> RuntimeCommit:
    """One small message: a light commit."""
    nodes = [Node(node_id=f"n{next(numbers)}", body=SMALL)]
    return RuntimeCommit(session_id=session_id, expected_head_revision=ANY, graph=Append(nodes))


def stamped(session_id: str) -> RuntimeCommit:
    """One small message of a turn: no light commit, and little more than one."""
    stamp = TurnStamp(session_id, f"t{next(numbers)}")
    return msgspec.structs.replace(small(session_id), turn_commit=stamp)


def turn(session_id: str, *, new_state: bool = True) -> RuntimeCommit:
    """A turn of 28 KB: four messages, a checkpoint of 20 KB, usage, and a stamp."""
    number = next(numbers)
    state = b"%d" % number + STATE if new_state else STATE
    return RuntimeCommit(
        session_id=session_id,
        expected_head_revision=ANY,
        turn_commit=TurnStamp(session_id, f"t{number}"),
        graph=Append([Node(node_id=f"n{number}-{index}", body=LARGE) for index in range(4)]),
        checkpoint=CheckpointDraft(turn_state={}, components={"tool_state": state}),
        usage_deltas=[TokenLedgerEntry("chat", "some-model", TokenUsage(10, 5))],
    )


def names(count: int) -> list[str]:
    """So many session ids."""
    return [f"session-{number}" for number in range(count)]
