"""What a commit settles: claims completed, inputs deferred, follow-up work enqueued (COM-2).

The first trip reads what the claims own and who has the outbox's source keys; under the section's
lock both stay true, so that the outcomes are known before the second trip writes them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from holdfast.model.queue import EnqueueOutcome
from holdfast.operations.queue import enqueue_call, keys_document
from holdfast.rules import claims, queue
from holdfast.rules.commits import Prepared
from holdfast.transaction import Call, Row, call

_OWNED = {claims.WORK: ("claimed_work", "batch_id"), claims.INPUTS: ("claimed_inputs", "input_id")}
_COMPLETING = {claims.WORK: "complete_work", claims.INPUTS: "complete_inputs"}


class Settled(NamedTuple):
    """What was judged of a commit's claims and outbox."""

    #: Sequence numbers to complete, by family.
    completed: dict[claims.Family, list[int]]
    outcomes: list[EnqueueOutcome]


def settling_reads(prepared: Prepared) -> list[Call]:
    """The reads of the first trip."""
    session_id = prepared.commit.session_id
    calls = [
        call(
            _OWNED[family][0],
            session_id=session_id,
            claim_tokens=[each.token for each in completed],
        )
        for family, completed in prepared.completed.items()
        if completed
    ]
    keyed = [batch for batch in prepared.outbox if batch.source_key is not None]
    if keyed:
        calls.append(call("known_work", drafts=keys_document(keyed)))
    return calls


def settled(prepared: Prepared, rows: Mapping[str, list[Row]]) -> Settled:
    """Judge the completions, queued work first (QUE-19, INP-12), and foretell the outbox."""
    session_id = prepared.commit.session_id
    completed = {
        family: claims.owned(family, session_id, asked, rows.get(name, ()), id)
        for family, asked in prepared.completed.items()
        for name, id in (_OWNED[family],)
    }
    stored = {
        row["source_key"]: row for row in rows.get("known_work", ()) if row["seq"] is not None
    }
    gone = {each for done in prepared.completed[claims.WORK] for each in done.ids}
    return Settled(completed, queue.outbox_outcomes(prepared.outbox, stored, gone))


def settling_calls(prepared: Prepared, done: Settled, session: int, at_ms: int) -> Iterator[Call]:
    """The writes of the second trip: completions, then what is left over, then the outbox."""
    for family, seqs in done.completed.items():
        if seqs:
            yield call(_COMPLETING[family], seqs=seqs, at_ms=at_ms)
    turn_id = prepared.commit.interrupted_turn_input_turn_id
    if turn_id is not None:
        yield call("defer_inputs", session=session, turn_id=turn_id, at_ms=at_ms)
    created = {each.batch_id for each in done.outcomes if each.created}
    fresh = [batch for batch in prepared.outbox if batch.batch_id in created]
    if fresh:
        yield enqueue_call(fresh, at_ms=at_ms)
    if prepared.settles:
        yield call("refresh_readiness", session_id=prepared.commit.session_id)
