"""The operations that are measured: a small append, and a turn of 28 KB."""

from __future__ import annotations

import itertools
import random
from typing import Any

from holdfast import (
    ANY,
    KEEP,
    Append,
    CheckpointDraft,
    Node,
    RuntimeCommit,
    TokenLedgerEntry,
    TokenUsage,
    TurnStamp,
)
from holdfast.model.values import Keep

#: Unique within this run, and as long from the first to the last.
numbers = itertools.count(100_000_000)

_dice = random.Random(1)


def text(length: int) -> str:
    """Text that compresses about as well as prose does."""
    words = [f"{_dice.randrange(10_000):x}" for _ in range(length // 4)]
    return " ".join(words)[:length].ljust(length, ".")


SMALL = {"role": "user", "text": text(370)}
LARGE = {"role": "assistant", "text": text(2_000)}
STATE = text(20_000).encode()


def small(session_id: str) -> RuntimeCommit:
    """One message of 400 bytes: a light commit."""
    nodes = [Node(node_id=f"n{next(numbers)}", body=SMALL)]
    return RuntimeCommit(
        session_id=session_id, expected_head_revision=ANY, graph=Append(nodes)
    )


def large(session_id: str, *, changed: bool = True) -> RuntimeCommit:
    """A turn: four messages of 2 KB, a checkpoint of 20 KB, usage, and a stamp."""
    number = next(numbers)
    nodes = [Node(node_id=f"n{number}-{index}", body=LARGE) for index in range(4)]
    return RuntimeCommit(
        session_id=session_id,
        expected_head_revision=ANY,
        turn_commit=TurnStamp(session_id, f"t{number}"),
        graph=Append(nodes),
        checkpoint=checkpoint(number if changed else 0),
        usage_deltas=[TokenLedgerEntry("chat", "some-model", TokenUsage(10, 5))],
    )


def checkpoint(number: int) -> CheckpointDraft | Keep:
    """A checkpoint whose 20 KB of tool state nobody has stored before."""
    return CheckpointDraft(
        turn_state={"turn": number}, components={"tool_state": b"%d" % number + STATE}
    )


def chain(first: int, count: int) -> list[Any]:
    """Short messages, one behind the other."""
    return [Node(node_id=f"c{n}", body={"role": "user", "text": f"message {n}"})
            for n in range(first, first + count)]


__all__ = ["KEEP"]
