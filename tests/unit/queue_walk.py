"""A store beside its model of queued work: what they answer, and how the two are compared."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from holdfast import Busy, HoldfastError, Lease, ReadySession
from holdfast.testing.clock import CountingIds
from holdfast.testing.contract.lanes import said
from holdfast.testing.contract.samples import ALICE, BOB
from holdfast.testing.world import World
from tests.unit.graph_model import Refusal
from tests.unit.queue_draws import SESSIONS
from tests.unit.queue_model import Batch, Known, ModelQueue, whole


class Pair:
    """A store and its model, and what goes on around a queue."""

    def __init__(self, world: World, seed: int) -> None:
        self.world = world
        self.store = world.open(ids=CountingIds())
        self.model: dict[str, ModelQueue] = {}
        self.random = random.Random(seed)
        self.log: list[str] = []
        #: Whatever was handed out, live or not.
        self.leases: list[Lease] = []
        self.claims: list[Any] = []
        self.batch_ids: list[str] = ["qwb:unknown"]

    @property
    def now(self) -> int:
        return self.world.clock.now_ms()

    def told(self) -> str:
        return "\n".join(["the last steps:", *self.log[-15:]])

    def same(self, expected: Callable[[], Any], actual: Callable[[], Any], what: Any) -> Any:
        """Do both; the two answers, or none where both refuse for the same reason."""
        self.log[-1] += f" {what}"
        wanted, given = attempted(expected), attempted(actual)
        if isinstance(wanted, Refusal) or isinstance(given, Refusal):
            self.log[-1] += f" -> {wanted!r}"
            assert repr(wanted) == repr(given), self.told()
            return None
        return wanted, given

    def lists(self, batches: list[Batch], actual: Callable[[], Any]) -> None:
        """Compare a listing."""
        wanted = attempted(lambda: rows(whole(batches)))
        given = attempted(lambda: list(map(shown, actual())))
        refused = isinstance(wanted, Refusal) or isinstance(given, Refusal)
        assert repr(wanted) == repr(given) if refused else wanted == given, self.told()

    def near(self, session_id: str) -> list[str]:
        """Ids of batches, most of them in the session's queue."""
        own = [row.batch_id for row in self.known(session_id).rows]
        return [*own, *own, *own, *self.random.sample(self.batch_ids, 1)]

    def at(self, session_id: str) -> ModelQueue:
        """The session's queue, which there is from now on."""
        return self.model.setdefault(session_id, ModelQueue())

    def known(self, session_id: str) -> ModelQueue:
        """The session's queue, or that of a session without a row."""
        return self.model.get(session_id) or ModelQueue()

    # --- leases and time ---------------------------------------------------------------

    def take_lease(self, session_id: str) -> None:
        owner, ttl_ms = self.random.choice([ALICE, BOB]), self.random.choice([0, 60, 200, 200])
        queue = self.at(session_id)
        expected = queue.acquires(owner, self.now)
        outcome = self.store.sessions.claim_lease(session_id, owner, ttl_ms)
        lease = None if isinstance(outcome, Busy) else outcome.lease
        assert (lease and lease.generation) == expected, self.told()
        if lease is not None:
            queue.acquired(lease)
            self.leases.append(lease)

    def release(self, session_id: str) -> None:
        lease = self.lease(session_id)
        if lease is not None:
            expected = self.known(lease.session_id).releases(lease)
            assert self.store.sessions.release_lease(lease) == expected, self.told()

    def lease(self, session_id: str) -> Lease | None:
        """The session's lease if it is held, or now and then any there was."""
        holder = self.known(session_id).holder
        if self.random.random() < 0.1 and self.leases:
            return self.random.choice(self.leases)
        return holder

    def advance(self, _: str) -> None:
        self.world.clock.advance(self.random.choice([1, 5, 20, 20, 60]))

    # --- inputs, which make a session ready as well ------------------------------------

    def submit(self, session_id: str) -> None:
        record = self.store.inputs.enqueue(said(session_id=session_id))
        self.at(session_id).inputs[record.input_id] = self.now

    def withdraw(self, session_id: str) -> None:
        own = self.known(session_id).inputs
        for input_id in list(own)[:1]:
            self.store.inputs.cancel(session_id, [input_id])
            del own[input_id]

    # --- damage, found and mended -----------------------------------------------------

    def damage(self, session_id: str) -> None:
        batches = self.known(session_id).batches
        if batches and not any(row.damaged for row in batches):
            row = self.random.choice(batches)
            row.damaged = True
            self.beneath("UPDATE {work} SET payloads = payloads || '!' WHERE batch_id = ?", row)

    def mend(self, session_id: str) -> None:
        for row in self.known(session_id).batches:
            if row.damaged:
                row.damaged = False
                self.beneath(
                    "UPDATE {work} SET payloads = rtrim(payloads, '!') WHERE batch_id = ?", row
                )

    def beneath(self, text: str, row: Batch) -> None:
        self.world.sql(self.store, text, row.batch_id)

    # --- comparing ---------------------------------------------------------------------

    def compare(self) -> None:
        for session_id in SESSIONS:
            queue, store = self.known(session_id), self.store.queue
            self.lists(queue.batches, partial(store.list, session_id))
            self.lists(queue.pending(self.now), partial(store.list_pending, session_id))
        self.compare_page(self.random.choice(SESSIONS))
        self.compare_ready()

    def compare_page(self, session_id: str) -> None:
        """A page of either list, behind a batch of the first page."""
        queue, act = self.known(session_id), self.store.queue.list
        batches = queue.batches
        if any(row.damaged for row in batches) or not batches:
            return
        place = self.random.randrange(len(batches))
        after = act(session_id)[place].enqueue_seq
        pending = [row for row in batches[place + 1 :] if row in queue.pending(self.now)]
        page = act(session_id, 2, after)
        assert list(map(shown, page)) == rows(batches[place + 1 :][:2]), self.told()
        page = self.store.queue.list_pending(session_id, 2, after)
        assert list(map(shown, page)) == rows(pending[:2]), self.told()

    def compare_ready(self) -> None:
        found = {key: queue.ready_since(self.now) for key, queue in self.model.items()}
        ready = sorted((since, key) for key, since in found.items() if since is not None)
        expected = [ReadySession(key, since) for since, key in ready]
        assert self.store.queue.ready_sessions() == expected, self.told()
        if expected:
            first = self.store.queue.ready_sessions(limit=1)
            rest = self.store.queue.ready_sessions(after=first[0])
            assert first + rest == expected, self.told()
        later = (row.draft.available_at_ms for q in self.model.values() for row in q.batches)
        awaited = min((at_ms for at_ms in later if at_ms > self.now), default=None)
        assert self.store.queue.next_ready_at_ms() == awaited, self.told()


