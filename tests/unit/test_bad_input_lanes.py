"""What reaches a session from outside, and what it makes: junk is refused before any statement."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

import holdfast
from holdfast import (
    ActiveTurn,
    Group,
    InvalidArgument,
    QueuedWorkCompletion,
    ReadySession,
    SourceKey,
    TurnInputCompletion,
)
from holdfast.testing.contract.catalogue import a_lease, a_work_claim, an_input_claim
from holdfast.testing.contract.lanes import said, settle, work
from holdfast.testing.contract.samples import AN_ID, chain, put
from tests.unit.bad_input import Case, cases, offer

LEASE = a_lease("s1")
OF_CLAIM = {"session_id": "s1", "claim_id": "c", "claim_token": "t"}


def outbox(store: Any, it: Any) -> Any:
    """A commit that enqueues it."""
    return settle(store, LEASE, enqueued_queue_batches=[it])


RECORDS: dict[str, tuple[Any, Case]] = {
    "work": (work(), lambda store, it: store.queue.enqueue(it)),
    "works": (work(), lambda store, it: store.queue.enqueue_many([it])),
    "outbox": (work(), outbox),
    "group": (Group("g"), lambda store, it: store.queue.enqueue(work(merge_key=it))),
    "work fence": (LEASE, lambda store, it: store.queue.claim(it)),
    "command fence": (LEASE, lambda store, it: store.queue.claim_command(it)),
    "exact fence": (LEASE, lambda store, it: store.queue.claim_exactly(it, "idle", ["b"])),
    "work claim": (a_work_claim("s1"), lambda store, it: store.queue.abandon(it)),
    "work claims": (a_work_claim("s1"), lambda store, it: store.queue.abandon_many([it])),
    "work completion": (
        QueuedWorkCompletion(**OF_CLAIM, batch_ids=["b"]),
        lambda store, it: settle(store, LEASE, completed_queue_claims=[it]),
    ),
    "completed work claim": (
        a_work_claim("s1"),
        lambda store, it: settle(store, LEASE, completed_queue_claims=[it]),
    ),
    "originating work claim": (
        a_work_claim("s1"),
        lambda store, it: settle(store, LEASE, originating_claims=[it]),
    ),
    "after": (ReadySession("s1", 1), lambda store, it: store.queue.ready_sessions(5, it)),
    "input": (said(), lambda store, it: store.inputs.enqueue(it)),
    "ingress": (ActiveTurn("t"), lambda store, it: store.inputs.enqueue(said(ingress=it))),
    "source key": (SourceKey("k"), lambda store, it: store.inputs.cancel("s1", [it])),
    "anchor": (SourceKey("k"), lambda store, it: store.inputs.cancel_suffix("s1", it)),
    "input fence": (LEASE, lambda store, it: store.inputs.claim_next(it)),
    "recovery fence": (LEASE, lambda store, it: store.inputs.recover_orphaned(it)),
    "checkpoint fence": (
        LEASE,
        lambda store, it: store.queue.claim_at_checkpoint(it, "t", "after_work"),
    ),
    "input claim": (an_input_claim("s1"), lambda store, it: store.inputs.abandon(it)),
    "input claims": (an_input_claim("s1"), lambda store, it: store.inputs.abandon_many([it])),
    "input completion": (
        TurnInputCompletion(**OF_CLAIM, input_ids=["i"]),
        lambda store, it: settle(store, LEASE, completed_turn_input_claims=[it]),
    ),
    "completed input claim": (
        an_input_claim("s1"),
        lambda store, it: settle(store, LEASE, completed_turn_input_claims=[it]),
    ),
    "originating input claim": (
        an_input_claim("s1"),
        lambda store, it: settle(store, LEASE, originating_claims=[it]),
    ),
}

ARGUMENTS: dict[str, Case] = {
    "payload": lambda store, it: store.queue.enqueue(work(payloads=[it])),
    "payload type": lambda store, it: store.queue.enqueue(work(payloads=[{"type": it}])),
    "drafts": lambda store, it: store.queue.enqueue_many(it),
    "queue list limit": lambda store, it: store.queue.list("s1", it),
    "queue list after": lambda store, it: store.queue.list("s1", 5, it),
    "queue pending limit": lambda store, it: store.queue.list_pending("s1", it),
    "queue pending after": lambda store, it: store.queue.list_pending("s1", 5, it),
    "batch id": lambda store, it: store.queue.cancel("s1", it),
    "boundary": lambda store, it: store.queue.claim(LEASE, it),
    "most batches": lambda store, it: store.queue.claim(LEASE, "idle", it),
    "exact boundary": lambda store, it: store.queue.claim_exactly(LEASE, it, ["b"]),
    "batch ids": lambda store, it: store.queue.claim_exactly(LEASE, "idle", it),
    "work claims": lambda store, it: store.queue.abandon_many(it),
    "ready limit": lambda store, it: store.queue.ready_sessions(it),
    "checkpoint turn": lambda store, it: store.queue.claim_at_checkpoint(LEASE, it, "after_work"),
    "checkpoint": lambda store, it: store.queue.claim_at_checkpoint(LEASE, "t", it),
    "checkpoint inputs": lambda store, it: store.queue.claim_at_checkpoint(
        LEASE, "t", "after_work", it
    ),
    "checkpoint batches": lambda store, it: store.queue.claim_at_checkpoint(
        LEASE, "t", "after_work", 1, it
    ),
    "input states": lambda store, it: store.inputs.list("s1", it),
    "input limit": lambda store, it: store.inputs.list("s1", None, it),
    "pending limit": lambda store, it: store.inputs.list_pending("s1", it),
    "pending after": lambda store, it: store.inputs.list_pending("s1", 5, it),
    "targets": lambda store, it: store.inputs.cancel("s1", it),
    "target": lambda store, it: store.inputs.cancel("s1", [it]),
    "active turn": lambda store, it: store.inputs.claim_active(LEASE, it, "after_work"),
    "active checkpoint": lambda store, it: store.inputs.claim_active(LEASE, "t", it),
    "active inputs": lambda store, it: store.inputs.claim_active(LEASE, "t", "after_work", it),
    "next inputs": lambda store, it: store.inputs.claim_next(LEASE, it),
    "input claims": lambda store, it: store.inputs.abandon_many(it),
    "recovered turn": lambda store, it: store.inputs.recover_orphaned(LEASE, it),
    "deferred turn": lambda store, it: settle(store, LEASE, interrupted_turn_input_turn_id=it),
    "receipts": lambda store, it: store.maintenance.prune_settled_source_keys(it),
    "attachment": lambda store, it: store.attachments.record_intent("s1", it),
    "attachments": lambda store, it: store.attachments.commit_refs("s1", it),
    "held": lambda store, it: store.attachments.holds("s1", it),
    "forgotten": lambda store, it: store.attachments.delete("s1", it),
    "got": lambda store, it: store.attachments.get("s1", it),
    "put": lambda store, it: store.attachments.put("s1", it),
    "media type": lambda store, it: store.attachments.put("s1", b"x", media_type=it),
    "label": lambda store, it: store.attachments.put("s1", b"x", label=it),
    "uncommitted before": lambda store, it: store.attachments.list_uncommitted(it),
    "uncommitted limit": lambda store, it: store.attachments.list_uncommitted(0, it),
    "refs limit": lambda store, it: store.attachments.list_refs(it),
    "live": lambda store, it: store.attachments.live_refs(it, 0),
    "live before": lambda store, it: store.attachments.live_refs([AN_ID], it),
    "reclaimed before": lambda store, it: store.maintenance.reclaim_attachments(it),
}


@pytest.fixture(scope="module")
def store() -> Iterator[Any]:
    with holdfast.open("sqlite://") as opened:
        put(opened, "s1", graph=chain("a"))
        yield opened


@pytest.mark.parametrize("case", list(cases(RECORDS, ARGUMENTS)))
def test_junk_is_taken_or_refused_before_any_statement(store: Any, case: Case) -> None:
    offer(store, case)

    assert isinstance(store.queue.list("s1", 10_000), list)  # what was taken can be read back
    assert isinstance(store.inputs.list("s1", limit=10_000), list)


@pytest.mark.parametrize(
    ("field", "claim"),
    [
        ("completed_queue_claims[0].batches", a_work_claim("s1")),
        ("completed_turn_input_claims[0].inputs", an_input_claim("s1")),
    ],
)
@pytest.mark.parametrize(("junk", "at"), [(None, ""), ("x", ""), ([None], "[0]"), (["x"], "[0]")])
def test_a_claim_of_no_records_is_refused_by_the_name_of_their_field(
    store: Any, field: str, claim: Any, junk: Any, at: str
) -> None:
    given, _, held = field.partition("[0].")
    malformed = msgspec.structs.replace(claim, **{held: junk})

    with pytest.raises(InvalidArgument) as refused:
        settle(store, LEASE, **{given: [malformed]})

    assert refused.value.field == field + at
