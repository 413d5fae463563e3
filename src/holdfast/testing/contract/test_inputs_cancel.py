"""Section 12.3: what cancelling an input comes to, one by one and from an anchor on."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast import InvalidArgument, SourceKey
from holdfast.testing.clock import ManualClock
from holdfast.testing.contract.lanes import (
    ENDINGS,
    cancel_one,
    pending,
    settle,
    states,
    submit,
)
from holdfast.testing.contract.samples import ALICE, lease_on
from holdfast.testing.world import World

SUFFIX = 10_000


def outcomes(found: list[Any]) -> list[str]:
    return [each.outcome for each in found]


@pytest.mark.scenario("INP-T4")
def test_a_pending_input_is_cancelled_once(store: Any) -> None:
    first = submit(store, "hi", input_id="i")

    once, twice = cancel_one(store, "i"), cancel_one(store, "i")

    assert (once.outcome, twice.outcome) == ("cancelled", "already_cancelled")
    assert once.record == twice.record
    assert (once.record.state, once.record.input) == ("cancelled", first.input)
    assert (once.claim, twice.claim) == (None, None)
    assert pending(store) == []


@pytest.mark.scenario("INP-T4")
def test_what_was_never_submitted_is_not_found(store: Any) -> None:
    submit(store, "elsewhere", session_id="s2", input_id="i", source_key="k")

    for target in ("i", SourceKey("k")):
        found = cancel_one(store, target)
        assert (found.outcome, found.record, found.claim) == ("not_found", None, None)

    assert pending(store, "s2") == ["elsewhere"]


@pytest.mark.scenario("INP-T4")
def test_a_completed_input_stays_completed(store: Any) -> None:
    submit(store, "hi", input_id="i")
    lease = lease_on(store, "s1")
    settle(store, lease, completed_turn_input_claims=[store.inputs.claim_next(lease)])

    found = cancel_one(store, "i")

    assert (found.outcome, found.record.state, found.claim) == (
        "already_completed",
        "completed",
        None,
    )


@pytest.mark.scenario("INP-T5")
def test_targets_are_answered_in_order_and_a_repeated_one_sees_the_first(store: Any) -> None:
    submit(store, "keyed", source_key="k", input_id="i1")
    submit(store, "named", input_id="i2")
    submit(store, "other")

    found = store.inputs.cancel("s1", [SourceKey("k"), "i2", SourceKey("missing"), SourceKey("k")])

    assert outcomes(found) == ["cancelled", "cancelled", "not_found", "already_cancelled"]
    assert [each.record and each.record.input_id for each in found] == ["i1", "i2", None, "i1"]
    assert pending(store) == ["other"]


def test_an_input_named_by_key_and_by_id_is_one(store: Any) -> None:
    submit(store, "keyed", source_key="k", input_id="i")

    assert outcomes(store.inputs.cancel("s1", ["i", SourceKey("k"), "k"])) == [
        "cancelled",
        "already_cancelled",
        "not_found",
    ]


def test_cancelling_nothing_touches_nothing(world: World, store: Any) -> None:
    submit(store)
    world.backend(store).counts.clear()

    assert store.inputs.cancel("s1", []) == []

    assert not +world.backend(store).counts


@pytest.mark.parametrize("targets", [[""], [SourceKey("\0")], [7], "i", ["i"] * 10_001])
def test_a_target_that_cannot_be_one_is_refused(store: Any, targets: Any) -> None:
    submit(store, input_id="i")

    with pytest.raises(InvalidArgument):
        store.inputs.cancel("s1", targets)

    assert pending(store) == ["hello"]


def test_an_accepted_input_says_who_has_it(store: Any) -> None:
    submit(store, "hi", "t1", input_id="i")
    lease = lease_on(store, "s1")
    claim = store.inputs.claim_active(lease, "t1", "after_work")

    found = cancel_one(store, "i")

    assert (found.outcome, found.record.state) == ("already_claimed", "accepted")
    told = found.claim
    assert (told.claim_id, told.claim_owner) == (claim.claim_id, ALICE.owner_id)
    assert (told.claim_session_lease_generation, told.claim_count) == (lease.generation, 1)
    assert (told.state, told.claim_live) == ("accepted", True)
    (entry,) = store.inputs.list("s1")
    assert (entry.record, entry.claim) == (found.record, told)


@pytest.mark.parametrize("end", ENDINGS)
def test_an_accepted_input_stays_accepted_when_its_claim_dies(
    store: Any, clock: ManualClock, end: Any
) -> None:
    submit(store, "hi", "t1", input_id="i")
    lease = lease_on(store, "s1")
    store.inputs.claim_active(lease, "t1", "after_work")
    end(store, clock, lease)

    found = cancel_one(store, "i")

    assert (found.outcome, found.claim.claim_live) == ("already_claimed", False)
    assert states(store) == {"hi": "accepted"}


def test_cancelling_an_input_clears_its_dead_claim(store: Any, clock: ManualClock) -> None:
    submit(store, "hi", input_id="i")
    lease = lease_on(store, "s1")
    store.inputs.claim_next(lease)
    clock.advance(30_000)

    assert cancel_one(store, "i").outcome == "cancelled"

    (entry,) = store.inputs.list("s1")
    told = entry.claim
    assert (told.claim_id, told.claim_owner, told.claim_session_lease_generation) == (None,) * 3
    assert (told.claim_count, told.claim_live) == (1, False)


@pytest.fixture
def line(store: Any) -> Any:
    """Five inputs in a row, the third of them accepted; its claim."""
    for text in ("before", "anchor", "taken", "later"):
        turn_id = "t1" if text == "taken" else None
        submit(store, text, turn_id, input_id=text, source_key=f"key of {text}")
    submit(store, "ended", input_id="ended")
    cancel_one(store, "ended")
    submit(store, "elsewhere", session_id="s2", input_id="anchor", source_key="key of anchor")
    return store.inputs.claim_active(lease_on(store, "s1"), "t1", "after_work")


@pytest.mark.scenario("INP-T6")
@pytest.mark.parametrize("anchor", [SourceKey("key of anchor"), "anchor"], ids=["key", "id"])
def test_a_suffix_is_the_anchor_and_all_behind_it(store: Any, line: Any, anchor: Any) -> None:
    found = store.inputs.cancel_suffix("s1", anchor)

    assert outcomes(found) == ["cancelled", "already_claimed", "cancelled", "already_cancelled"]
    assert [each.record.input_id for each in found] == ["anchor", "taken", "later", "ended"]
    assert found[1].claim.claim_id == line.claim_id
    assert pending(store) == ["before"]
    assert pending(store, "s2") == ["elsewhere"]


@pytest.mark.scenario("INP-T6")
@pytest.mark.parametrize("anchor", ["none", SourceKey("none"), "key of anchor"])
@pytest.mark.usefixtures("line")
def test_without_its_anchor_a_suffix_is_nothing(store: Any, world: World, anchor: Any) -> None:
    before = world.dump(store)

    found = store.inputs.cancel_suffix("s1", anchor)

    assert outcomes(found) == ["anchor_not_found"]
    assert (found[0].record, found[0].claim) == (None, None)
    assert world.dump(store) == before


_COPIES = (
    "INSERT INTO {turn_input} (session, input_id, submitted, state, enqueued_at_ms, ready_at_ms,"
    " digest, body) SELECT session, 'i' || n, submitted, state, enqueued_at_ms, ready_at_ms,"
    " digest, body FROM {turn_input} CROSS JOIN (%s) t"
)
_NUMBERS = (
    "WITH RECURSIVE t(n) AS (SELECT 2 UNION ALL SELECT n + 1 FROM t WHERE n < ?) SELECT n FROM t"
)


def many(world: World, store: Any, count: int) -> None:
    """That many inputs, `i1`, `i2`, ..., all like the first."""
    submit(store, "many", input_id="i1")
    world.sql(store, _COPIES.replace("%s", _NUMBERS), count)


def test_a_suffix_has_ten_thousand_inputs_at_most(world: World, store: Any) -> None:
    many(world, store, SUFFIX + 1)
    before = world.dump(store)

    with pytest.raises(InvalidArgument) as refused:
        store.inputs.cancel_suffix("s1", "i1")

    assert (refused.value.field, refused.value.reason) == ("anchor", "too_large")
    assert world.dump(store) == before
    found = store.inputs.cancel_suffix("s1", "i2")
    assert (len(found), set(outcomes(found))) == (SUFFIX, {"cancelled"})
    assert [entry.input_id for entry in store.inputs.list_pending("s1")] == ["i1"]
