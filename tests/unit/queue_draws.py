"""Random drafts over a few keys, groups and texts, so that they meet."""

from __future__ import annotations

import random

from holdfast import Group, QueuedWorkBatchDraft

SESSIONS = ["s1", "s2", "s3"]
KEYS = [None, None, None, "k1", "k2", "k3"]


def draft(source: random.Random, session_id: str, now_ms: int) -> QueuedWorkBatchDraft:
    """A valid draft."""
    kind = source.choices(["tick", "session_command"], [9, 1])[0]
    names = source.choices("ab", k=source.choice([1, 1, 2]))
    return QueuedWorkBatchDraft(
        session_id=session_id,
        payloads=[{"type": kind, "name": name} for name in names],
        delivery_policy=source.choices(
            ["earliest_safe_boundary", "after_current_turn_commit"], [5, 1]
        )[0],
        slot_policy=source.choices(["join", "exclusive"], [5, 1])[0],
        merge_key=source.choice(
            ["never", "never", "payload_default", Group("g"), Group("h"), *[Group("g")] * 3]
        ),
        source_key=source.choice(KEYS),
        available_at_ms=source.choices([0, now_ms, now_ms + source.randint(1, 40)], [5, 1, 2])[0],
        dedupe=source.choice(["once", "pending"]),
    )


def brief(given: QueuedWorkBatchDraft) -> str:
    """A draft as short as a failing test can use it."""
    words = [each["type"][0] + each["name"] for each in given.payloads]
    words += [given.delivery_policy[0], given.slot_policy[0], str(given.merge_key)]
    return f"{' '.join(words)} {given.source_key} {given.dedupe} @{given.available_at_ms % 100_000}"
