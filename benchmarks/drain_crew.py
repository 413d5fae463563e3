"""The processes of the drain check: those that enqueue, and those that claim and complete.

Each tells what it did in lines short enough to be written whole: a word, then numbers.
"""

from __future__ import annotations

import itertools
import os
import random
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection
from typing import Any

import holdfast
from holdfast import (
    ANY,
    Acquired,
    Append,
    Busy,
    EnqueueOutcome,
    Lease,
    LeaseLost,
    LeaseOwner,
    Node,
    QueuedWorkBatchDraft,
    QueuedWorkClaim,
    QueuedWorkClaimSuperseded,
    RuntimeCommit,
    TokenLedgerEntry,
    TokenUsage,
    TurnStamp,
)

#: Short, so that the sessions of the dead come back soon even where nobody proves the death.
LEASE_MS = 1_500
#: How long a worker pauses within a batch of its work, so that some are killed in the middle.
LONGEST_WORK_S = 0.004
AT_ONCE = 10


def draft(item: int, sessions: int) -> QueuedWorkBatchDraft:
    """The batch of one item: always the same one, whoever enqueues it and however often."""
    joins = item % 3 != 0
    return QueuedWorkBatchDraft(
        session_id=f"session-{item % sessions}",
        payloads=[{"type": "item", "item": item}],
        delivery_policy="earliest_safe_boundary",
        slot_policy="join" if joins else "exclusive",
        merge_key="payload_default" if joins else "never",
        source_key=f"item-{item}",
    )


def enqueue(
    url: str, schema: str, items: list[int], sessions: int, seed: int, pipe: Connection
) -> None:
    """Enqueue items in order, one by one or several at once, and some of them twice."""
    dice = random.Random(seed)
    left = list(items)
    with holdfast.open(url, schema=schema) as store:
        while left:
            count = dice.choice((1, 1, 1, AT_ONCE))
            taken, left = left[:count], left[count:]
            outcomes = _enqueued(store, [draft(item, sessions) for item in taken])
            if dice.random() < 0.05:
                outcomes += _enqueued(store, [draft(item, sessions) for item in taken])
            _say(pipe, "enqueued", len(taken), sum(not each.created for each in outcomes))


def _enqueued(store: holdfast.Store, drafts: list[QueuedWorkBatchDraft]) -> list[EnqueueOutcome]:
    if len(drafts) == 1:
        return [store.queue.enqueue(drafts[0])]
    return store.queue.enqueue_many(drafts)


def work(url: str, schema: str, sessions: int, seed: int, pipe: Connection) -> None:
    """Run sessions that have something to do, until there is nothing more to come."""
    dice = random.Random(seed)
    me = holdfast.local_process(f"worker-{seed}")
    with holdfast.open(url, schema=schema) as store:
        for session in dice.sample(range(sessions), sessions):
            _take_over(store, f"session-{session}", me, dice, pipe)
        while True:
            ready = store.queue.ready_sessions(limit=8)
            if not ready:
                time.sleep(0.01)
                continue
            outcome = store.sessions.claim_lease(dice.choice(ready).session_id, me, LEASE_MS)
            if isinstance(outcome, Acquired):
                _run(store, outcome.lease, dice, pipe)


def _take_over(
    store: holdfast.Store, session_id: str, me: LeaseOwner, dice: random.Random, pipe: Connection
) -> None:
    """Run a session whose holder is provably dead, without waiting for its lease to end."""
    holder = store.sessions.lease(session_id)
    if holder is None:
        return
    outcome = store.sessions.reclaim_lease(holder, me, LEASE_MS)
    if isinstance(outcome, Busy):
        return
    if holder.live:
        _say(pipe, "reclaimed")
    _run(store, outcome.lease, dice, pipe)


def _run(store: holdfast.Store, lease: Lease, dice: random.Random, pipe: Connection) -> None:
    """Claim and complete until the session is empty, or somebody else has it."""
    try:
        for claim in _claims(store, lease):
            time.sleep(dice.uniform(0, LONGEST_WORK_S))
            if dice.random() < 0.05:
                store.queue.abandon(claim)
                continue
            _complete(store, lease, claim, dice)
            _say(pipe, "settled", len(claim.batches))
        store.sessions.release_lease(lease)
    except (LeaseLost, QueuedWorkClaimSuperseded):
        _say(pipe, "refused")


def _claims(store: holdfast.Store, lease: Lease) -> Iterator[QueuedWorkClaim]:
    while (claim := store.queue.claim(lease, "idle", AT_ONCE)) is not None:
        yield claim


_attempts = itertools.count()


def _complete(
    store: holdfast.Store, lease: Lease, claim: QueuedWorkClaim, dice: random.Random
) -> None:
    """Settle a claim, with a message for each item that says which attempt this was.

    Its id is new with each attempt, so that an item settled twice leaves two messages.
    """
    attempt = f"{os.getpid()}-{next(_attempts)}"
    items: list[Any] = [item.payload for batch in claim.batches for item in batch.items]
    nodes = [
        Node(node_id=f"{each['item']}-{attempt}", body={"role": "assistant", "item": each["item"]})
        for each in items
    ]
    stamp = TurnStamp(lease.session_id, attempt) if dice.random() < 0.5 else None
    store.sessions.commit(
        RuntimeCommit(
            session_id=lease.session_id,
            expected_head_revision=ANY,
            session_execution_lease=lease,
            graph=Append(nodes),
            usage_deltas=[TokenLedgerEntry("drain", "items", TokenUsage(len(items)))],
            turn_commit=stamp,
            completed_queue_claims=[claim],
            originating_claims=[claim],
        )
    )


def _say(pipe: Connection, *words: Any) -> None:
    os.write(pipe.fileno(), (" ".join(map(str, words)) + "\n").encode())
