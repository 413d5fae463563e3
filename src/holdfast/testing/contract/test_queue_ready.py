"""Section 11.6: which sessions have something to do, and since when (QUE-23)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from holdfast.testing.clock import ManualClock
from holdfast.testing.contract.lanes import (
    ENDINGS,
    TTL_MS,
    enqueue,
    expired,
    submit,
    work,
)
from holdfast.testing.contract.samples import chain, lease_on, put


def ready(store: Any, **options: Any) -> list[tuple[str, int]]:
    """The ready list as pairs."""
    found = store.queue.ready_sessions(**options)
    return [(each.session_id, each.ready_since_ms) for each in found]


def idle(store: Any, lease: Any) -> None:
    """Give a lease back."""
    assert store.sessions.release_lease(lease)


class TestList:
    """Who is in the list, and in which order."""

    @pytest.mark.scenario("QUE-T30")
    def test_those_with_something_available_are_listed_longest_ready_first(
        self, store: Any, clock: ManualClock
    ) -> None:
        start = clock.now_ms()
        enqueue(store, session_id="old")
        clock.advance(10)
        submit(store, session_id="deferred")
        clock.advance(10)
        enqueue(store, session_id="busy")
        lease_on(store, "busy", ttl_ms=100)
        clock.advance(10)
        enqueue(store, session_id="new")
        enqueue(store, session_id="future", available_at_ms=clock.now_ms() + 1_000)
        put(store, "empty")

        assert ready(store) == [("old", start), ("deferred", start + 10), ("new", start + 30)]
        clock.advance(100)
        assert ready(store) == [
            ("old", start),
            ("deferred", start + 10),
            ("busy", start + 20),
            ("new", start + 30),
        ]

    def test_of_equally_long_ready_ones_the_smaller_id_comes_first(self, store: Any) -> None:
        for session_id in ("b", "a", "Z", "é", "a0"):
            enqueue(store, session_id=session_id)

        assert [id for id, _ in ready(store)] == ["Z", "a", "a0", "b", "é"]

    def test_nobody_is_ready_in_an_empty_store(self, store: Any) -> None:
        assert ready(store) == []
        assert store.queue.next_ready_at_ms() is None

    def test_a_session_is_ready_since_its_oldest_work(self, store: Any, clock: ManualClock) -> None:
        start = clock.now_ms()
        enqueue(store)
        clock.advance(5)
        enqueue(store)
        submit(store)

        assert ready(store) == [("s1", start)]

    @pytest.mark.parametrize("early", [0, 1, 999])
    def test_what_was_available_long_ago_is_ready_since_it_was_enqueued(
        self, store: Any, clock: ManualClock, early: int
    ) -> None:
        enqueue(store, available_at_ms=early)

        assert ready(store) == [("s1", clock.now_ms())]

    def test_what_waited_for_its_time_is_ready_since_then(
        self, store: Any, clock: ManualClock
    ) -> None:
        due = clock.now_ms() + 50
        enqueue(store, available_at_ms=due)
        clock.advance(49)
        assert ready(store) == []

        clock.advance(1)
        assert ready(store) == [("s1", due)]
        clock.advance(1_000)
        assert ready(store) == [("s1", due)]

    def test_work_that_comes_before_what_waits_makes_ready(
        self, store: Any, clock: ManualClock
    ) -> None:
        start = clock.now_ms()
        enqueue(store, available_at_ms=start + 100)
        clock.advance(1)
        enqueue(store)

        assert ready(store) == [("s1", start + 1)]

    def test_a_command_makes_ready(self, store: Any, clock: ManualClock) -> None:
        enqueue(store, payloads=[{"type": "session_command"}])

        assert ready(store) == [("s1", clock.now_ms())]

    def test_an_input_for_a_turn_does_not_make_ready(self, store: Any) -> None:
        submit(store, turn_id="t1")

        assert ready(store) == []

    def test_a_known_key_does_not_make_ready_again(self, store: Any, clock: ManualClock) -> None:
        start = clock.now_ms()
        store.queue.enqueue(work(source_key="k"))
        clock.advance(5)

        store.queue.enqueue(work(source_key="k"))

        assert ready(store) == [("s1", start)]

    def test_many_drafts_make_all_their_sessions_ready(
        self, store: Any, clock: ManualClock
    ) -> None:
        later = clock.now_ms() + 100
        store.queue.enqueue_many(
            [
                work(session_id="b", available_at_ms=later),
                work(session_id="b"),
                work(session_id="a"),
                work(session_id="c", available_at_ms=later),
            ]
        )

        assert ready(store) == [("a", clock.now_ms()), ("b", clock.now_ms())]

    def test_an_outbox_makes_ready(self, store: Any, clock: ManualClock) -> None:
        put(store, "s1", enqueued_queue_batches=[work()])

        assert ready(store) == [("s1", clock.now_ms())]


class TestLeases:
    """A session at work is passed over."""

    @pytest.mark.invariant("INV-43")
    @pytest.mark.parametrize("end", ENDINGS[:2])
    def test_a_session_is_ready_again_when_its_lease_ends(
        self, store: Any, clock: ManualClock, end: Callable[..., None]
    ) -> None:
        start = clock.now_ms()
        enqueue(store)
        lease = lease_on(store, "s1", ttl_ms=TTL_MS)
        store.queue.claim(lease)
        assert ready(store) == []

        end(store, clock, lease)

        assert ready(store) == [("s1", start)]

    def test_a_lease_is_live_until_the_last_millisecond(
        self, store: Any, clock: ManualClock
    ) -> None:
        enqueue(store)
        lease_on(store, "s1", ttl_ms=10)

        clock.advance(9)
        assert ready(store) == []
        clock.advance(1)
        assert [id for id, _ in ready(store)] == ["s1"]

    def test_work_given_back_is_ready_since_it_came(self, store: Any, clock: ManualClock) -> None:
        start = clock.now_ms()
        enqueue(store)
        lease = lease_on(store, "s1")
        claim = store.queue.claim(lease)
        clock.advance(5)

        store.queue.abandon(claim)
        assert ready(store) == []
        idle(store, lease)

        assert ready(store) == [("s1", start)]

    def test_a_page_is_filled_though_those_before_it_are_at_work(self, store: Any) -> None:
        for number in range(6):
            enqueue(store, session_id=f"s{number}")
            if number < 4:
                lease_on(store, f"s{number}")

        assert [id for id, _ in ready(store, limit=2)] == ["s4", "s5"]

    def test_a_commit_without_a_lease_leaves_its_session_ready(
        self, store: Any, clock: ManualClock
    ) -> None:
        enqueue(store)

        put(store, "s1", graph=chain("a"))

        assert ready(store) == [("s1", clock.now_ms())]


@pytest.mark.invariant("INV-43")
@pytest.mark.parametrize("lane", ["work", "input"])
def test_a_session_whose_worker_died_is_found(store: Any, clock: ManualClock, lane: str) -> None:
    """Nobody was left to say that the work is free."""
    enqueue(store) if lane == "work" else submit(store)
    lease = lease_on(store, "s1", ttl_ms=TTL_MS)
    assert (
        store.queue.claim(lease) if lane == "work" else store.inputs.claim_next(lease)
    ) is not None

    expired(store, clock, lease)

    assert [id for id, _ in ready(store)] == ["s1"]