def attempted(action: Callable[[], Any]) -> Any:
    """What it answered, or how it was refused."""
    try:
        return action()
    except Refusal as refusal:
        return refusal
    except HoldfastError as error:
        return Refusal(error.code, detail(error))


def detail(error: Any) -> str | None:
    """What of an error the model foretells."""
    if error.code == "corrupt_record":
        return str(error.key)
    if error.code == "queued_work_claim_superseded":
        return str(error.unowned_batch_ids)
    reason: str | None = getattr(error, "reason", None)
    return reason


def without_id(known: Known) -> Known:
    """An outcome without the id, which is compared by itself."""
    return Known(known.created, known.content_matches, known.settled)


def shown(batch: Any) -> tuple[Any, ...]:
    """All there is to a batch but its number."""
    prefix = f"{batch.batch_id}:item:"
    assert [item.item_id for item in batch.items] == [
        f"{prefix}{n}" for n in range(len(batch.items))
    ]
    fields = msgspec.structs.asdict(batch)
    del fields["enqueue_seq"]
    fields["items"] = [item.payload for item in batch.items]
    return tuple(fields.items())


def rows(batches: list[Batch]) -> list[Any]:
    """What the store has to show of some batches."""
    return [
        tuple(
            {
                "session_id": row.draft.session_id,
                "batch_id": row.batch_id,
                "enqueued_at_ms": row.enqueued_at_ms,
                "work_class": "session_command" if row.is_command else "turn_work",
                "items": row.draft.payloads,
                "delivery_policy": row.draft.delivery_policy,
                "slot_policy": row.draft.slot_policy,
                "merge_key": row.draft.merge_key,
                "source_key": row.draft.source_key,
                "available_at_ms": row.draft.available_at_ms,
                "dedupe": row.draft.dedupe,
            }.items()
        )
        for row in batches
    ]
