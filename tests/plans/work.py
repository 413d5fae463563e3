"""Queued work for the plans: many sessions with some, one with very much, and who is ready."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from holdfast.rules import queue

#: Ordinary sessions, behind those with inputs, and their batches: a receipt, two that wait.
SESSIONS = range(2_000, 20_000)
BATCHES = 6

#: One session has everything, in this order, of which only a few rows are ever asked for.
DEEP = 1_000_001
RECEIPTS, HELD, FUTURE, READY = 50_000, 500, 500, 50_000
_FIRST = 50_000_000

#: Readiness rows of sessions: some ready, of whom some are at work, and very many that are not.
READY_SESSIONS = range(2_000, 2_030)
IDLE = 100_000
LATER = 10**9

_COLUMNS = (
    "seq, session, batch_id, class, delivery, slot, merge_key, source_key, dedupe,"
    " available_at_ms, enqueued_at_ms, ready_at_ms, digest, payloads, settled_at_ms,"
    " claim_id, claim_token, claim_owner, claim_generation, claim_count"
)
_DRAFT = ("turn_work", "earliest_safe_boundary", "join", '{"group":"g"}')
#: Sound, or a claim would fail; by when a batch becomes available.
DIGESTS = {at_ms: queue.digest(*_DRAFT, at_ms, "[]") for at_ms in (0, LATER)}
_FREE = (None, None, None, None, 0)


def _row(seq: int, session: int, **changes: Any) -> tuple[Any, ...]:
    """A batch that waits; a few words make it something else."""
    at_ms, settled = changes.get("available_at_ms", 0), changes.get("settled", False)
    claim = changes.get("claim")
    return (
        *(seq, session, f"b{seq}", *_DRAFT, f"w{seq}", "once"),
        *(
            at_ms,
            1,
            max(at_ms, 1),
            DIGESTS[at_ms],
            None if settled else "[]",
            2 if settled else None,
        ),
        *((f"qwc:{claim}:1", claim, "o", 1, 1) if claim else _FREE),
    )


def _ordinary() -> Iterator[tuple[Any, ...]]:
    for session in SESSIONS:
        first = BATCHES * session
        yield _row(first, session, settled=True)
        yield from (_row(first + n, session) for n in range(1, BATCHES - 2))
        yield _row(first + BATCHES - 2, session, available_at_ms=LATER)
        yield _row(first + BATCHES - 1, session, claim=f"claim{session}")


def _deep() -> Iterator[tuple[Any, ...]]:
    kinds: list[tuple[int, dict[str, Any]]] = [
        (RECEIPTS, {"settled": True}),
        (HELD, {"claim": "held"}),
        (FUTURE, {"available_at_ms": LATER}),
        (2, {"claim": "mine"}),
        (READY, {}),
    ]
    seq = _FIRST
    for count, changes in kinds:
        yield from (_row(n, DEEP, **changes) for n in range(seq, seq + count))
        seq += count


#: The first batch of the deep session that a claim may take, and two it has already.
FIRST_READY = _FIRST + RECEIPTS + HELD + FUTURE + 2
MINE = [FIRST_READY - 2, FIRST_READY - 1]


def rows() -> Iterator[tuple[str, str, list[tuple[Any, ...]]]]:
    """Table, columns and rows."""
    yield (
        "session",
        "key, id, generation, owner_id, incarnation_id, token, claimed_at_ms, expires_at_ms",
        [(DEEP, "deep", 1, "o", "i", "t", 1, LATER)],
    )
    yield "work", _COLUMNS, [*_ordinary(), *_deep()]
    yield (
        "readiness",
        "session, id, ready_at_ms, waits",
        [
            *((s, f"s{s}", s - 1_990, False) for s in READY_SESSIONS),
            *((2_000_000 + n, f"idle{n}", LATER + n, True) for n in range(IDLE)),
            (DEEP, "deep", 1, False),
        ],
    )


SAMPLES: dict[str, Any] = {
    "after_ready": 1,
    "batch_id": f"b{FIRST_READY}",
    "batch_ids": [f"b{FIRST_READY}", f"b{FIRST_READY + 1}"],
    "boundary": "idle",
    "class": "turn_work",
    "drafts": json.dumps(
        [
            {
                "place": place,
                "session_id": "deep",
                "batch_id": f"new{place}",
                "class": "turn_work",
                "delivery": "earliest_safe_boundary",
                "slot": "join",
                "merge_key": '"never"',
                "source_key": source_key,
                "dedupe": "once",
                "available_at_ms": 0,
                "digest": "d",
                "payloads": "[]",
            }
            for place, source_key in enumerate([None, f"w{_FIRST}", "new"])
        ]
    ),
    "max_batches": 10,
    "pending": True,
}
#: By what it is found that a session has something to do.
_REASONS = ("session", "work_available_at_once", "work_delayed", "turn_input_by_readiness")
INDEXES = {
    "enqueue_work": {"session"},
    "known_work": {"session", "work_by_source"},
    "held_work": {"session", "work_by_source"},
    "list_work": {"session", "work_in_order"},
    "cancel_work": {"session", "work"},
    "claim_work": {"session", "work_in_order"},
    "claim_work_exactly": {"session", "work"},
    "abandon_work": {"session", "work_by_claim"},
    "claimed_work": {"session", "work_by_claim"},
    "refresh_readiness": {*_REASONS},
    "trim_readiness": {*_REASONS},
    "ready_sessions": {
        *("session", "readiness_in_order", "readiness_to_come"),
        *("work_available_at_once", "turn_input_by_readiness"),
    },
    "next_ready": {"work_by_availability"},
    "prune_receipts": {"session", "work_settled"},
}


class Reads(NamedTuple):
    """A statement on the deep session, and how many rows it may read at most."""

    name: str
    most: int
    given: dict[str, Any]


def reads(name: str, most: int, **given: Any) -> Reads:
    """Of the deep session."""
    return Reads(name, most, {"session_id": "deep", **given})


#: Rows that a claim or a listing passes over: those held, those of the future.
PASSED = HELD + FUTURE

READS = {
    "enqueue": reads("enqueue_work", 50),
    "known": reads("known_work", 20),
    "held": reads("held_work", 20),
    "list": reads("list_work", 250, pending=False, limit=100, after_seq=0),
    "list the last": reads(
        "list_work", 250, pending=False, limit=100, after_seq=FIRST_READY + READY - 100
    ),
    "list pending": reads("list_work", PASSED + 250, pending=True, limit=100, after_seq=0),
    "cancel": reads("cancel_work", 20),
    "claim": reads("claim_work", PASSED + 200, count=0),
    "claim by a new generation": reads("claim_work", 200, count=0, generation=2),
    "claim a command": reads(
        "claim_work", PASSED + 50, count=0, max_batches=1, **{"class": "session_command"}
    ),
    "claim exactly": reads("claim_work_exactly", 60, count=2),
    "abandon": reads(
        "abandon_work",
        HELD + 30,
        claims='[{"session_id":"deep","claim_id":"qwc:mine:1","claim_token":"mine"}]',
    ),
    "claimed": reads("claimed_work", 20, claim_tokens=["mine"]),
    "complete": reads("complete_work", 30, seqs=MINE),
    "refresh": reads("refresh_readiness", 40),
    "trim": reads("trim_readiness", 40),
    "prune": reads("prune_receipts", 700, limit=100, older_than_ms=LATER),
    "remove": reads("remove_rows", 1_000, session=DEEP, limit=100),
    "ready": reads("ready_sessions", 200, after_id="", after_ready=-1),
    "ready, a long page": reads("ready_sessions", 200, after_id="", after_ready=-1, limit=10_000),
    "next": reads("next_ready", 10),
}
