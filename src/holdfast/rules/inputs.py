"""Turn inputs: valid drafts, stored rows, and what submitting or cancelling comes to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, get_args

import msgspec

from holdfast.errors import (
    CorruptRecord,
    InvalidArgument,
    PendingTurnInputIdConflict,
    PendingTurnInputSourceKeyConflict,
)
from holdfast.model.inputs import (
    ActiveTurn,
    CancelResult,
    Checkpoint,
    Ingress,
    InputCancellation,
    InputTarget,
    NextTurn,
    PendingTurnInput,
    PendingTurnInputDraft,
    SourceKey,
    TurnInputClaimInfo,
    TurnInputState,
)
from holdfast.model.values import JsonValue
from holdfast.rules import checks
from holdfast.rules.canonical import canonical, parse
from holdfast.rules.queue import digest
from holdfast.settings import Settings

STATES: Final = get_args(TurnInputState)

_ingress = msgspec.json.Decoder(ActiveTurn | NextTurn)


class Input(NamedTuple):
    """A draft as it is stored, under the columns' names."""

    input_id: str
    source_key: str | None
    submitted: str
    turn_id: str | None
    min_boundary: str | None
    state: TurnInputState
    digest: str
    body: str


def encode(draft: PendingTurnInputDraft, env: Settings) -> Input:
    """A valid draft in its stored form; without an id of its own it gets a new one."""
    checks.record(draft, PendingTurnInputDraft, "draft")
    turn = _check_ingress(draft.ingress)
    submitted = canonical(msgspec.to_builtins(draft.ingress)).decode()
    body = canonical(draft.input, "input", env.max_value_bytes).decode()
    key, input_id = draft.source_key, draft.input_id
    return Input(
        input_id=f"ti:{env.ids.token()}"
        if input_id is None
        else checks.identifier(input_id, "input_id"),
        source_key=None if key is None else checks.key(key, "source_key"),
        submitted=submitted,
        turn_id=None if turn is None else turn.turn_id,
        min_boundary=None if turn is None else turn.min_boundary,
        state="pending_active" if turn else "deferred_next_turn",
        digest=digest(submitted, body),
        body=body,
    )


def _check_ingress(ingress: Any) -> ActiveTurn | None:
    if isinstance(ingress, NextTurn):
        return None
    if not isinstance(ingress, ActiveTurn):
        raise InvalidArgument("ingress", "neither ActiveTurn nor NextTurn")
    checks.identifier(ingress.turn_id, "ingress.turn_id")
    check_checkpoint(ingress.min_boundary, "ingress.min_boundary")
    return ingress


def check_checkpoint(checkpoint: Any, field: str = "checkpoint") -> Checkpoint:
    """One of the two kinds of checkpoint."""
    found: Checkpoint = checks.one_of(checkpoint, field, get_args(Checkpoint))
    return found


# --- stored rows -------------------------------------------------------------------------


def stored(row: Mapping[str, Any], session_id: str) -> PendingTurnInput:
    """A stored input; one that is not what was submitted is corrupt."""
    input_id = row["input_id"]
    if row["digest"] != digest(row["submitted"], row["body"]):
        raise CorruptRecord("turn_input", input_id, "digest")
    try:
        submitted = _ingress.decode(row["submitted"])
        given = parse(row["body"].encode())
    except ValueError as error:
        raise CorruptRecord("turn_input", input_id, "unparsable") from error
    current = _current(row)
    # It is bound as it was submitted, or no longer.
    if current not in (submitted, NextTurn()):
        raise CorruptRecord("turn_input", input_id, "ingress")
    return _record(row, session_id, current, submitted, given)


def _current(row: Mapping[str, Any]) -> Ingress:
    turn = row["turn_id"]
    return NextTurn() if turn is None else ActiveTurn(turn, row["min_boundary"])


def _record(
    row: Mapping[str, Any], session_id: str, current: Ingress, submitted: Ingress, given: JsonValue
) -> PendingTurnInput:
    if row["state"] not in STATES:
        raise CorruptRecord("turn_input", row["input_id"], "state")
    return PendingTurnInput(
        session_id=session_id,
        input_id=row["input_id"],
        enqueue_seq=row["seq"],
        source_key=row["source_key"],
        ingress=current,
        submitted_ingress=submitted,
        state=row["state"],
        enqueued_at_ms=row["enqueued_at_ms"],
        input=given,
    )


