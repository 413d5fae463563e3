"""Queued work: enqueue, list, cancel, claim, abandon, and who has something to do (QUE-1 to 23)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec

from holdfast.model.leases import Lease
from holdfast.model.queue import (
    Boundary,
    EnqueueOutcome,
    QueuedWorkBatch,
    QueuedWorkBatchDraft,
    QueuedWorkClaim,
    ReadySession,
)
from holdfast.operations.address import Address
from holdfast.operations.claiming import abandoning, claim_of, claiming, fence_and_token, taken_by
from holdfast.rules import checks, queue
from holdfast.rules.claims import WORK, must_differ
from holdfast.settings import Settings
from holdfast.transaction import (
    Call,
    Done,
    LostRace,
    Row,
    Steps,
    Transaction,
    autocommit,
    call,
    read,
    small_read,
    write,
)

# --- enqueue -----------------------------------------------------------------------------


@autocommit
def enqueue(env: Settings, at: Address, draft: QueuedWorkBatchDraft) -> Steps[EnqueueOutcome]:
    """Put a batch into its session's queue, or find what its source key stands for already."""
    batch = queue.encode(draft, env)
    at.check_same(draft.session_id)

    async def steps(tx: Transaction) -> EnqueueOutcome:
        storing = enqueue_call([batch], bound_key=at.key)
        row = await tx.maybe(storing.name, **storing.params)
        if row is not None:
            at.met(row)
            return queue.created(batch, row)
        found = await tx.maybe("known_work", drafts=keys_document([batch]))
        at.met(found)
        if found is None or found["seq"] is None:
            raise LostRace(at.session_id)
        return queue.known(batch, found)

    return steps


@write
def enqueue_many(
    env: Settings, drafts: Collection[QueuedWorkBatchDraft]
) -> Steps[list[EnqueueOutcome]]:
    """Put batches into the queues of any sessions, all of them or none; outcomes in order."""
    batches = queue.encode_all(drafts, "drafts", checks.MAX_ITEMS, env)
    if not batches:
        return Done([])
    keyed = [batch for batch in batches if batch.source_key is not None]

    async def steps(tx: Transaction) -> list[EnqueueOutcome]:
        calls = [enqueue_call(batches)]
        if keyed:
            calls.append(call("held_work", drafts=keys_document(keyed)))
        stored, *known = await tx.conclude(*calls)
        made = {row["batch_id"]: row for row in stored}
        holders = {row["place"]: row for rows in known for row in rows}
        return [_outcome(batch, made, holders) for batch in batches]

    return steps


def _outcome(
    batch: queue.Batch, made: Mapping[str, Row], holders: Mapping[int, Row]
) -> EnqueueOutcome:
    row = made.get(batch.batch_id)
    return queue.known(batch, holders[batch.place]) if row is None else queue.created(batch, row)


def enqueue_call(
    batches: Sequence[queue.Batch], *, bound_key: int | None = None, at_ms: int | None = None
) -> Call:
    """Enqueues drafts; a commit says as of when, since its section is held already."""
    return call("enqueue_work", drafts=_document(batches), bound_key=bound_key, at_ms=at_ms)


def keys_document(batches: Sequence[queue.Batch]) -> str:
    """What `known_work` asks for."""
    asked = [
        {"place": b.place, "session_id": b.session_id, "source_key": b.source_key} for b in batches
    ]
    return msgspec.json.encode(asked).decode()


def _document(batches: Sequence[queue.Batch]) -> str:
    return msgspec.json.encode([batch.columns() for batch in batches]).decode()


# --- list and cancel ---------------------------------------------------------------------


@read
def list_work(
    env: Settings, at: Address, limit: int = 100, after_seq: int = 0
) -> Steps[list[QueuedWorkBatch]]:
    """Every stored batch of the session, claimed ones too, in the order of its queue."""
    return _list(at, limit, after_seq, pending=False)


@read
def list_pending(
    env: Settings, at: Address, limit: int = 100, after_seq: int = 0
) -> Steps[list[QueuedWorkBatch]]:
    """As `list`, without what a live claim holds; what is not yet available is there."""
    return _list(at, limit, after_seq, pending=True)


def _list(
    at: Address, limit: int, after_seq: int, *, pending: bool
) -> Steps[list[QueuedWorkBatch]]:
    page = {
        "after_seq": checks.count(after_seq, "after_seq"),
        "limit": checks.limit(limit),
        "pending": pending,
    }
    if limit == 0:
        return Done([])

    async def steps(tx: Transaction) -> list[QueuedWorkBatch]:
        sessions, rows = await tx.conclude(
            call("read_lease", session_id=at.session_id),
            call("list_work", session_id=at.session_id, **page),
        )
        at.met(sessions[0] if sessions else None)
        return [queue.batch(row, at.session_id) for row in rows]

    return steps


