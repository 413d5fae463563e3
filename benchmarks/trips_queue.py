"""Operations of queued work and turn inputs whose round trips are counted, one item and many."""

from __future__ import annotations

from typing import Any

from benchmarks.trips_kit import LATER, MANY, OWNER, Given, Row, new
from holdfast import (
    ANY,
    ActiveTurn,
    Append,
    NextTurn,
    Node,
    PendingTurnInputDraft,
    QueuedWorkBatchDraft,
    QueuedWorkClaim,
    RuntimeCommit,
    TurnInputClaim,
    TurnStamp,
)

#: As many inputs, or sessions of their own, as do not take long to make.
SOME = 20
TURN = "turn"


class Lane:
    """A session of its own with a held lease, and work and inputs to try things on."""

    def __init__(self, store: Any) -> None:
        self.store = store
        self.name = new("lane")
        self.lease = store.sessions.claim_lease(self.name, OWNER, 3_600_000).lease

    def drafts(self, count: int, **fields: Any) -> list[QueuedWorkBatchDraft]:
        """Batches that join each other."""
        given = {
            "delivery_policy": "earliest_safe_boundary",
            "slot_policy": "join",
            "merge_key": "payload_default",
            "payloads": [{"type": "item"}],
        } | fields
        return [QueuedWorkBatchDraft(session_id=self.name, **given) for _ in range(count)]

    def filled(self, count: int, **fields: Any) -> Lane:
        """With so many batches."""
        self.store.queue.enqueue_many(self.drafts(count, **fields))
        return self

    def fed(self, count: int, *, turn: str | None = None) -> Lane:
        """With so many inputs."""
        for _ in range(count):
            self.store.inputs.enqueue(self.input(turn))
        return self

    def input(self, turn: str | None = None) -> PendingTurnInputDraft:
        """An input for a turn, or for the next one."""
        ingress = NextTurn() if turn is None else ActiveTurn(turn)
        return PendingTurnInputDraft(session_id=self.name, ingress=ingress, input={"text": "hi"})

    def input_ids(self) -> list[str]:
        """The inputs that wait."""
        return [each.input_id for each in self.store.inputs.list_pending(self.name)]

    def batch_ids(self) -> list[str]:
        """The batches that wait."""
        return [each.batch_id for each in self.store.queue.list(self.name, MANY)]

    def claim(self, count: int) -> QueuedWorkClaim:
        """Take so many batches."""
        claim: QueuedWorkClaim = self.store.queue.claim(self.lease, "idle", count)
        return claim

    def settling(self, claim: QueuedWorkClaim, outbox: int = 0) -> RuntimeCommit:
        """A stamped commit that completes a claim and enqueues follow-up work."""
        return RuntimeCommit(
            session_id=self.name,
            expected_head_revision=ANY,
            session_execution_lease=self.lease,
            turn_commit=TurnStamp(self.name, new("turn")),
            graph=Append([Node(node_id=new("n"), body={})]),
            completed_queue_claims=[claim],
            enqueued_queue_batches=self.drafts(outbox, slot_policy="exclusive"),
            interrupted_turn_input_turn_id=TURN,
        )


# --- queued work -----------------------------------------------------------------------------


def draft(**fields: Any) -> Given:
    """One batch to enqueue."""
    return lambda store: tuple(Lane(store).drafts(1, **fields))


def a_session(store: Any) -> tuple[str]:
    """A session in which many batches wait."""
    return (Lane(store).filled(MANY).name,)


def a_batch(store: Any) -> tuple[str, str]:
    """A session, and the batch that waits in it."""
    lane = Lane(store).filled(1)
    return lane.name, lane.batch_ids()[0]


def waiting(count: int) -> Given:
    """What to claim where so many wait."""
    return lambda store: (Lane(store).filled(count).lease, "idle", max(1, count))


def a_command(store: Any) -> tuple[Any]:
    """The lease of a session in which a command waits."""
    payloads = [{"type": "session_command", "name": "command"}]
    return (Lane(store).filled(1, payloads=payloads, slot_policy="exclusive").lease,)


def certain(store: Any) -> tuple[Any, str, list[str]]:
    """What to claim by name."""
    lane = Lane(store).filled(MANY)
    return lane.lease, "idle", lane.batch_ids()


def claimed(store: Any) -> tuple[QueuedWorkClaim]:
    """A claim of many."""
    return (Lane(store).filled(MANY).claim(MANY),)


def claimed_in_several(store: Any) -> tuple[list[QueuedWorkClaim]]:
    """Claims in sessions of their own."""
    return ([Lane(store).filled(1).claim(1) for _ in range(SOME)],)


def settled(store: Any) -> tuple[RuntimeCommit]:
    """A commit that completes many, with an outbox of as many."""
    lane = Lane(store).filled(MANY)
    return (lane.settling(lane.claim(MANY), MANY),)


