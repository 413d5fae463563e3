"""Turn inputs for the plans: rows in every state, and what their statements are given."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

#: How many sessions have inputs, and how many each; what is over stays until a vacuum.
SESSIONS = 1_000
INPUTS = 80

#: Their states in turn, each with its turn, its end and when it became ready.
_STATES = [
    ("completed", None, 5, None),
    ("accepted", "t1", None, None),
    ("pending_active", "t1", None, None),
    ("deferred_next_turn", None, None, 5),
]
#: Behind whatever numbers other rows of the queue have.
_FIRST_WORK = 10_000_000


def rows() -> Iterator[tuple[str, str, list[tuple[Any, ...]]]]:
    """Table, columns and rows."""
    yield (
        "turn_input",
        "seq, session, input_id, source_key, submitted, turn_id, min_boundary, state,"
        " enqueued_at_ms, ready_at_ms, ended_at_ms, digest, body, claim_id, claim_token,"
        " claim_owner, claim_generation, claim_count",
        [
            (
                *(
                    INPUTS * s + n,
                    s,
                    f"i{s}-{n}",
                    f"k{s}-{n}",
                    "{}",
                    turn_id,
                    turn_id and "after_work",
                ),
                *(state, 1, ready_at_ms, ended_at_ms, "d", "{}"),
                *((f"c{s}", f"tok{s}", "o", 1, 1) if state == "accepted" else (None,) * 4 + (0,)),
            )
            for s in range(1, SESSIONS + 1)
            for n in range(INPUTS)
            for state, turn_id, ended_at_ms, ready_at_ms in [_STATES[n % len(_STATES)]]
        ],
    )
    yield (
        "work",
        "seq, session, batch_id, class, delivery, slot, merge_key, dedupe, available_at_ms,"
        " enqueued_at_ms, ready_at_ms, digest, payloads",
        [
            (
                *(_FIRST_WORK + s, s, f"beside inputs {s}", "turn_work"),
                *("earliest_safe_boundary", "join", '"never"', "once", 0, 1, 1, "d", "[]"),
            )
            for s in range(1, SESSIONS + 1)
        ],
    )


#: Values of parameters that only these statements have.
SAMPLES: dict[str, Any] = {
    "after_seq": 3,
    "claim_token": "new token",
    "claim_tokens": ["tok7", "tok8"],
    "claims": '[{"session_id":"s7","claim_id":"c7","claim_token":"tok7"}]',
    "digest": "d",
    "input_id": "i7-3",
    "input_ids": ["i7-2", "i7-3"],
    "max_inputs": 10,
    "min_boundary": "after_work",
    "seqs": [30, 31],
    "source_key": "k7-2",
    "source_keys": ["k7-1", "k7-2"],
    "state": "pending_active",
    "states": ["cancelled", "deferred_next_turn"],
    "submitted": "{}",
    "terminal_before_ms": None,
    "wants_inputs": True,
    "wants_work": True,
}
SPECIAL: dict[str, dict[str, Any]] = {
    "enqueue_input": {"body": "{}"},
    "claim_inputs": {"checkpoint": "after_work"},
    "probe_checkpoint": {"checkpoint": "after_work"},
    "cancel_input_suffix": {"maximum": 10_000},
    "cancel_inputs": {"maximum": 20_000},
}
INDEXES = {
    "enqueue_input": {"session"},
    "known_inputs": {"session", "turn_input_by_id", "turn_input_by_source"},
    "list_inputs": {"session", "turn_input_in_order"},
    "list_pending_inputs": {"session", "turn_input_open"},
    "cancel_inputs": {"session", "turn_input_by_id", "turn_input_by_source"},
    "cancel_input_suffix": {
        *("session", "turn_input_by_id", "turn_input_by_source", "turn_input_in_order"),
    },
    "claim_inputs": {"session", "turn_input_open"},
    "recover_inputs": {"session", "turn_input_open"},
    "probe_checkpoint": {"session", "turn_input_open", "work_in_order"},
    "abandon_inputs": {"session", "turn_input_by_claim"},
    "claimed_inputs": {"session", "turn_input_by_claim"},
    "defer_inputs": {"turn_input_open"},
    "vacuum_inputs": {"session", "turn_input_ended"},
}
