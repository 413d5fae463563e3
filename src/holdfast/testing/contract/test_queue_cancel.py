"""Section 11.2: a batch that no live claim holds can be taken out of its queue (QUE-6)."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast import InvalidArgument
from holdfast.testing.clock import ManualClock
from holdfast.testing.contract.lanes import ENDINGS, TTL_MS, enqueue, queued, settle, work
from holdfast.testing.contract.samples import lease_on
from holdfast.testing.world import World

UNKNOWN = f"qwb:{'0' * 32}"


@pytest.mark.scenario("QUE-T6")
def test_an_unclaimed_batch_is_returned_and_gone(store: Any) -> None:
    batches = [enqueue(store, name).batch for name in ("first", "second", "third")]

    assert store.queue.cancel("s1", batches[1].batch_id) == batches[1]

    assert queued(store) == ["first", "third"]
    assert store.queue.cancel("s1", batches[1].batch_id) is None


def test_a_cancelled_batch_leaves_nothing_behind(world: World, store: Any) -> None:
    batch = enqueue(store, source_key="k", available_at_ms=2**50).batch

    store.queue.cancel("s1", batch.batch_id)

    for table in ("work", "readiness"):
        assert world.sql(store, f"SELECT count(*) FROM {{{table}}}") == [(0,)]  # noqa: S608
    assert store.queue.next_ready_at_ms() is None


@pytest.mark.parametrize(
    "draft",
    [
        work(payloads=[{"type": "session_command"}]),
        work(available_at_ms=2**62),
        work(source_key="k", dedupe="pending"),
    ],
    ids=["command", "future", "keyed"],
)
def test_whatever_it_is_it_can_be_cancelled(store: Any, draft: Any) -> None:
    batch = store.queue.enqueue(draft).batch

    assert store.queue.cancel("s1", batch.batch_id) == batch

    assert store.queue.list("s1") == []


def test_what_is_not_there_is_none(world: World, store: Any) -> None:
    theirs = enqueue(store, "theirs", session_id="s2").batch
    before = world.dump(store)

    assert store.queue.cancel("s1", theirs.batch_id) is None
    assert store.queue.cancel("s2", UNKNOWN) is None
    assert store.queue.cancel("s1", "no id of ours") is None
    assert store.session("s1").queue.cancel(theirs.batch_id) is None

    assert world.dump(store) == before


def test_what_a_live_claim_holds_stays(world: World, store: Any) -> None:
    batch = enqueue(store).batch
    store.queue.claim(lease_on(store, "s1"))
    before = world.dump(store)

    assert store.queue.cancel("s1", batch.batch_id) is None

    assert world.dump(store) == before


@pytest.mark.parametrize("end", ENDINGS)
def test_what_a_dead_claim_holds_is_returned_and_gone(
    store: Any, clock: ManualClock, end: Any
) -> None:
    batch = enqueue(store).batch
    lease = lease_on(store, "s1", ttl_ms=TTL_MS)
    store.queue.claim(lease)
    end(store, clock, lease)

    assert store.queue.cancel("s1", batch.batch_id) == batch

    assert store.queue.list("s1") == []


def test_what_was_completed_cannot_be_cancelled(store: Any) -> None:
    batch = enqueue(store, source_key="k").batch
    lease = lease_on(store, "s1")
    settle(store, lease, completed_queue_claims=[store.queue.claim(lease)])

    assert store.queue.cancel("s1", batch.batch_id) is None

    assert enqueue(store, source_key="k").settled


@pytest.mark.parametrize("batch_id", ["", "\0", "x" * 513, 1])
def test_an_invalid_id_is_refused_before_anything_is_read(
    world: World, store: Any, batch_id: Any
) -> None:
    store.sessions.list()
    world.backend(store).counts.clear()

    with pytest.raises(InvalidArgument) as refused:
        store.queue.cancel("s1", batch_id)

    assert refused.value.field == "batch_id"
    assert not +world.backend(store).counts
