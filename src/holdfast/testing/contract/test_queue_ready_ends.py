"""Section 11.6: a session is ready no longer than it has something to do (QUE-23)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from holdfast.testing.clock import ManualClock
from holdfast.testing.contract.lanes import TTL_MS, cancel_one, enqueue, settle, submit, work
from holdfast.testing.contract.samples import lease_on
from holdfast.testing.contract.test_queue_ready import idle, ready


def completed(store: Any, lease: Any) -> None:
    settle(store, lease, completed_queue_claims=[store.queue.claim(lease)])


def cancelled(store: Any, _: Any) -> None:
    (first,) = store.queue.list("s1", limit=1)
    store.queue.cancel("s1", first.batch_id)


class TestEnds:
    """A session is not ready any more when there is nothing left to do."""

    @pytest.mark.parametrize("end", [completed, cancelled])
    @pytest.mark.parametrize("key", [None, "k"])
    def test_the_last_batch_takes_its_session_along(
        self, store: Any, end: Callable[..., None], key: str | None
    ) -> None:
        enqueue(store, source_key=key)
        lease = lease_on(store, "s1")

        end(store, lease)
        idle(store, lease)

        assert ready(store) == []
        assert store.queue.next_ready_at_ms() is None

    @pytest.mark.parametrize("end", [completed, cancelled])
    @pytest.mark.parametrize("lane", ["work", "input"])
    def test_the_oldest_batch_leaves_the_next_to_tell_since_when(
        self, store: Any, clock: ManualClock, end: Callable[..., None], lane: str
    ) -> None:
        enqueue(store)
        since = clock.advance(7)
        enqueue(store) if lane == "work" else submit(store)
        lease = lease_on(store, "s1")

        end(store, lease)
        idle(store, lease)

        assert ready(store) == [("s1", since)]

    @pytest.mark.parametrize("end", [completed, cancelled])
    def test_the_last_available_batch_leaves_what_waits_for_its_time(
        self, store: Any, clock: ManualClock, end: Callable[..., None]
    ) -> None:
        due = clock.now_ms() + 100
        enqueue(store)
        enqueue(store, available_at_ms=due)
        lease = lease_on(store, "s1")

        end(store, lease)
        idle(store, lease)

        assert (ready(store), store.queue.next_ready_at_ms()) == ([], due)
        clock.advance(100)
        assert ready(store) == [("s1", due)]

    def test_a_commit_that_hands_on_leaves_its_session_ready(
        self, store: Any, clock: ManualClock
    ) -> None:
        enqueue(store)
        lease = lease_on(store, "s1")
        claim = store.queue.claim(lease)
        clock.advance(5)

        settle(
            store,
            lease,
            completed_queue_claims=[claim],
            enqueued_queue_batches=[work("next")],
            release_session_execution_lease=True,
        )

        assert ready(store) == [("s1", clock.now_ms())]

    @pytest.mark.parametrize("end", ["cancelled", "completed"])
    def test_the_last_deferred_input_takes_its_session_along(self, store: Any, end: str) -> None:
        record = submit(store)
        lease = lease_on(store, "s1")

        if end == "cancelled":
            cancel_one(store, record.input_id)
        else:
            claim = store.inputs.claim_next(lease)
            settle(store, lease, completed_turn_input_claims=[claim])
        idle(store, lease)

        assert ready(store) == []

    def test_an_input_that_a_turn_left_over_is_ready_since_it_was_deferred(
        self, store: Any, clock: ManualClock
    ) -> None:
        submit(store, turn_id="t1")
        lease = lease_on(store, "s1")
        since = clock.advance(5)

        settle(
            store,
            lease,
            interrupted_turn_input_turn_id="t1",
            release_session_execution_lease=True,
        )

        assert ready(store) == [("s1", since)]

    def test_an_input_taken_back_for_the_next_turn_is_ready_since_then(
        self, store: Any, clock: ManualClock
    ) -> None:
        submit(store, turn_id="t1")
        lost = lease_on(store, "s1", ttl_ms=TTL_MS)
        store.inputs.claim_active(lost, "t1", "after_work")
        clock.advance(TTL_MS)
        lease = lease_on(store, "s1")
        since = clock.advance(5)

        store.inputs.recover_orphaned(lease)
        assert ready(store) == []
        clock.advance(5)
        idle(store, lease)

        assert ready(store) == [("s1", since)]

    def test_a_deleted_session_is_not_ready(self, store: Any, clock: ManualClock) -> None:
        enqueue(store)
        enqueue(store, available_at_ms=clock.now_ms() + 10)
        submit(store)

        store.sessions.delete("s1")

        assert (ready(store), store.queue.next_ready_at_ms()) == ([], None)
        clock.advance(10)
        assert ready(store) == []