def ready(store: Any) -> tuple[()]:
    """A session in which a batch waits that nobody runs."""
    store.sessions.release_lease(Lane(store).filled(1).lease)
    return ()


def ready_later(store: Any) -> tuple[()]:
    """A session in which a batch will be ready."""
    lane = Lane(store).filled(1, available_at_ms=LATER)
    store.sessions.release_lease(lane.lease)
    return ()


QUEUE = (
    Row("enqueue", "queue.enqueue", 1, draft()),
    Row("enqueue under a source key", "queue.enqueue", 1, draft(source_key="key")),
    Row(
        f"enqueue {MANY} batches",
        "queue.enqueue_many",
        1,
        lambda store: (Lane(store).drafts(MANY),),
    ),
    Row("list queued work", "queue.list", 1, a_session),
    Row("list work that is not claimed", "queue.list_pending", 1, a_session),
    Row("cancel a batch", "queue.cancel", 1, a_batch),
    Row("claim a batch", "queue.claim", 1, waiting(1)),
    Row("claim where nothing is ready", "queue.claim", 1, waiting(0)),
    Row(f"claim {MANY} batches", "queue.claim", 1, waiting(MANY)),
    Row("claim a command", "queue.claim_command", 1, a_command),
    Row(f"claim exactly {MANY} batches", "queue.claim_exactly", 1, certain),
    Row(f"abandon a claim of {MANY}", "queue.abandon", 1, claimed),
    Row(f"abandon {SOME} claims", "queue.abandon_many", 1, claimed_in_several),
    Row(f"turn commit completing {MANY}, with an outbox of {MANY}", "sessions.commit", 2, settled),
    Row("ready sessions", "queue.ready_sessions", 1, ready),
    Row("when the next batch is ready", "queue.next_ready_at_ms", 1, ready_later),
)


# --- turn inputs -----------------------------------------------------------------------------


def submitted(store: Any) -> tuple[str]:
    """A session in which inputs wait."""
    return (Lane(store).fed(SOME).name,)


def all_inputs(store: Any) -> tuple[str, list[str]]:
    """A session and the inputs that wait in it."""
    lane = Lane(store).fed(SOME)
    return lane.name, lane.input_ids()


def first_input(store: Any) -> tuple[str, str]:
    """A session and the first of the inputs that wait in it."""
    name, input_ids = all_inputs(store)
    return name, input_ids[0]


def fed(store: Any, turn: str | None = None) -> tuple[Any]:
    """The lease of a session in which inputs wait."""
    return (Lane(store).fed(SOME, turn=turn).lease,)


def taken(store: Any) -> TurnInputClaim:
    """A claim of inputs."""
    claim: TurnInputClaim = store.inputs.claim_next(*fed(store))
    return claim


def orphaned(store: Any) -> tuple[Any, str]:
    """The lease of a session, and a turn whose inputs an earlier lease took."""
    lane = Lane(store).fed(SOME, turn=TURN)
    store.inputs.claim_active(lane.lease, TURN, "after_work")
    store.sessions.release_lease(lane.lease)
    return store.sessions.claim_lease(lane.name, OWNER).lease, TURN


def at_checkpoint(lane: Lane) -> tuple[Any, ...]:
    """What to claim at a checkpoint of both lanes."""
    return lane.lease, TURN, "after_work", MANY, MANY


INPUTS = (
    Row("submit an input", "inputs.enqueue", 1, lambda store: (Lane(store).input(),)),
    Row("list inputs", "inputs.list", 1, submitted),
    Row("list pending inputs", "inputs.list_pending", 1, submitted),
    Row(f"cancel {SOME} inputs", "inputs.cancel", 1, all_inputs),
    Row(f"cancel an input and the {SOME - 1} after it", "inputs.cancel_suffix", 1, first_input),
    Row(
        f"claim {SOME} inputs for a turn",
        "inputs.claim_active",
        1,
        lambda store: (*fed(store, TURN), TURN, "after_work"),
    ),
    Row(f"claim {SOME} inputs for the next turn", "inputs.claim_next", 1, fed),
    Row(f"abandon a claim of {SOME} inputs", "inputs.abandon", 1, lambda store: (taken(store),)),
    Row(
        "abandon 2 claims of inputs",
        "inputs.abandon_many",
        1,
        lambda store: ([taken(store), taken(store)],),
    ),
    Row(f"recover {SOME} inputs of a turn that has ended", "inputs.recover_orphaned", 1, orphaned),
    Row(
        "claim at a checkpoint, nothing there",
        "queue.claim_at_checkpoint",
        1,
        lambda store: at_checkpoint(Lane(store)),
    ),
    Row(
        "claim at a checkpoint, both lanes",
        "queue.claim_at_checkpoint",
        2,
        lambda store: at_checkpoint(Lane(store).filled(SOME).fed(SOME, turn=TURN)),
    ),
)

ROWS = (*QUEUE, *INPUTS)
