"""Section 11.3: a claim lives as long as the lease it was taken with."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast import (
    QueuedWorkClaimSuperseded,
)
from holdfast.testing.clock import ManualClock
from holdfast.testing.contract.lanes import (
    ENDINGS,
    TTL_MS,
    enqueue,
    mortal,
    names,
    queued,
    renewed,
    settle,
    submit,
    succeeded,
    taken_over,
)
from holdfast.testing.contract.samples import ALICE, lease_on, put
from holdfast.testing.world import World

JOINS = {"slot_policy": "join", "merge_key": "payload_default"}


def pending_work(store: Any, session_id: str = "s1") -> list[str]:
    """The names of what no live claim holds."""
    return names(store.queue.list_pending(session_id))


def given_back(store: Any, claim: Any) -> None:
    """End a claim by hand."""
    assert store.queue.abandon(claim) == 1


class TestWhileItLives:
    """QUE-8: exactly while the lease is live with the generation of the claim."""

    @pytest.mark.scenario("QUE-T7")
    def test_claimed_work_is_listed_but_neither_pends_nor_can_be_cancelled(
        self, store: Any
    ) -> None:
        batch = enqueue(store, "a").batch
        store.queue.claim(lease_on(store, "s1"))

        assert store.queue.list_pending("s1") == []
        assert store.queue.list("s1") == [batch]
        assert store.queue.cancel("s1", batch.batch_id) is None
        assert store.queue.list("s1") == [batch]

    @pytest.mark.scenario("QUE-T7")
    def test_work_that_was_given_back_pends_and_can_be_cancelled(self, store: Any) -> None:
        batch = enqueue(store, "a").batch
        given_back(store, store.queue.claim(lease_on(store, "s1")))

        assert store.queue.list_pending("s1") == [batch]
        assert store.queue.cancel("s1", batch.batch_id) == batch
        assert store.queue.list("s1") == []

    @pytest.mark.scenario("QUE-T7")
    @pytest.mark.parametrize("end", ENDINGS)
    def test_when_its_lease_ends_claimed_work_pends_and_can_be_cancelled(
        self, store: Any, clock: ManualClock, end: Any
    ) -> None:
        batch = enqueue(store, "a").batch
        lease = lease_on(store, "s1", mortal() if end is taken_over else ALICE)
        store.queue.claim(lease)

        end(store, clock, lease)

        assert store.queue.list_pending("s1") == [batch]
        assert store.queue.cancel("s1", batch.batch_id) == batch
        assert store.queue.list("s1") == []

    @pytest.mark.parametrize("end", ENDINGS)
    def test_the_end_of_a_lease_writes_no_row_of_the_queue(
        self, world: World, store: Any, clock: ManualClock, end: Any
    ) -> None:
        enqueue(store, "a")
        lease = lease_on(store, "s1", mortal() if end is taken_over else ALICE)
        store.queue.claim(lease)
        before = world.dump(store)["work"]

        end(store, clock, lease)

        assert world.dump(store)["work"] == before

    @pytest.mark.scenario("GEN-T2")
    def test_claims_die_with_their_lease_by_the_injected_clock_alone(
        self, store: Any, clock: ManualClock
    ) -> None:
        enqueue(store, "work")
        submit(store, "input")
        lease = lease_on(store, "s1", ttl_ms=TTL_MS)
        store.queue.claim(lease)
        store.inputs.claim_next(lease)
        clock.advance(TTL_MS - 1)
        assert (store.queue.list_pending("s1"), store.inputs.list_pending("s1")) == ([], [])

        clock.advance(1)

        assert pending_work(store) == ["work"]
        assert len(store.inputs.list_pending("s1")) == 1

    def test_renewal_keeps_claims_alive(self, store: Any, clock: ManualClock) -> None:
        enqueue(store, "a")
        lease = lease_on(store, "s1")
        claim = store.queue.claim(lease)

        for _ in range(3):
            clock.advance(TTL_MS - 1)
            lease = store.sessions.renew_lease(lease, TTL_MS)

        assert pending_work(store) == []
        assert store.queue.claim(lease) is None
        settle(store, lease, completed_queue_claims=[claim])
        assert queued(store) == []

    def test_re_entry_keeps_claims_alive(self, store: Any, clock: ManualClock) -> None:
        enqueue(store, "a")
        store.queue.claim(lease_on(store, "s1"))
        clock.advance(TTL_MS - 1)

        again = lease_on(store, "s1")
        clock.advance(1)

        assert pending_work(store) == []
        assert store.queue.claim(again) is None

    def test_a_momentary_lease_ends_the_claims_of_an_expired_one(
        self, store: Any, clock: ManualClock
    ) -> None:
        enqueue(store, "a")
        store.queue.claim(lease_on(store, "s1"))
        clock.advance(TTL_MS)

        put(store, "s1")

        assert pending_work(store) == ["a"]
        assert store.queue.claim(lease_on(store, "s1")).claim_count == 2


class TestWhatComesAfterIt:
    """QUE-10: a holder never takes its own rows again, and the next one takes them all."""

    @pytest.mark.scenario("QUE-T16")
    def test_one_generation_is_granted_work_once(self, store: Any) -> None:
        batch_id = enqueue(store, "a").batch_id
        lease = lease_on(store, "s1")
        assert store.queue.claim(lease) is not None

        assert store.queue.claim(lease) is None
        assert store.queue.claim_exactly(lease, "idle", [batch_id]) is None
        assert store.queue.claim(store.sessions.renew_lease(lease)) is None

    @pytest.mark.invariant("INV-39")
    @pytest.mark.scenario("QUE-T16", "QUE-T17")
    @pytest.mark.parametrize("end", ENDINGS)
    def test_the_next_generation_takes_what_a_lost_one_had(
        self, store: Any, clock: ManualClock, end: Any
    ) -> None:
        batch = enqueue(store, "a").batch
        first_lease = lease_on(store, "s1", mortal() if end is taken_over else ALICE)
        first = store.queue.claim(first_lease)
        lease = succeeded(store, clock, first_lease, end)

        second = store.queue.claim(lease)

        assert (second.batches, second.claim_count) == ([batch], 2)
        assert second.claim_id == f"qwc:{batch.enqueue_seq}:2"
        assert second.session_lease_generation == lease.generation > first_lease.generation
        with pytest.raises(QueuedWorkClaimSuperseded) as refused:
            settle(store, lease, completed_queue_claims=[first])
        told = refused.value
        assert (told.claim_id, told.unowned_batch_ids) == (first.claim_id, [batch.batch_id])
        assert store.queue.list("s1") == [batch]
        assert store.queue.list_pending("s1") == []

    def test_a_group_of_a_lost_lease_is_taken_together_with_what_came_since(
        self, store: Any, clock: ManualClock
    ) -> None:
        enqueue(store, "a", **JOINS)
        enqueue(store, "b", **JOINS)
        lease = lease_on(store, "s1")
        store.queue.claim(lease, "idle", 1)
        enqueue(store, "c", **JOINS)

        claim = store.queue.claim(renewed(store, clock, lease), "idle", 10)

        assert (names(claim.batches), claim.claim_count) == (["a", "b", "c"], 2)
