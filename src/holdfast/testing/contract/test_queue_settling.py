"""Section 11.4: how long a claim can be completed, and what is then gone (QUE-20, QUE-21)."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast import (
    HeadRevisionConflict,
    LeaseLost,
)
from holdfast.testing.clock import ManualClock
from holdfast.testing.contract.lanes import (
    ENDINGS,
    enqueue,
    mortal,
    names,
    queued,
    released,
    renewed,
    settle,
    succeeded,
    taken_over,
)
from holdfast.testing.contract.samples import ALICE, chain, lease_on
from holdfast.testing.contract.test_queue_completions import JOINS, Pair, superseded
from holdfast.testing.world import World


@pytest.fixture
def pair(store: Any) -> Pair:
    return Pair(store)


class TestAcrossGenerations:
    """QUE-20: a claim can be settled as long as nobody took or cancelled what it has."""

    @pytest.mark.scenario("QUE-T21")
    @pytest.mark.parametrize("end", ENDINGS)
    def test_a_claim_nobody_took_over_is_settled_under_the_next_lease(
        self, store: Any, clock: ManualClock, end: Any
    ) -> None:
        enqueue(store, "a")
        first = lease_on(store, "s1", mortal() if end is taken_over else ALICE)
        claim = store.queue.claim(first)
        lease = succeeded(store, clock, first, end)
        assert lease.generation > claim.session_lease_generation

        done = settle(store, lease, graph=chain("n"), completed_queue_claims=[claim])

        assert (done.head_revision, queued(store)) == (1, [])

    def test_the_lost_lease_itself_settles_nothing(
        self, world: World, store: Any, clock: ManualClock, pair: Pair
    ) -> None:
        renewed(store, clock, pair.lease)
        before = world.dump(store)

        with pytest.raises(LeaseLost):
            settle(store, pair.lease, completed_queue_claims=[pair.claim])

        assert world.dump(store) == before

    def test_a_claim_whose_batch_was_cancelled_is_superseded(
        self, store: Any, clock: ManualClock, pair: Pair
    ) -> None:
        released(store, clock, pair.lease)
        gone, kept = pair.claim.batch_ids
        store.queue.cancel("s1", gone)

        told = superseded(store, lease_on(store, "s1"), pair.claim)

        assert told.unowned_batch_ids == [gone]
        assert [batch.batch_id for batch in store.queue.list("s1")] == [kept]

    def test_claims_of_two_generations_are_settled_together(
        self, store: Any, clock: ManualClock, pair: Pair
    ) -> None:
        lease = renewed(store, clock, pair.lease)
        batch_id = enqueue(store, "c").batch_id
        second = store.queue.claim_exactly(lease, "idle", [batch_id])

        settle(store, lease, completed_queue_claims=[pair.claim, second])

        assert queued(store) == []

    def test_a_claim_taken_over_in_part_is_superseded_by_that_part(
        self, store: Any, clock: ManualClock, pair: Pair
    ) -> None:
        lease = renewed(store, clock, pair.lease)
        taken = store.queue.claim(lease, "idle", 1)

        told = superseded(store, lease, pair.claim)

        assert told.unowned_batch_ids == taken.batch_ids

    def test_a_session_begun_anew_knows_none_of_the_old_claims(
        self, store: Any, pair: Pair
    ) -> None:
        store.sessions.delete("s1", force=True)
        enqueue(store, "a", **JOINS)

        told = superseded(store, lease_on(store, "s1"), pair.claim)

        assert told.unowned_batch_ids == pair.claim.batch_ids


class TestGone:
    """QUE-21: what is completed is gone with the commit, and not before."""

    def test_claimed_work_stays_until_it_is_completed(self, store: Any, pair: Pair) -> None:
        assert queued(store) == ["a", "b"]

        settle(store, pair.lease, completed_queue_claims=[pair.claim])

        assert (store.queue.list("s1"), store.queue.list_pending("s1")) == ([], [])

    def test_a_refused_commit_leaves_it(self, store: Any, pair: Pair) -> None:
        with pytest.raises(HeadRevisionConflict):
            settle(
                store,
                pair.lease,
                expected_head_revision=7,
                completed_queue_claims=[pair.claim],
            )

        assert queued(store) == ["a", "b"]
        settle(store, pair.lease, completed_queue_claims=[pair.claim])
        assert queued(store) == []

    @pytest.mark.parametrize("key", [None, "k"], ids=["keyless", "keyed"])
    def test_nobody_finds_it_any_more(self, store: Any, key: str | None) -> None:
        batch_id = enqueue(store, "a", source_key=key).batch_id
        lease = lease_on(store, "s1")
        claim = store.queue.claim(lease)

        settle(
            store,
            lease,
            completed_queue_claims=[claim],
            release_session_execution_lease=True,
        )

        assert store.queue.ready_sessions() == []
        assert store.queue.cancel("s1", batch_id) is None
        assert store.queue.abandon(claim) == 0
        again = lease_on(store, "s1")
        assert store.queue.claim(again) is None
        assert store.queue.claim_exactly(again, "idle", [batch_id]) is None

    def test_what_was_not_completed_goes_on(self, store: Any, pair: Pair) -> None:
        enqueue(store, "c")
        kept = store.queue.claim(pair.lease)

        settle(store, pair.lease, completed_queue_claims=[pair.claim])

        assert (queued(store), store.queue.list_pending("s1")) == (["c"], [])
        settle(store, pair.lease, completed_queue_claims=[kept])
        assert queued(store) == []

    def test_a_commit_that_gives_its_lease_back_frees_what_it_does_not_complete(
        self, store: Any, pair: Pair
    ) -> None:
        enqueue(store, "c")
        store.queue.claim(pair.lease)

        settle(
            store,
            pair.lease,
            completed_queue_claims=[pair.claim],
            release_session_execution_lease=True,
        )

        assert names(store.queue.list_pending("s1")) == ["c"]

    def test_as_many_as_a_claim_can_hold_are_completed(self, store: Any) -> None:
        for number in range(300):
            enqueue(store, str(number), **JOINS)
        lease = lease_on(store, "s1")
        claim = store.queue.claim(lease, "idle", 300)

        settle(store, lease, completed_queue_claims=[claim])

        assert queued(store) == []