@write
def cancel(env: Settings, at: Address, batch_id: str) -> Steps[QueuedWorkBatch | None]:
    """Remove a batch that no live claim holds, and return it; none if there is no such batch."""
    checks.identifier(batch_id, "batch_id")

    async def steps(tx: Transaction) -> QueuedWorkBatch | None:
        entered, removed, _ = await tx.conclude(
            call("lock_section", session_id=at.session_id),
            call("cancel_work", session_id=at.session_id, bound_key=at.key, batch_id=batch_id),
            call("trim_readiness", session_id=at.session_id),
        )
        at.met(entered[0] if entered else None)
        return queue.removed_batch(removed[0], at.session_id) if removed else None

    return steps


# --- claims ------------------------------------------------------------------------------


@write
def claim(
    env: Settings, at: Address, lease: Lease, boundary: Boundary = "idle", max_batches: int = 1
) -> Steps[QueuedWorkClaim | None]:
    """Take the first ready work and what joins it; none where a command or nothing comes first."""
    queue.check_boundary(boundary)
    if checks.limit(max_batches, "max_batches") == 0:
        return Done(None)
    return claiming(at, lease, claim_call(env, at, lease, boundary, max_batches), claimed)


@write
def claim_command(env: Settings, at: Address, lease: Lease) -> Steps[QueuedWorkClaim | None]:
    """Take the session command that comes first; none where something else, or nothing, does."""
    taken = call(
        "claim_work", **fence_and_token(env, at, lease), **_asked(queue.COMMAND, "idle", 1)
    )
    return claiming(at, lease, taken, claimed)


@write
def claim_exactly(
    env: Settings, at: Address, lease: Lease, boundary: Boundary, batch_ids: Collection[str]
) -> Steps[QueuedWorkClaim | None]:
    """Take exactly these batches, if they are ready and join each other; else none of them."""
    queue.check_boundary(boundary)
    ids = [checks.identifier(each, "batch_ids") for each in checks.listed(batch_ids, "batch_ids")]
    must_differ(ids, "batch_ids")
    if not ids:
        return Done(None)
    asked = {"class": "turn_work", "boundary": boundary, "batch_ids": ids, "count": len(ids)}
    taken = call("claim_work_exactly", **fence_and_token(env, at, lease), **asked)
    return claiming(at, lease, taken, claimed)


def claim_call(
    env: Settings, at: Address, lease: Lease, boundary: Boundary, max_batches: int
) -> Call:
    """Claims ready turn work, behind the section's lock."""
    asked = _asked("turn_work", boundary, max_batches)
    return call("claim_work", **fence_and_token(env, at, lease), **asked)


def _asked(work_class: str, boundary: str, max_batches: int) -> dict[str, Any]:
    # Of any number, since nobody asked for certain ones.
    return {"class": work_class, "boundary": boundary, "max_batches": max_batches, "count": 0}


def claimed(at: Address, lease: Lease, rows: list[Row], taking: Call) -> QueuedWorkClaim | None:
    """The claim that a statement made, if it took anything."""
    taken = taken_by(rows)
    if not taken:
        return None
    batches = [queue.batch(row, at.session_id) for row in taken]
    return QueuedWorkClaim(**claim_of(at, lease, taken, taking), batches=batches)


@write
def abandon(env: Settings, at: Address, claim: QueuedWorkClaim) -> Steps[int]:
    """Give a claim's batches back; those it does not own any more stay as they are."""
    return abandoning("abandon_work", WORK, [claim], at)


@write
def abandon_many(env: Settings, claims: Collection[QueuedWorkClaim]) -> Steps[int]:
    """Give several claims back, of any sessions, in one transaction."""
    return abandoning("abandon_work", WORK, checks.listed(claims, "claims"), None)


# --- who has something to do -------------------------------------------------------------


@read
def ready_sessions(
    env: Settings, limit: int = 100, after: ReadySession | None = None
) -> Steps[list[ReadySession]]:
    """Sessions that nobody runs and that have something to do, longest ready first."""
    last = ReadySession("", -checks.MAX_INTEGER) if after is None else after
    checks.record(last, ReadySession, "after")
    page = {
        "after_ready": checks.instant(last.ready_since_ms, "after.ready_since_ms"),
        "after_id": checks.text(last.session_id, "after.session_id", checks.IDENTIFIER_BYTES),
        "limit": checks.limit(limit),
    }
    if limit == 0:
        return Done([])

    async def steps(tx: Transaction) -> list[ReadySession]:
        (rows,) = await tx.conclude(call("ready_sessions", **page))
        return [ReadySession(row["id"], row["ready_at_ms"]) for row in rows]

    return steps


@small_read
def next_ready_at_ms(env: Settings) -> Steps[int | None]:
    """When the next batch that waits for its time becomes available; none if none does."""

    async def steps(tx: Transaction) -> int | None:
        row = await tx.maybe("next_ready")
        return None if row is None else row["ready_at_ms"]

    return steps