def claim_info(row: Mapping[str, Any]) -> TurnInputClaimInfo:
    """Who has an input, without the token."""
    return TurnInputClaimInfo(
        state=row["state"],
        claim_id=row["claim_id"],
        claim_owner=row["claim_owner"],
        claim_session_lease_generation=row["claim_generation"],
        claim_count=row["claim_count"],
        claim_live=bool(row["claim_live"]),
    )


# --- what submitting comes to ------------------------------------------------------------


def resubmitted(
    draft: Input, rows: Sequence[Mapping[str, Any]], session_id: str
) -> PendingTurnInput | None:
    """The record that a submission met (INP-3, INP-4), in its present state; none if it is gone."""
    by_key = [
        r for r in rows if draft.source_key is not None and r["source_key"] == draft.source_key
    ]
    for row in by_key:
        if row["digest"] != draft.digest:
            raise PendingTurnInputSourceKeyConflict(
                session_id, str(draft.source_key), row["input_id"]
            )
        return stored(row, session_id)
    for row in (row for row in rows if row["input_id"] == draft.input_id):
        if (row["source_key"], row["digest"]) != (draft.source_key, draft.digest):
            raise PendingTurnInputIdConflict(session_id, draft.input_id)
        return stored(row, session_id)
    return None


# --- what cancelling comes to ------------------------------------------------------------


def targets(given: Any, field: str = "targets") -> list[InputTarget]:
    """Ids as plain text, source keys as `SourceKey`."""
    return [target(each, f"{field}[{i}]") for i, each in enumerate(checks.listed(given, field))]


def target(given: Any, field: str) -> InputTarget:
    """One input, by its id or by its source key."""
    if isinstance(given, SourceKey):
        checks.key(given.key, field)
        return given
    return checks.identifier(given, field)


def cancellations(
    wanted: Sequence[InputTarget], rows: Sequence[Mapping[str, Any]], session_id: str
) -> list[InputCancellation]:
    """One outcome a target, in order; a repeated one sees what the first did."""
    by_target: dict[InputTarget, Mapping[str, Any]] = {}
    for row in rows:
        by_target[row["input_id"]] = row
        if row["source_key"] is not None:
            by_target[SourceKey(row["source_key"])] = row
    cancelled: set[int] = set()
    outcomes = []
    for each in wanted:
        found = by_target.get(each)
        if found is None:
            outcomes.append(InputCancellation(outcome="not_found"))
        else:
            outcomes.append(_cancellation(found, session_id, again=found["seq"] in cancelled))
            cancelled.add(found["seq"])
    return outcomes


def suffix_cancellations(
    rows: Sequence[Mapping[str, Any]], session_id: str, maximum: int
) -> list[InputCancellation]:
    """One outcome a row, the anchor's first; `anchor_not_found` alone where there is none."""
    checks.at_most(len(rows), maximum, "anchor")
    if not rows:
        return [InputCancellation(outcome="anchor_not_found")]
    return [_cancellation(row, session_id, again=False) for row in rows]


_ENDED: Final[dict[str, CancelResult]] = {
    "cancelled": "already_cancelled",
    "completed": "already_completed",
}


def _cancellation(row: Mapping[str, Any], session_id: str, *, again: bool) -> InputCancellation:
    """INP-7, from the row as it was found."""
    if row["cancellable"]:
        record = _readable(_as_cancelled(row), session_id)
        return InputCancellation(
            outcome="already_cancelled" if again else "cancelled", record=record
        )
    record = _readable(row, session_id)
    ended = _ENDED.get(row["state"])
    if ended is not None:
        return InputCancellation(outcome=ended, record=record)
    return InputCancellation(outcome="already_claimed", record=record, claim=claim_info(row))


def _as_cancelled(row: Mapping[str, Any]) -> Mapping[str, Any]:
    return {**row, "state": "cancelled"}


def _readable(row: Mapping[str, Any], session_id: str) -> PendingTurnInput:
    """A damaged input can be cancelled all the same: its raw text stands for what was submitted."""
    try:
        return stored(row, session_id)
    except CorruptRecord:
        current = _current(row)
        return _record(row, session_id, current, current, row["body"])
