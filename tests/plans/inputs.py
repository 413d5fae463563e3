"""Turn inputs for the plans: rows in every state, and what their statements are given."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from holdfast.rules.queue import digest
from tests.plans.work import DEEP, reads

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
#: Of the deep session: far more for the next turn, and for another one, than for a turn `few`.
MANY, FEW = 20_000, 5
_FIRST_DEEP = 90_000_000

#: Behind whatever numbers other rows of the queue have.
_FIRST_WORK = 10_000_000


#: What a turn's input says about where it belongs.
SUBMITTED = '{{"kind":"active_turn","min_boundary":"after_work","turn_id":"{}"}}'

_COLUMNS = (
    "seq, session, input_id, source_key, submitted, turn_id, min_boundary, state,"
    " enqueued_at_ms, ready_at_ms, ended_at_ms, digest, body, claim_id, claim_token,"
    " claim_owner, claim_generation, claim_count"
)


def _deep() -> Iterator[tuple[Any, ...]]:
    kinds = [(MANY, None), (MANY, "many"), (FEW, "few")]
    turns = [turn for count, turn in kinds for _ in range(count)]
    for seq, turn in enumerate(turns, _FIRST_DEEP):
        submitted = SUBMITTED.format(turn)
        state = ("pending_active", 1, None) if turn else ("deferred_next_turn", 1, 1)
        bound = (turn, turn and "after_work", *state, None)
        stored = (digest(submitted, "{}"), "{}", *(None,) * 4, 0)
        yield (seq, DEEP, f"deep{seq}", None, submitted, *bound, *stored)


def rows() -> Iterator[tuple[str, str, list[tuple[Any, ...]]]]:
    """Table, columns and rows."""
    yield (
        "turn_input",
        _COLUMNS,
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
        ]
        + list(_deep()),
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
    "claim_turn_inputs": {"checkpoint": "after_work"},
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
    "claim_turn_inputs": {"session", "turn_input_of_turn"},
    "claim_next_inputs": {"session", "turn_input_open"},
    "recover_inputs": {"session", "turn_input_open"},
    "probe_checkpoint": {"session", "turn_input_of_turn", "work_in_order"},
    "abandon_inputs": {"session", "turn_input_by_claim"},
    "claimed_inputs": {"session", "turn_input_by_claim"},
    "defer_inputs": {"turn_input_of_turn"},
    "vacuum_inputs": {"session", "turn_input_ended"},
}

#: Of a turn, whatever else is open in its session.
READS = {
    "look at a checkpoint": reads("probe_checkpoint", 30, turn_id="few", wants_work=False),
    "look for a turn without": reads("probe_checkpoint", 20, turn_id="none", wants_work=False),
    "claim a turn's inputs": reads("claim_turn_inputs", 60, turn_id="few"),
    "claim the next inputs": reads("claim_next_inputs", 100),
    "defer": reads("defer_inputs", 60, session=DEEP, turn_id="few"),
    "defer of a turn without": reads("defer_inputs", 20, session=DEEP, turn_id="none"),
}
