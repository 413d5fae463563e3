"""Turn inputs edited beneath the store: nobody is handed them, and they can be cancelled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from holdfast import CorruptRecord, NextTurn
from holdfast.testing.clock import ManualClock
from holdfast.testing.contract.lanes import (
    cancel_one,
    enqueue,
    pending,
    queued,
    renewed,
    settle,
    submit,
    texts,
)
from holdfast.testing.contract.samples import lease_on
from holdfast.testing.world import World

EDITS = {
    "body": "UPDATE {turn_input} SET body = '{\"text\":\"edited\"}' WHERE input_id = 'bad'",
    "unparsable": "UPDATE {turn_input} SET body = '{' WHERE input_id = 'bad'",
    "submitted": "UPDATE {turn_input} SET submitted = '{}' WHERE input_id = 'bad'",
    "digest": "UPDATE {turn_input} SET digest = 'none' WHERE input_id = 'bad'",
    "boundary": "UPDATE {turn_input} SET min_boundary = 'sometime', turn_id = 't'"
    " WHERE input_id = 'bad'",
}


def corrupt(act: Callable[[], Any]) -> None:
    with pytest.raises(CorruptRecord) as damage:
        act()
    assert (damage.value.record_kind, damage.value.key) == ("turn_input", "bad")


def damaged(world: World, store: Any, edit: str, turn_id: str | None) -> None:
    """An input that is what it was between two that are not."""
    for input_id in ("before", "bad", "after"):
        submit(store, input_id, turn_id, input_id=input_id, boundary="before_completion")
    world.sql(store, EDITS[edit])


@pytest.mark.invariant("INV-7")
@pytest.mark.parametrize("edit", EDITS)
def test_no_listing_shows_a_damaged_input(world: World, store: Any, edit: str) -> None:
    damaged(world, store, edit, "t")

    corrupt(lambda: store.inputs.list_pending("s1"))
    corrupt(lambda: store.inputs.list("s1"))
    assert texts(store.inputs.list_pending("s1", limit=1)) == ["before"]


def test_an_unknown_state_is_no_state(world: World, store: Any) -> None:
    submit(store, input_id="bad")
    world.sql(store, "UPDATE {turn_input} SET state = 'lost'")

    corrupt(lambda: store.inputs.list_pending("s1"))
    corrupt(lambda: cancel_one(store, "bad"))


def test_where_one_input_has_an_unknown_state_none_beside_it_is_cancelled(
    world: World, store: Any
) -> None:
    for input_id in ("before", "bad", "after"):
        submit(store, input_id, input_id=input_id)
    world.sql(store, "UPDATE {turn_input} SET state = 'lost' WHERE input_id = 'bad'")
    before = world.dump(store)

    corrupt(lambda: store.inputs.cancel("s1", ["after", "bad", "before"]))
    corrupt(lambda: store.inputs.cancel_suffix("s1", "before"))

    assert world.dump(store) == before
    assert cancel_one(store, "after").outcome == "cancelled"


@pytest.mark.parametrize("edit", EDITS)
def test_a_damaged_input_is_claimed_by_nobody_and_nothing_beside_it(
    world: World, store: Any, edit: str
) -> None:
    damaged(world, store, edit, "t")
    enqueue(store, delivery_policy="earliest_safe_boundary")
    lease = lease_on(store, "s1")
    before = world.dump(store)

    for maximum in (2, 100):
        corrupt(lambda: store.inputs.claim_active(lease, "t", "before_completion", maximum))  # noqa: B023
    corrupt(lambda: store.queue.claim_at_checkpoint(lease, "t", "before_completion"))

    assert world.dump(store) == before
    claim = store.inputs.claim_active(lease, "t", "before_completion", 1)
    assert claim.input_ids == ["before"]


@pytest.mark.parametrize("edit", sorted(EDITS.keys() - {"boundary"}))
def test_a_damaged_input_for_the_next_turn_is_claimed_by_nobody(
    world: World, store: Any, edit: str
) -> None:
    damaged(world, store, edit, None)
    lease = lease_on(store, "s1")
    before = world.dump(store)

    corrupt(lambda: store.inputs.claim_next(lease))

    assert world.dump(store) == before


@pytest.mark.parametrize("edit", EDITS)
def test_a_damaged_input_can_be_cancelled_and_shows_its_raw_text(
    world: World, store: Any, edit: str
) -> None:
    damaged(world, store, edit, "t")
    ((body,),) = world.sql(store, "SELECT body FROM {turn_input} WHERE input_id = 'bad'")

    found = cancel_one(store, "bad")

    assert (found.outcome, found.record.state) == ("cancelled", "cancelled")
    assert found.record.input == body
    assert pending(store) == ["before", "after"]
    claim = store.inputs.claim_active(lease_on(store, "s1"), "t", "before_completion")
    assert claim.input_ids == ["before", "after"]


@pytest.mark.parametrize("edit", EDITS)
def test_a_suffix_with_a_damaged_input_is_cancelled(world: World, store: Any, edit: str) -> None:
    damaged(world, store, edit, "t")

    found = store.inputs.cancel_suffix("s1", "before")

    assert [each.outcome for each in found] == ["cancelled"] * 3
    assert pending(store) == []


@pytest.mark.parametrize("edit", sorted(EDITS))
def test_recovery_of_a_damaged_input_recovers_nothing_and_a_deferral_frees_it(
    world: World, store: Any, clock: ManualClock, edit: str
) -> None:
    for input_id in ("before", "bad"):
        submit(store, input_id, "t", input_id=input_id)
    first = lease_on(store, "s1")
    store.inputs.claim_active(first, "t", "after_work")
    world.sql(store, EDITS[edit])
    lease = renewed(store, clock, first)
    before = world.dump(store)

    corrupt(lambda: store.inputs.recover_orphaned(lease, "t"))

    assert world.dump(store) == before
    settle(store, lease, interrupted_turn_input_turn_id="t")
    found = cancel_one(store, "bad")
    assert (found.outcome, found.record.ingress) == ("cancelled", NextTurn())
    assert pending(store) == ["before"]


def test_a_resubmission_of_a_damaged_input_says_so(world: World, store: Any) -> None:
    submit(store, "hi", input_id="bad", source_key="k")
    world.sql(store, "UPDATE {turn_input} SET body = '{'")

    corrupt(lambda: submit(store, "hi", input_id="bad", source_key="k"))


def test_damage_of_one_session_is_nothing_to_another(world: World, store: Any) -> None:
    damaged(world, store, "body", None)
    submit(store, "well", session_id="s2")
    enqueue(store, "well", session_id="s2")

    assert (pending(store, "s2"), queued(store, "s2")) == (["well"], ["well"])
