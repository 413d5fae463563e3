"""Section 11.2: among what is stored, a source key names one batch (QUE-4)."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast import Group, QueuedWorkBatchDraft
from holdfast.testing.clock import ManualClock
from holdfast.testing.contract.lanes import ENDINGS, TTL_MS, enqueue, queued, work
from holdfast.testing.contract.samples import lease_on
from holdfast.testing.world import World


def keyed(**fields: Any) -> QueuedWorkBatchDraft:
    """A draft under a key."""
    return work(**{"name": "a", "source_key": "k"} | fields)


@pytest.mark.scenario("QUE-T1")
def test_a_key_twice_with_different_text_is_the_first_batch(world: World, store: Any) -> None:
    first = enqueue(store, "first", source_key="k")
    before = world.dump(store)

    second = enqueue(store, "second", source_key="k")

    assert (second.created, second.content_matches, second.settled) == (False, False, False)
    assert (second.batch_id, second.batch) == (first.batch_id, first.batch)
    assert [item.item_id for item in second.batch.items] == [
        item.item_id for item in first.batch.items
    ]
    assert queued(store) == ["first"]
    assert world.dump(store) == before


@pytest.mark.scenario("QUE-T4")
def test_the_same_key_in_two_sessions_names_two_batches(store: Any) -> None:
    outcomes = [enqueue(store, id, session_id=id, source_key="k") for id in ("s1", "s2")]

    assert [outcome.created for outcome in outcomes] == [True, True]
    assert outcomes[0].batch_id != outcomes[1].batch_id
    assert (queued(store, "s1"), queued(store, "s2")) == (["s1"], ["s2"])


def test_keys_that_differ_in_anything_are_different_keys(store: Any) -> None:
    keys = ["k", "K", "k ", " k", "k\n", "é", "e\u0301"]

    outcomes = [enqueue(store, source_key=key) for key in keys]

    assert all(outcome.created for outcome in outcomes)
    assert [batch.source_key for batch in store.queue.list("s1")] == keys


def test_without_a_key_every_call_makes_a_batch(store: Any) -> None:
    assert [enqueue(store, "a").created for _ in range(2)] == [True, True]

    assert queued(store) == ["a", "a"]


def test_the_same_content_matches(store: Any) -> None:
    first = store.queue.enqueue(keyed(payloads=[{"type": "x", "a": 1, "b": [2]}]))

    again = store.queue.enqueue(keyed(payloads=({"b": (2,), "a": 1, "type": "x"},)))

    assert (again.created, again.content_matches) == (False, True)
    assert again.batch == first.batch


@pytest.mark.parametrize(
    "other",
    [
        keyed(payloads=[{"type": "tick", "name": "b"}]),
        keyed(payloads=[{"type": "tick", "name": "a"}] * 2),
        keyed(payloads=[{"type": "tick", "name": "a", "more": None}]),
        keyed(payloads=[{"type": "session_command"}]),
        keyed(delivery_policy="earliest_safe_boundary"),
        keyed(slot_policy="join"),
        keyed(merge_key="payload_default"),
        keyed(merge_key=Group("never")),
        keyed(available_at_ms=1),
    ],
    ids=[
        "text",
        "another payload",
        "a member",
        "class",
        "delivery",
        "slot",
        "merge key",
        "group",
        "availability",
    ],
)
def test_any_other_content_does_not_match_and_changes_nothing(
    world: World, store: Any, other: QueuedWorkBatchDraft
) -> None:
    first = store.queue.enqueue(keyed())
    before = world.dump(store)

    for answer in (store.queue.enqueue(other), *store.queue.enqueue_many([other])):
        assert (answer.created, answer.content_matches) == (False, False)
        assert answer.batch == first.batch

    assert world.dump(store) == before


def test_the_horizon_of_a_key_is_no_content(store: Any) -> None:
    first = store.queue.enqueue(keyed(dedupe="pending"))

    again = store.queue.enqueue(keyed(dedupe="once"))

    assert (again.content_matches, again.batch) == (True, first.batch)
    assert again.batch.dedupe == "pending"


def test_the_hour_at_which_it_is_said_again_is_no_content(store: Any, clock: ManualClock) -> None:
    first = store.queue.enqueue(keyed())
    clock.advance(1_000)

    assert store.queue.enqueue(keyed()).batch == first.batch


@pytest.mark.parametrize("end", [None, *ENDINGS])
def test_a_claimed_batch_is_answered_whatever_became_of_its_claim(
    world: World, store: Any, clock: ManualClock, end: Any
) -> None:
    first = store.queue.enqueue(keyed())
    lease = lease_on(store, "s1", ttl_ms=TTL_MS)
    store.queue.claim(lease)
    if end is not None:
        end(store, clock, lease)
    before = world.dump(store)

    again = store.queue.enqueue(keyed())

    assert (again.created, again.settled, again.batch) == (False, False, first.batch)
    assert world.dump(store) == before
