"""Section 11.2: how long a source key counts, and what is left of it (QUE-5, MNT-4)."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast import EnqueueOutcome, InvalidArgument
from holdfast.testing.clock import ManualClock
from holdfast.testing.contract.lanes import TTL_MS, names, queued, settle, work
from holdfast.testing.contract.samples import lease_on
from holdfast.testing.contract.test_backends_waiting import LOCKED, after
from holdfast.testing.contract.test_queue_keys import keyed
from holdfast.testing.world import World

MODES = ["once", "pending"]


def complete(store: Any, session_id: str = "s1") -> None:
    """Claim what comes first in a queue, and settle it."""
    lease = lease_on(store, session_id)
    claim = store.queue.claim(lease) or store.queue.claim_command(lease)
    settle(store, lease, completed_queue_claims=[claim], release_session_execution_lease=True)


def cancel(store: Any) -> None:
    """Cancel what comes first in a queue."""
    (batch,) = store.queue.list("s1", limit=1)
    assert store.queue.cancel("s1", batch.batch_id) == batch


def receipt(found: EnqueueOutcome, batch_id: str, matches: bool = True) -> bool:
    """Whether an answer is that of a settled key."""
    told = EnqueueOutcome(batch_id=batch_id, created=False, content_matches=matches, settled=True)
    return found == told


def test_a_key_is_not_forgotten_while_somebody_is_in_its_section(world: World, store: Any) -> None:
    """Where it was found settled, its receipt is there until that is told."""
    for act in (
        lambda: store.sessions.prune_settled_source_keys("s1", 2**60),
        lambda: store.maintenance.prune_settled_source_keys(2**60),
    ):
        store.queue.enqueue(work(source_key="k"))
        complete(store)

        assert after(world, store, LOCKED, act=act) == 1


class TestHorizon:
    """QUE-5: how long a key counts."""

    @pytest.mark.scenario("QUE-T26")
    @pytest.mark.parametrize("mode", MODES)
    def test_a_wake_delivered_twice_is_one_batch_until_it_is_done(
        self, store: Any, mode: str
    ) -> None:
        wake = work(
            payloads=[{"type": "process_wake", "delivery": {"wake": 1}}],
            delivery_policy="earliest_safe_boundary",
            source_key="wake-1",
            dedupe=mode,
        )
        first = store.queue.enqueue(wake)
        assert not store.queue.enqueue(wake).created
        assert store.queue.list("s1") == [first.batch]
        complete(store)

        after = store.queue.enqueue(wake)

        if mode == "pending":
            assert (after.created, after.settled) == (True, False)
            assert after.batch_id != first.batch_id
            assert store.queue.list("s1") == [after.batch]
        else:
            assert receipt(after, first.batch_id)
            assert store.queue.list("s1") == []

    @pytest.mark.parametrize("later", MODES)
    def test_a_settled_key_is_settled_for_a_draft_of_either_mode(
        self, world: World, store: Any, later: str
    ) -> None:
        first = store.queue.enqueue(keyed(dedupe="once"))
        complete(store)
        before = world.dump(store)

        one = store.queue.enqueue(keyed(dedupe=later))
        (many,) = store.queue.enqueue_many([keyed(dedupe=later)])

        assert receipt(one, first.batch_id)
        assert receipt(many, first.batch_id)
        assert world.dump(store) == before

    def test_a_receipt_tells_whether_the_content_was_the_same(self, store: Any) -> None:
        first = store.queue.enqueue(keyed())
        complete(store)

        assert receipt(store.queue.enqueue(keyed(name="b")), first.batch_id, matches=False)

    @pytest.mark.parametrize("later", MODES)
    def test_the_horizon_is_that_of_the_stored_batch(self, store: Any, later: str) -> None:
        store.queue.enqueue(keyed(dedupe="pending"))
        store.queue.enqueue(keyed(dedupe=later))
        complete(store)

        assert store.queue.enqueue(keyed(dedupe=later)).created

    def test_a_command_leaves_a_receipt_as_well(self, store: Any) -> None:
        draft = keyed(payloads=[{"type": "session_command", "kind": "reset_session"}])
        first = store.queue.enqueue(draft)
        complete(store)

        assert receipt(store.queue.enqueue(draft), first.batch_id)

    def test_a_receipt_counts_in_its_own_session_only(self, store: Any) -> None:
        store.queue.enqueue(keyed())
        complete(store)

        assert store.queue.enqueue(keyed(session_id="s2")).created

    @pytest.mark.parametrize("mode", MODES)
    def test_a_cancelled_batch_leaves_no_receipt(self, world: World, store: Any, mode: str) -> None:
        first = store.queue.enqueue(keyed(dedupe=mode))
        cancel(store)
        assert world.sql(store, "SELECT count(*) FROM {work}") == [(0,)]

        again = store.queue.enqueue(keyed(name="b", dedupe=mode))

        assert (again.created, again.settled) == (True, False)
        assert again.batch_id != first.batch_id
        assert queued(store) == ["b"]


class TestPruning:
    """MNT-4: a receipt that is pruned is as if it had never been."""

    def settled(self, store: Any, *keys: str, session_id: str = "s1") -> None:
        for key in keys:
            store.queue.enqueue(keyed(source_key=key, session_id=session_id))
            complete(store, session_id)

    def test_a_pruned_key_is_free(self, store: Any, clock: ManualClock) -> None:
        self.settled(store, "k")

        assert store.sessions.prune_settled_source_keys("s1", clock.now_ms() + 1) == 1

        again = store.queue.enqueue(keyed(name="b"))
        assert (again.created, queued(store)) == (True, ["b"])
        assert store.sessions.prune_settled_source_keys("s1", clock.now_ms() + 1) == 0

    def test_a_receipt_from_the_instant_on_stays(self, store: Any, clock: ManualClock) -> None:
        self.settled(store, "before")
        instant = clock.advance(1)
        self.settled(store, "then")

        assert store.sessions.prune_settled_source_keys("s1", instant) == 1

        assert store.queue.enqueue(keyed(source_key="before")).created
        assert store.queue.enqueue(keyed(source_key="then")).settled

    def test_stored_batches_stay(self, store: Any, clock: ManualClock) -> None:
        self.settled(store, "done")
        batches = [store.queue.enqueue(keyed(source_key=key)).batch for key in ("a", "b")]
        store.queue.claim(lease_on(store, "s1"))

        assert store.sessions.prune_settled_source_keys("s1", clock.now_ms() + TTL_MS) == 1

        assert store.queue.list("s1") == batches

    def test_one_session_is_pruned_and_no_other(self, store: Any, clock: ManualClock) -> None:
        for session_id in ("s1", "s2"):
            self.settled(store, "k", session_id=session_id)

        assert store.session("s1").prune_settled_source_keys(clock.now_ms() + 1) == 1

        assert store.queue.enqueue(keyed(session_id="s2")).settled
        assert store.queue.enqueue(keyed()).created

    def test_all_sessions_are_pruned_in_batches(self, store: Any, clock: ManualClock) -> None:
        for session_id in ("s1", "s2"):
            self.settled(store, "a", "b", "c", session_id=session_id)

        assert store.maintenance.prune_settled_source_keys(clock.now_ms() + 1, limit=2) == 6

        outcomes = store.queue.enqueue_many([keyed(source_key=key) for key in "abc"])
        assert [outcome.created for outcome in outcomes] == [True] * 3
        assert names(store.queue.list("s1")) == ["a"] * 3

    def test_a_limit_of_nothing_prunes_nothing(self, store: Any, clock: ManualClock) -> None:
        self.settled(store, "k")
        end = clock.now_ms() + 1

        assert store.sessions.prune_settled_source_keys("s1", end, limit=0) == 0
        assert store.maintenance.prune_settled_source_keys(end, limit=0) == 0
        with pytest.raises(InvalidArgument):
            store.maintenance.prune_settled_source_keys(end, limit=-1)

        assert store.queue.enqueue(keyed()).settled
