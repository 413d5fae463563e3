"""Batches edited beneath the store: nobody is handed them, and they can be cancelled (QUE-18)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from holdfast import CorruptRecord
from holdfast.rules.queue import digest
from holdfast.testing.contract.lanes import enqueue, names, queued, settle, work
from holdfast.testing.contract.samples import lease_on
from holdfast.testing.world import World

#: Edits of a batch that is otherwise as `BAD` says, by what they edit.
EDITS: dict[str, tuple[str, Any]] = {
    "undecodable": ("payloads", "{"),
    "edited": ("payloads", '[{"name":"edited","type":"tick"}]'),
    "digest": ("digest", "none"),
    "class": ("class", "housework"),
    "delivery": ("delivery", "sometime"),
    "slot": ("slot", "shared"),
    "merge key": ("merge_key", '"always"'),
    "no merge key": ("merge_key", "{"),
    "availability": ("available_at_ms", 1),
    "dedupe": ("dedupe", "sometimes"),
}
#: Words that a library to come may know, stored whole by it; the digest is right.
UNKNOWN = ["class", "delivery", "slot", "merge key", "dedupe"]
BAD: dict[str, Any] = {"slot_policy": "join", "merge_key": "payload_default", "source_key": "bad"}
_CONTENT = ("class", "delivery", "slot", "merge_key", "available_at_ms", "payloads")


def edit(world: World, store: Any, name: str, *, resign: bool = False) -> str:
    """Edit the batch under the key `bad` beneath the store; its id. Its digest may be made anew."""
    column, value = EDITS[name]
    bad = "WHERE source_key = 'bad'"
    world.sql(store, f"UPDATE {{work}} SET {column} = ? {bad}", value)  # noqa: S608
    if resign:
        (row,) = world.sql(store, f"SELECT {', '.join(_CONTENT)} FROM {{work}} {bad}")  # noqa: S608
        world.sql(store, f"UPDATE {{work}} SET digest = ? {bad}", digest(*row))  # noqa: S608
    (((batch_id),),) = world.sql(store, f"SELECT batch_id FROM {{work}} {bad}")  # noqa: S608
    return str(batch_id)


def corrupt(batch_id: str, act: Callable[[], Any]) -> None:
    with pytest.raises(CorruptRecord) as damage:
        act()
    assert (damage.value.record_kind, damage.value.key) == ("queued_work", batch_id)


CASES = pytest.mark.parametrize(
    ("name", "resign"),
    [(name, False) for name in EDITS] + [(name, True) for name in UNKNOWN],
    ids=[*EDITS, *(f"unknown {name}" for name in UNKNOWN)],
)


@pytest.mark.invariant("INV-7")
@CASES
def test_no_listing_shows_a_damaged_batch(
    world: World, store: Any, name: str, resign: bool
) -> None:
    enqueue(store, "before")
    bad = enqueue(store, "bad", **BAD).batch
    enqueue(store, "after")
    edit(world, store, name, resign=resign)

    for listing in (store.queue.list, store.queue.list_pending):
        corrupt(bad.batch_id, lambda: listing("s1"))  # noqa: B023
        assert names(listing("s1", limit=1)) == ["before"]
        assert names(listing("s1", after_seq=bad.enqueue_seq)) == ["after"]


@pytest.mark.scenario("QUE-T29")
@CASES
def test_a_damaged_batch_is_claimed_by_nobody_until_it_is_cancelled(
    world: World, store: Any, name: str, resign: bool
) -> None:
    enqueue(store, "bad", **BAD)
    enqueue(store, "after", slot_policy="join", merge_key="payload_default")
    bad = edit(world, store, name, resign=resign)
    lease = lease_on(store, "s1")
    before = world.dump(store)

    for maximum in (1, 10):
        corrupt(bad, lambda: store.queue.claim(lease, "idle", maximum))  # noqa: B023
    corrupt(bad, lambda: store.queue.claim_exactly(lease, "idle", [bad]))

    assert world.dump(store) == before
    assert store.queue.cancel("s1", bad) is not None
    claim = store.queue.claim(lease, "idle", 10)
    assert names(claim.batches) == ["after"]
    settle(store, lease, completed_queue_claims=[claim])
    assert queued(store) == []


@pytest.mark.parametrize("name", ["undecodable", "edited", "digest", "dedupe"])
def test_a_claim_that_a_damaged_batch_would_join_takes_nothing(
    world: World, store: Any, name: str
) -> None:
    joins = {"slot_policy": "join", "merge_key": "payload_default"}
    first = enqueue(store, "before", **joins).batch
    enqueue(store, "bad", **BAD)
    bad = edit(world, store, name)
    lease = lease_on(store, "s1")
    before = world.dump(store)

    corrupt(bad, lambda: store.queue.claim(lease, "idle", 2))
    corrupt(bad, lambda: store.queue.claim_exactly(lease, "idle", [first.batch_id, bad]))

    assert world.dump(store) == before
    assert names(store.queue.claim(lease, "idle", 1).batches) == ["before"]


@pytest.mark.parametrize("name", ["undecodable", "digest", "dedupe", "class"])
def test_a_damaged_command_is_claimed_by_nobody(world: World, store: Any, name: str) -> None:
    enqueue(store, source_key="bad", payloads=[{"type": "session_command"}])
    bad = edit(world, store, name)
    lease = lease_on(store, "s1")
    before = world.dump(store)

    corrupt(bad, lambda: store.queue.claim_command(lease))

    assert world.dump(store) == before


@pytest.mark.parametrize("name", ["undecodable", "digest", "slot", "class"])
def test_a_damaged_batch_is_claimed_at_no_checkpoint(world: World, store: Any, name: str) -> None:
    enqueue(store, "bad", delivery_policy="earliest_safe_boundary", **BAD)
    bad = edit(world, store, name)
    lease = lease_on(store, "s1")
    before = world.dump(store)

    corrupt(bad, lambda: store.queue.claim(lease, "active_turn_checkpoint"))
    corrupt(bad, lambda: store.queue.claim_at_checkpoint(lease, "t", "after_work"))

    assert world.dump(store) == before


@pytest.mark.scenario("QUE-T29")
@CASES
def test_a_damaged_batch_is_cancelled_and_shows_its_raw_text(
    world: World, store: Any, name: str, resign: bool
) -> None:
    batch = enqueue(store, "bad", **BAD).batch
    enqueue(store, "after")
    bad = edit(world, store, name, resign=resign)
    ((payloads, merge_key),) = world.sql(
        store, "SELECT payloads, merge_key FROM {work} WHERE source_key = 'bad'"
    )

    found = store.queue.cancel("s1", bad)

    assert (found.batch_id, found.enqueue_seq) == (bad, batch.enqueue_seq)
    assert [item.payload for item in found.items] == [payloads]
    assert found.merge_key == merge_key
    assert queued(store) == ["after"]
    assert store.queue.cancel("s1", bad) is None


def test_an_enqueue_that_meets_a_damaged_batch_under_its_key_stores_nothing(
    world: World, store: Any
) -> None:
    enqueue(store, "bad", **BAD)
    bad = edit(world, store, "undecodable")
    before = world.dump(store)
    again = work("bad", **BAD)

    corrupt(bad, lambda: store.queue.enqueue(again))
    corrupt(bad, lambda: store.queue.enqueue_many([work("new"), again, work("new", "s2")]))

    assert world.dump(store) == before


def test_a_receipt_has_no_content_to_be_damaged(world: World, store: Any) -> None:
    enqueue(store, "bad", **BAD)
    lease = lease_on(store, "s1")
    settle(store, lease, completed_queue_claims=[store.queue.claim(lease)])
    edit(world, store, "digest")

    outcomes = store.queue.enqueue_many([work("bad", **BAD), work("new")])

    assert [(each.settled, each.content_matches) for each in outcomes] == [
        (True, False),
        (False, True),
    ]


def test_a_session_with_a_damaged_batch_is_ready_until_it_is_cancelled(
    world: World, store: Any
) -> None:
    enqueue(store, "bad", **BAD)
    bad = edit(world, store, "undecodable")
    assert [each.session_id for each in store.queue.ready_sessions()] == ["s1"]

    store.queue.cancel("s1", bad)

    assert store.queue.ready_sessions() == []


def test_damage_of_one_session_is_nothing_to_another(world: World, store: Any) -> None:
    enqueue(store, "bad", **BAD)
    enqueue(store, "well", session_id="s2")
    edit(world, store, "undecodable")

    assert queued(store, "s2") == ["well"]
    assert names(store.queue.claim(lease_on(store, "s2")).batches) == ["well"]
