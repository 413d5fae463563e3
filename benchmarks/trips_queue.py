"""Operations of queued work and turn inputs whose round trips are counted, one item and many."""

from __future__ import annotations

import itertools
from typing import Any

from benchmarks.trips_kit import MANY, OWNER, Operation
from holdfast import (
    ANY,
    ActiveTurn,
    Append,
    NextTurn,
    Node,
    PendingTurnInputDraft,
    QueuedWorkBatchDraft,
    RuntimeCommit,
    TurnStamp,
)

_ids = itertools.count()


class Lane:
    """A session of its own with a held lease, and work and inputs to try things on."""

    def __init__(self, store: Any) -> None:
        self.store = store
        self.name = f"lane-{next(_ids)}"
        self.view = store.session(self.name)
        self.lease = self.view.claim_lease(OWNER, 3_600_000).lease

    def drafts(self, count: int, **fields: Any) -> list[QueuedWorkBatchDraft]:
        """Batches that join each other."""
        given = {
            "delivery_policy": "earliest_safe_boundary",
            "slot_policy": "join",
            "merge_key": "payload_default",
        } | fields
        payloads = [{"type": "item"}]
        return [
            QueuedWorkBatchDraft(session_id=self.name, payloads=payloads, **given)
            for _ in range(count)
        ]

    def filled(self, count: int) -> Lane:
        """With so many batches."""
        self.store.queue.enqueue_many(self.drafts(count))
        return self

    def fed(self, count: int, *, turn: str | None = None) -> Lane:
        """With so many inputs."""
        for _ in range(count):
            self.view.inputs.enqueue(self.input(turn))
        return self

    def input(self, turn: str | None = None) -> PendingTurnInputDraft:
        """An input for a turn, or for the next one."""
        ingress = NextTurn() if turn is None else ActiveTurn(turn)
        return PendingTurnInputDraft(session_id=self.name, ingress=ingress, input={"text": "hi"})

    def claim(self, count: int) -> Any:
        """Take so many batches."""
        return self.view.queue.claim(self.lease, "idle", count)

    def settle(self, claim: Any, outbox: int) -> Any:
        """Complete a claim by a stamped commit that enqueues follow-up work."""
        number = next(_ids)
        return self.view.commit(
            RuntimeCommit(
                session_id=self.name,
                expected_head_revision=ANY,
                session_execution_lease=self.lease,
                turn_commit=TurnStamp(self.name, f"turn-{number}"),
                graph=Append([Node(node_id=f"n{number}", body={})]),
                completed_queue_claims=[claim],
                enqueued_queue_batches=self.drafts(outbox, slot_policy="exclusive"),
                interrupted_turn_input_turn_id="turn",
            )
        )


def operations(store: Any) -> list[Operation]:
    """Queue and inputs."""
    return [*_queue(store), *_inputs(store)]


def _queue(store: Any) -> list[Operation]:
    def lane() -> Lane:
        return Lane(store)

    def claimed(count: int) -> tuple[Lane, Any]:
        made = lane().filled(count)
        return made, made.claim(count)

    return [
        Operation("enqueue", 1, lambda at: at.view.queue.enqueue(at.drafts(1)[0]), lane),
        Operation(
            "enqueue under a source key",
            1,
            lambda at: at.view.queue.enqueue(at.drafts(1, source_key="key")[0]),
            lane,
        ),
        Operation(
            f"enqueue {MANY} batches", 1, lambda at: store.queue.enqueue_many(at.drafts(MANY)), lane
        ),
        Operation("list queued work", 1, lambda at: at.view.queue.list(), lane),
        Operation(
            "cancel a batch",
            1,
            lambda at: at[0].view.queue.cancel(at[1]),
            lambda: (made := lane().filled(1), made.view.queue.list()[0].batch_id),
        ),
        Operation("claim a batch", 1, lambda at: at.claim(1), lambda: lane().filled(1)),
        Operation("claim where nothing is ready", 1, lambda at: at.claim(1), lane),
        Operation(
            f"claim {MANY} batches", 1, lambda at: at.claim(MANY), lambda: lane().filled(MANY)
        ),
        Operation(
            f"claim exactly {MANY} batches",
            1,
            lambda at: at[0].view.queue.claim_exactly(at[0].lease, "idle", at[1]),
            lambda: (
                made := lane().filled(MANY),
                [each.batch_id for each in made.view.queue.list(MANY)],
            ),
        ),
        Operation(
            f"abandon a claim of {MANY}",
            1,
            lambda at: at[0].view.queue.abandon(at[1]),
            lambda: claimed(MANY),
        ),
        Operation(
            f"turn commit completing {MANY}, with an outbox of {MANY}",
            2,
            lambda at: at[0].settle(at[1], MANY),
            lambda: claimed(MANY),
        ),
        Operation("ready sessions", 1, lambda _: store.queue.ready_sessions()),
        Operation("when the next batch is ready", 1, lambda _: store.queue.next_ready_at_ms()),
    ]


def _inputs(store: Any) -> list[Operation]:
    def lane() -> Lane:
        return Lane(store)

    def at_checkpoint(at: Lane) -> Any:
        return at.view.queue.claim_at_checkpoint(at.lease, "turn", "after_work", MANY, MANY)

    return [
        Operation("submit an input", 1, lambda at: at.view.inputs.enqueue(at.input()), lane),
        Operation("list pending inputs", 1, lambda at: at.view.inputs.list_pending(), lane),
        Operation(
            "cancel 20 inputs",
            1,
            lambda at: at[0].view.inputs.cancel(at[1]),
            lambda: (
                made := lane().fed(20),
                [each.input_id for each in made.view.inputs.list_pending()],
            ),
        ),
        Operation(
            "claim 20 inputs for the next turn",
            1,
            lambda at: at.view.inputs.claim_next(at.lease),
            lambda: lane().fed(20),
        ),
        Operation("claim at a checkpoint, nothing there", 1, at_checkpoint, lane),
        Operation(
            "claim at a checkpoint, both lanes",
            2,
            at_checkpoint,
            lambda: lane().filled(20).fed(20, turn="turn"),
        ),
    ]
