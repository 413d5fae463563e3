"""Section 11.2: what is stored, and what of it nobody has, page by page (QUE-7)."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast import InvalidArgument, SessionBindingMismatch
from holdfast.testing.clock import ManualClock
from holdfast.testing.contract.lanes import TTL_MS, enqueue, names, queued, settle, work
from holdfast.testing.contract.samples import ALICE, create, lease_on
from holdfast.testing.world import World

LISTINGS = pytest.mark.parametrize("listing", ["list", "list_pending"])


@LISTINGS
def test_a_listing_goes_on_behind_a_sequence(store: Any, listing: str) -> None:
    batches = [enqueue(store, str(number)).batch for number in range(5)]
    enqueue(store, "theirs", session_id="s2")

    def page(**options: Any) -> list[str]:
        return names(getattr(store.queue, listing)("s1", **options))

    assert page(limit=2) == ["0", "1"]
    assert page(limit=2, after_seq=batches[1].enqueue_seq) == ["2", "3"]
    assert page(after_seq=batches[3].enqueue_seq) == ["4"]
    assert page(after_seq=batches[4].enqueue_seq) == []


@LISTINGS
def test_pages_miss_nothing_that_stays_and_repeat_nothing(store: Any, listing: str) -> None:
    batches = [enqueue(store, str(number)).batch for number in range(6)]
    pages = getattr(store.queue, listing)
    first = pages("s1", limit=3)

    for gone in (batches[1], batches[2], batches[4]):
        store.queue.cancel("s1", gone.batch_id)
    enqueue(store, "new")

    rest = pages("s1", limit=3, after_seq=first[-1].enqueue_seq)
    assert (names(first), names(rest)) == (["0", "1", "2"], ["3", "5", "new"])


@LISTINGS
def test_a_page_has_a_hundred_lines_and_10_000_at_most(
    world: World, store: Any, listing: str
) -> None:
    store.queue.enqueue_many([work(str(number)) for number in range(101)])
    pages = getattr(store.queue, listing)

    assert (len(pages("s1")), len(pages("s1", limit=10_000))) == (100, 101)
    world.backend(store).counts.clear()
    assert pages("s1", limit=0) == []
    for wrong in ({"limit": -1}, {"limit": 10_001}, {"after_seq": -1}):
        with pytest.raises(InvalidArgument) as refused:
            pages("s1", **wrong)
        assert refused.value.field == next(iter(wrong))
    assert not +world.backend(store).counts


@LISTINGS
def test_an_unknown_session_has_nothing(world: World, store: Any, listing: str) -> None:
    enqueue(store, session_id="s2")
    before = world.dump(store)

    assert getattr(store.queue, listing)("s1") == []

    assert world.dump(store) == before


def test_what_is_claimed_is_listed_but_does_not_pend(store: Any, clock: ManualClock) -> None:
    for name in ("first", "second"):
        enqueue(store, name)
    enqueue(store, "future", available_at_ms=clock.now_ms() + 1)
    store.queue.claim(lease_on(store, "s1", ALICE, TTL_MS))

    assert queued(store) == ["first", "second", "future"]
    assert names(store.queue.list_pending("s1")) == ["second", "future"]
    assert names(store.queue.list_pending("s1", limit=1)) == ["second"]
    clock.advance(TTL_MS)
    assert names(store.queue.list_pending("s1")) == ["first", "second", "future"]


def test_what_was_completed_is_in_no_list(store: Any) -> None:
    enqueue(store, "done", source_key="k")
    enqueue(store, "left")
    lease = lease_on(store, "s1")

    settle(store, lease, completed_queue_claims=[store.queue.claim(lease)])

    assert queued(store) == names(store.queue.list_pending("s1")) == ["left"]


def test_a_view_enqueues_lists_and_cancels_its_own(store: Any) -> None:
    view = store.session("s1")
    enqueue(store, "theirs", session_id="s2")

    batch = view.queue.enqueue(work("mine")).batch

    assert view.queue.list() == view.queue.list_pending() == [batch]
    assert view.queue.cancel(batch.batch_id) == batch
    assert (view.queue.list(), queued(store, "s2")) == ([], ["theirs"])


def test_a_view_refuses_a_draft_for_another_session(world: World, store: Any) -> None:
    view = create(store)
    before = world.dump(store)
    world.backend(store).counts.clear()

    with pytest.raises(SessionBindingMismatch) as refused:
        view.queue.enqueue(work(session_id="s2"))

    told = refused.value
    assert (told.bound_session_id, told.attempted_session_id) == ("s1", "s2")
    assert not +world.backend(store).counts
    assert world.dump(store) == before
