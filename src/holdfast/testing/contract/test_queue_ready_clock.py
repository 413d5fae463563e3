"""Section 11.6 where the clock was set back: what is ready is what a claim would take (QUE-23)."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.testing.clock import ManualClock
from holdfast.testing.contract.lanes import TTL_MS, cancel_one, enqueue, settle, submit
from holdfast.testing.contract.samples import lease_on
from holdfast.testing.contract.test_queue_ready import idle, ready


class TestClock:
    """A clock that steps back hides nothing that a claim would take, and shows nothing else."""

    def test_what_is_available_stays_in_the_list(self, store: Any, clock: ManualClock) -> None:
        start = clock.now_ms()
        enqueue(store, session_id="old")
        submit(store, session_id="deferred")
        clock.advance(10)
        enqueue(store, session_id="new", available_at_ms=start - 5_000)
        enqueue(store, session_id="later", available_at_ms=start + 100)

        clock.advance(-3_600)

        assert ready(store) == [("deferred", start), ("old", start), ("new", start + 10)]
        assert store.queue.next_ready_at_ms() == start + 100
        for session_id in ("old", "new"):
            assert store.queue.claim(lease_on(store, session_id)) is not None
        assert store.inputs.claim_next(lease_on(store, "deferred")) is not None

    def test_pages_go_on_through_what_is_later_than_now(
        self, store: Any, clock: ManualClock
    ) -> None:
        start = clock.now_ms()
        for session_id in ("b", "a", "c"):
            enqueue(store, session_id=session_id)
            clock.advance(1)
        enqueue(store, session_id="due", available_at_ms=start + 5)
        clock.advance(5)
        enqueue(store, session_id="d")
        lease_on(store, "c", ttl_ms=10_000)

        clock.advance(-3)

        pages = [store.queue.ready_sessions(limit=2)]
        pages.append(store.queue.ready_sessions(limit=2, after=pages[0][-1]))
        assert [[each.session_id for each in page] for page in pages] == [["b", "a"], ["due", "d"]]

    def test_what_had_its_time_waits_for_it_again(self, store: Any, clock: ManualClock) -> None:
        due = clock.now_ms()
        enqueue(store, available_at_ms=due)
        submit(store, session_id="s2")

        clock.advance(-10)

        assert store.queue.claim(lease_on(store, "s1", ttl_ms=5)) is None
        clock.advance(5)
        assert [id for id, _ in ready(store)] == ["s2"]
        assert store.queue.next_ready_at_ms() == due
        clock.advance(5)
        assert ready(store) == [("s1", due), ("s2", due)]
        assert store.queue.next_ready_at_ms() is None

    @pytest.mark.parametrize("first", ["at once", "later"])
    def test_the_one_that_is_available_beside_one_to_come_counts(
        self, store: Any, clock: ManualClock, first: str
    ) -> None:
        due = clock.now_ms() + 10
        for each in ("at once", "later", "at once")[first == "later" :][:2]:
            enqueue(store, available_at_ms=due if each == "later" else 0)

        clock.advance(-1_000)

        assert [id for id, _ in ready(store)] == ["s1"]
        assert store.queue.next_ready_at_ms() == due

    @pytest.mark.parametrize("lane", ["work", "input"])
    def test_so_does_the_one_that_came_after_its_time(
        self, store: Any, clock: ManualClock, lane: str
    ) -> None:
        due = clock.now_ms() + 10
        enqueue(store, available_at_ms=due)
        clock.advance(20)
        enqueue(store) if lane == "work" else submit(store)

        clock.advance(-1_000)

        assert ready(store) == [("s1", due)]
        assert store.queue.next_ready_at_ms() == due

    @pytest.mark.parametrize("end", ["completed", "cancelled", "input cancelled"])
    def test_what_is_left_waits_when_that_one_is_gone(
        self, store: Any, clock: ManualClock, end: str
    ) -> None:
        due = clock.now_ms() + 10
        batch_id = None
        if end == "input cancelled":
            submit(store, input_id="i")
        else:
            batch_id = enqueue(store).batch_id
        enqueue(store, available_at_ms=due)
        lease = lease_on(store, "s1")
        if end == "completed":
            settle(store, lease, completed_queue_claims=[store.queue.claim(lease)])
        elif end == "cancelled":
            store.queue.cancel("s1", batch_id)
        else:
            cancel_one(store, "i")
        idle(store, lease)

        clock.advance(20)
        assert ready(store) == [("s1", due)]
        clock.advance(-11)
        assert (ready(store), store.queue.next_ready_at_ms()) == ([], due)

    @pytest.mark.parametrize("how", ["deferred", "recovered"])
    def test_what_a_turn_leaves_behind_is_available_beside_one_to_come(
        self, store: Any, clock: ManualClock, how: str
    ) -> None:
        submit(store, turn_id="t")
        lease = lease_on(store, "s1", ttl_ms=TTL_MS)
        store.inputs.claim_active(lease, "t", "after_work")
        clock.advance(TTL_MS)
        enqueue(store, available_at_ms=clock.now_ms() + 10)
        lease = lease_on(store, "s1")
        if how == "deferred":
            settle(store, lease, interrupted_turn_input_turn_id="t")
        else:
            assert store.inputs.recover_orphaned(lease)
        idle(store, lease)
        since = clock.now_ms()

        clock.advance(-20)

        assert ready(store) == [("s1", since)]
