"""Scenarios of queued work: every operation of the queue, and commits that settle it."""

from __future__ import annotations

from typing import Any

from holdfast import Group
from holdfast.testing.contract.lanes import enqueue, submit, work
from holdfast.testing.contract.samples import commit, lease_on, put, turn
from tests.faults.scenarios import Scenario

KEYS = ("once", None)
MANY = [
    work("known", source_key="known"),
    work("new", source_key="new"),
    work("new", source_key="new"),
    work("elsewhere", session_id="s2", available_at_ms=2**60),
]
OUTBOX = [work("0", source_key="once"), work("new"), work("new", source_key="new")]


def _nothing(store: Any) -> None:
    """Nobody was here before."""


def _queue(store: Any) -> tuple[Any, list[str]]:
    """A command before work that joins, keyed and not; the lease, and the ids of the batches."""
    drafts = [
        work("command", payloads=[{"type": "session_command"}]),
        *(
            work(f"{n}", slot_policy="join", merge_key=Group("g"), source_key=KEYS[n])
            for n in (0, 1)
        ),
        work("later", available_at_ms=2**60),
    ]
    outcomes = store.queue.enqueue_many(drafts)
    return lease_on(store, "s1"), [each.batch_id for each in outcomes]


def _turn_queue(store: Any) -> tuple[Any, list[str]]:
    """As `_queue`, with the command out of the way."""
    lease, ids = _queue(store)
    store.queue.cancel("s1", ids[0])
    return lease, ids


def _taken(store: Any) -> list[Any]:
    """Claims on the queues of two sessions."""
    lease, _ = _turn_queue(store)
    enqueue(store, session_id="s2")
    others = lease_on(store, "s2")
    return [store.queue.claim(lease, max_batches=5), store.queue.claim(others)]


def _queue_claimed(store: Any) -> dict[str, Any]:
    """What settles two claims: work that leaves receipts, and the command."""
    lease, _ = _queue(store)
    command = store.queue.claim_command(lease)
    joined = store.queue.claim(lease, max_batches=5)
    return {
        "session_execution_lease": lease,
        "completed_queue_claims": [command, joined],
        "originating_claims": [joined],
    }


def _receipts(store: Any) -> None:
    for session_id in ("s1", "s2"):
        for number in range(3):
            enqueue(store, f"{number}", session_id=session_id, source_key=f"{number}")
        lease = lease_on(store, session_id)
        claims = [store.queue.claim(lease) for _ in range(3)]
        store.sessions.commit(
            commit(session_id, session_execution_lease=lease, completed_queue_claims=claims)
        )


def _lanes_left(store: Any) -> None:
    """What is left of a deleted session with batches, receipts and inputs."""
    _receipts(store)
    for number in range(3):
        enqueue(store, f"{number}")
        submit(store, f"{number}")
    store.sessions.delete("s1", force=True)


def _many(store: Any) -> None:
    """A first session with work under a source key, a second one that is not there."""
    enqueue(store, "known", source_key="known")


#: Each is one transaction.
WRITES = {
    "enqueue_first": Scenario(_nothing, lambda s, _: enqueue(s)),
    "enqueue": Scenario(_queue, lambda s, _: enqueue(s, available_at_ms=2**59)),
    "enqueue_keyed": Scenario(_queue, lambda s, _: enqueue(s, source_key="k", dedupe="pending")),
    "enqueue_many": Scenario(_many, lambda s, _: s.queue.enqueue_many(MANY)),
    "cancel_work": Scenario(_queue, lambda s, given: s.queue.cancel("s1", given[1][1])),
    "cancel_last_work": Scenario(
        lambda s: enqueue(s).batch_id, lambda s, batch_id: s.queue.cancel("s1", batch_id)
    ),
    "claim_work": Scenario(_turn_queue, lambda s, given: s.queue.claim(given[0], "idle", 5)),
    "claim_command": Scenario(_queue, lambda s, given: s.queue.claim_command(given[0])),
    "claim_exactly": Scenario(
        _queue, lambda s, given: s.queue.claim_exactly(given[0], "idle", given[1][1:3])
    ),
    "abandon_work": Scenario(_taken, lambda s, claims: s.queue.abandon(claims[0])),
    "abandon_many": Scenario(_taken, lambda s, claims: s.queue.abandon_many(claims)),
    "completing_commit": Scenario(
        _queue_claimed,
        lambda s, given: s.sessions.commit(
            commit("s1", turn_commit=turn("t1"), enqueued_queue_batches=OUTBOX, **given)
        ),
    ),
    "momentary_outbox": Scenario(
        _queue, lambda s, _: put(s, "s2", enqueued_queue_batches=[work("sent", "s2")])
    ),
}

#: Each is a row of transactions.
LEVERS = {
    "prune_receipts": Scenario(
        _receipts, lambda s, _: s.sessions.prune_settled_source_keys("s1", 2**60, limit=2)
    ),
    "prune_all_receipts": Scenario(
        _receipts, lambda s, _: s.maintenance.prune_settled_source_keys(2**60, limit=2)
    ),
    "vacuum_lanes": Scenario(_lanes_left, lambda s, _: s.maintenance.vacuum(limit=2)),
}
