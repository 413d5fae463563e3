"""Section 11.6: the ready list page by page, and when there will be more to do (QUE-23)."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast import InvalidArgument, ReadySession
from holdfast.testing.clock import ManualClock
from holdfast.testing.contract.lanes import enqueue, submit, work
from holdfast.testing.contract.samples import lease_on
from holdfast.testing.contract.test_queue_ready import ready
from holdfast.testing.world import World


class TestPages:
    """The list goes on behind the last session seen."""

    @pytest.fixture
    def five(self, store: Any, clock: ManualClock) -> list[str]:
        """Sessions, the longest ready first, two of them equally long."""
        for session_id in ("c", "a", "b", "e", "d"):
            enqueue(store, session_id=session_id)
            clock.advance(session_id != "b")
        return ["c", "a", "b", "e", "d"]

    def walk(self, store: Any, limit: int, after: Any = None) -> list[str]:
        found = []
        while page := store.queue.ready_sessions(limit=limit, after=after):
            assert len(page) <= limit
            found += [each.session_id for each in page]
            after = page[-1]
        return found

    @pytest.mark.parametrize("limit", [1, 2, 3, 5, 100])
    def test_pages_of_any_size_show_each_session_once(
        self, store: Any, five: list[str], limit: int
    ) -> None:
        assert self.walk(store, limit) == five

    def test_a_page_does_not_need_the_session_it_goes_on_behind(
        self, store: Any, five: list[str], clock: ManualClock
    ) -> None:
        first = store.queue.ready_sessions(limit=2)
        for session_id in five[:2]:
            store.sessions.delete(session_id)
        lease_on(store, "b")
        enqueue(store, session_id="new")
        clock.advance(1)

        assert self.walk(store, 2, first[-1]) == ["e", "d", "new"]

    def test_more_work_does_not_move_a_session(
        self, store: Any, five: list[str], clock: ManualClock
    ) -> None:
        first = store.queue.ready_sessions(limit=2)
        clock.advance(1)
        store.queue.enqueue_many([work(session_id=each) for each in five])

        assert self.walk(store, 2, first[-1]) == five[2:]

    def test_a_page_has_a_hundred_lines_and_10_000_at_most(self, world: World, store: Any) -> None:
        store.queue.enqueue_many([work(session_id=f"s{number}") for number in range(101)])

        assert (len(ready(store)), len(ready(store, limit=10_000))) == (100, 101)
        world.backend(store).counts.clear()
        assert ready(store, limit=0) == []
        for wrong in (
            {"limit": -1},
            {"limit": 10_001},
            {"after": "s1"},
            {"after": ("s1", 1)},
            {"after": ReadySession(1, 1)},  # type: ignore[arg-type]
            {"after": ReadySession("s1", 0.5)},  # type: ignore[arg-type]
        ):
            with pytest.raises(InvalidArgument):
                ready(store, **wrong)
        assert not +world.backend(store).counts


class TestNext:
    """How long whoever has nothing to do may sleep."""

    def test_the_next_future_batch_of_all_sessions_is_told(
        self, store: Any, clock: ManualClock
    ) -> None:
        now = clock.now_ms()
        for number, due in enumerate((300, 100, 200)):
            enqueue(store, session_id=f"s{number}", available_at_ms=now + due)

        for due in (100, 200, 300):
            assert store.queue.next_ready_at_ms() == now + due
            clock.advance(99)
            assert store.queue.next_ready_at_ms() == now + due
            clock.advance(1)
        assert store.queue.next_ready_at_ms() is None

    def test_what_is_available_is_not_told(self, store: Any, clock: ManualClock) -> None:
        enqueue(store)
        enqueue(store, available_at_ms=clock.now_ms())
        submit(store)

        assert store.queue.next_ready_at_ms() is None

    def test_a_future_batch_is_told_beside_available_ones(
        self, store: Any, clock: ManualClock
    ) -> None:
        due = clock.now_ms() + 10
        enqueue(store)
        enqueue(store, available_at_ms=due)

        assert store.queue.next_ready_at_ms() == due

    def test_a_future_batch_of_a_session_at_work_is_told(
        self, store: Any, clock: ManualClock
    ) -> None:
        due = clock.now_ms() + 10
        enqueue(store, available_at_ms=due)
        lease_on(store, "s1")

        assert store.queue.next_ready_at_ms() == due

    def test_a_cancelled_batch_is_told_no_longer(self, store: Any, clock: ManualClock) -> None:
        due = clock.now_ms() + 10
        batch = enqueue(store, available_at_ms=due).batch
        enqueue(store, available_at_ms=due + 1)

        store.queue.cancel("s1", batch.batch_id)

        assert store.queue.next_ready_at_ms() == due + 1

    def test_the_instant_told_is_the_one_at_which_it_is_ready(
        self, store: Any, clock: ManualClock
    ) -> None:
        enqueue(store, available_at_ms=clock.now_ms() + 12_345)
        due = store.queue.next_ready_at_ms()

        clock.advance(due - clock.now_ms())

        assert ready(store) == [("s1", due)]
