"""What a damaged batch may hold up: only what it was to be taken or shown with (QUE-18, GEN-10)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from holdfast import CorruptRecord
from holdfast.testing.contract.lanes import enqueue, work
from holdfast.testing.contract.samples import lease_on, put
from holdfast.testing.world import World, make_world


@pytest.fixture(scope="module", params=["memory", "postgres"])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    with make_world(request.param, "blocking") as made:
        yield made


@pytest.fixture(scope="module")
def opened(world: World) -> Any:
    return world.open()


@pytest.fixture
def store(opened: Any) -> Iterator[Any]:
    yield opened
    opened.sessions.delete("s1", force=True)


def damaged(world: World, store: Any, **fields: Any) -> str:
    """The id of a batch that is not what was enqueued."""
    batch_id: str = enqueue(store, **fields).batch_id
    world.sql(store, "UPDATE {work} SET payloads = '[]' WHERE batch_id = ?", batch_id)
    return batch_id


def test_what_is_enqueued_beside_a_known_damaged_batch_is_not_enqueued(
    world: World, store: Any
) -> None:
    batch_id = damaged(world, store, source_key="k")

    with pytest.raises(CorruptRecord) as raised:
        store.queue.enqueue_many([work("a"), work("b", source_key="k"), work("c")])

    assert raised.value.key == batch_id
    assert world.sql(store, "SELECT batch_id FROM {work}") == [(batch_id,)]


def test_a_receipt_has_nothing_to_be_damaged(world: World, store: Any) -> None:
    enqueue(store, source_key="k")
    lease = lease_on(store, "s1")
    claim = store.queue.claim(lease)
    store.sessions.release_lease(lease)
    put(store, "s1", completed_queue_claims=[claim])

    first, second = store.queue.enqueue_many([work(source_key="k"), work("new")])

    assert (first.settled, second.created) == (True, True)


def test_an_outbox_does_not_look_into_what_it_finds(world: World, store: Any) -> None:
    batch_id = damaged(world, store, source_key="k")

    (outcome,) = put(
        store, "s1", enqueued_queue_batches=[work(source_key="k")]
    ).enqueued_queue_batches

    assert (outcome.batch_id, outcome.created) == (batch_id, False)


def test_a_claim_that_takes_nothing_does_not_meet_damage(world: World, store: Any) -> None:
    alone = damaged(world, store)
    other = enqueue(store, "other").batch_id
    lease = lease_on(store, "s1")

    assert store.queue.claim_exactly(lease, "idle", [alone, other]) is None
    with pytest.raises(CorruptRecord):
        store.queue.claim_exactly(lease, "idle", [alone])
    assert store.queue.claim_exactly(lease, "idle", [other]).batch_ids == [other]
