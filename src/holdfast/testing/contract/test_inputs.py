"""Section 12.2: turn inputs are submitted once, under their keys and ids, and listed in order."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest

from holdfast import (
    ActiveTurn,
    InvalidArgument,
    NextTurn,
    PendingTurnInputDraft,
    PendingTurnInputIdConflict,
    PendingTurnInputSourceKeyConflict,
    SessionBindingMismatch,
)
from holdfast.testing.contract.lanes import (
    cancel_one,
    pending,
    said,
    settle,
    states,
    submit,
    texts,
)
from holdfast.testing.contract.samples import lease_on
from holdfast.testing.world import World


def test_what_was_submitted_comes_back(store: Any, world: World) -> None:
    body = {"text": "a\0b é", "parts": [1, None, {"x": 0.5}]}

    record = store.inputs.enqueue(said(turn_id="t1", boundary="before_completion", input=body))

    assert re.fullmatch(r"ti:[0-9a-f]{32}", record.input_id)
    assert (record.session_id, record.source_key, record.state) == ("s1", None, "pending_active")
    assert record.ingress == record.submitted_ingress == ActiveTurn("t1", "before_completion")
    assert (record.enqueued_at_ms, record.input) == (world.clock.now_ms(), body)
    assert record.enqueue_seq > 0
    assert store.inputs.list_pending("s1") == [record]


def test_an_input_for_the_next_turn_says_so(store: Any) -> None:
    record = submit(store)

    assert (record.ingress, record.submitted_ingress) == (NextTurn(), NextTurn())
    assert record.state == "deferred_next_turn"


def test_an_input_needs_neither_session_nor_lease(store: Any) -> None:
    submit(store, "early")

    assert store.sessions.open("s1") is None
    assert pending(store) == ["early"]
    assert store.inputs.list_pending("other") == []
    assert store.inputs.list("other") == []


@pytest.mark.scenario("INP-T1")
def test_a_key_submitted_twice_identically_is_one_record(store: Any) -> None:
    first = submit(store, "hi", source_key="k")

    again = submit(store, "hi", source_key="k")

    assert again == first
    assert store.inputs.list_pending("s1") == [first]


@pytest.mark.scenario("INP-T1")
@pytest.mark.parametrize(
    "other",
    [
        said("other", "t1", source_key="k"),
        said("hi", "t2", source_key="k"),
        said("hi", "t1", "before_completion", source_key="k"),
        said("hi", source_key="k"),
    ],
    ids=["text", "turn", "boundary", "next turn"],
)
def test_a_key_submitted_with_other_content_is_a_conflict(
    store: Any, world: World, other: PendingTurnInputDraft
) -> None:
    first = submit(store, "hi", "t1", source_key="k")
    before = world.dump(store)

    with pytest.raises(PendingTurnInputSourceKeyConflict) as refused:
        store.inputs.enqueue(other)

    told = refused.value
    assert (told.session_id, told.source_key) == ("s1", "k")
    assert told.existing_input_id == first.input_id
    assert world.dump(store) == before


def test_equal_content_is_equal_canonical_json(store: Any) -> None:
    first = store.inputs.enqueue(said(input={"a": 1, "b": [2]}, source_key="k"))

    assert store.inputs.enqueue(said(input={"b": (2,), "a": 1}, source_key="k")) == first


def cancelled(store: Any, input_id: str) -> None:
    assert cancel_one(store, input_id).outcome == "cancelled"


def completed(store: Any, input_id: str) -> None:
    lease = lease_on(store, "s1")
    claim = store.inputs.claim_active(lease, "t1", "after_work")
    assert claim.input_ids == [input_id]
    settle(store, lease, completed_turn_input_claims=[claim])


def deferred(store: Any, _: str) -> None:
    settle(store, lease_on(store, "s1"), interrupted_turn_input_turn_id="t1")


@pytest.mark.scenario("INP-T2")
@pytest.mark.parametrize(
    ("end", "state", "pends"),
    [(cancelled, "cancelled", 0), (completed, "completed", 0), (deferred, "deferred_next_turn", 1)],
)
@pytest.mark.parametrize("by", ["key", "id"])
def test_the_same_submission_again_is_the_record_as_it_stands_now(
    store: Any, end: Any, state: str, pends: int, by: str
) -> None:
    name = {"source_key": "k"} if by == "key" else {"input_id": "i"}
    first = submit(store, "hi", "t1", **name)
    end(store, first.input_id)

    again = submit(store, "hi", "t1", **name)

    ingress = NextTurn() if state == "deferred_next_turn" else first.ingress
    assert again == msgspec.structs.replace(first, state=state, ingress=ingress)
    assert again.submitted_ingress == ActiveTurn("t1")
    assert len(store.inputs.list_pending("s1")) == pends


@pytest.mark.scenario("INP-T20")
@pytest.mark.parametrize(
    "other",
    [
        said("other", input_id="i"),
        said("hi", "t1", input_id="i"),
        said("hi", input_id="i", source_key="k"),
    ],
    ids=["text", "ingress", "key"],
)
def test_an_id_used_by_other_content_is_a_conflict(
    store: Any, world: World, other: PendingTurnInputDraft
) -> None:
    submit(store, "hi", input_id="i")
    before = world.dump(store)

    with pytest.raises(PendingTurnInputIdConflict) as refused:
        store.inputs.enqueue(other)

    assert (refused.value.session_id, refused.value.input_id) == ("s1", "i")
    assert world.dump(store) == before


def test_an_id_of_a_keyed_input_is_taken_for_one_without_a_key(store: Any) -> None:
    submit(store, "hi", input_id="i", source_key="k")

    with pytest.raises(PendingTurnInputIdConflict):
        submit(store, "hi", input_id="i")


def test_the_key_is_looked_at_before_the_id(store: Any) -> None:
    keyed = submit(store, "keyed", source_key="k")
    submit(store, "named", input_id="i")

    assert submit(store, "keyed", source_key="k", input_id="i") == keyed
    with pytest.raises(PendingTurnInputSourceKeyConflict):
        submit(store, "named", source_key="k", input_id="i")


@pytest.mark.scenario("INP-T3")
def test_each_session_lists_its_own_by_sequence(store: Any) -> None:
    for number in range(4):
        for session_id in ("s1", "s2"):
            submit(store, f"{session_id}-{number}", session_id=session_id, input_id=str(number))

    for session_id in ("s1", "s2"):
        records = store.inputs.list_pending(session_id)
        assert texts(records) == [f"{session_id}-{number}" for number in range(4)]
        sequences = [record.enqueue_seq for record in records]
        assert sequences == sorted(set(sequences))
        assert {record.session_id for record in records} == {session_id}


@pytest.mark.parametrize("listing", ["list_pending", "list"])
def test_a_listing_goes_on_behind_a_sequence(store: Any, listing: str) -> None:
    records = [submit(store, str(number)) for number in range(5)]

    def page(**options: Any) -> list[str]:
        found = getattr(store.inputs, listing)("s1", **options)
        return texts(found if listing == "list_pending" else [entry.record for entry in found])

    assert page(limit=2) == ["0", "1"]
    assert page(limit=2, after_seq=records[1].enqueue_seq) == ["2", "3"]
    assert page(after_seq=records[3].enqueue_seq) == ["4"]
    assert page(limit=0) == []
    for wrong in ({"limit": -1}, {"limit": 10_001}, {"after_seq": -1}):
        with pytest.raises(InvalidArgument):
            page(**wrong)


def test_a_listing_of_states_shows_those_only(store: Any) -> None:
    for text in ("next", "active", "gone"):
        submit(store, text, "t1" if text == "active" else None, input_id=text)
    cancel_one(store, "gone")

    def shown(*wanted: str) -> list[str]:
        return texts(entry.record for entry in store.inputs.list("s1", wanted))

    assert shown("cancelled") == ["gone"]
    assert shown("cancelled", "deferred_next_turn") == ["next", "gone"]
    assert shown("accepted", "completed") == shown() == []
    assert states(store) == {
        "next": "deferred_next_turn",
        "active": "pending_active",
        "gone": "cancelled",
    }
    with pytest.raises(InvalidArgument):
        shown("pending")


@pytest.mark.parametrize(
    ("draft", "field"),
    [
        (said(session_id=""), "session_id"),
        (said(turn_id="\0"), "ingress.turn_id"),
        (said(turn_id="t1", boundary="sometime"), "ingress.min_boundary"),
        (said(ingress="next_turn"), "ingress"),
        (said(input=float("nan")), "input"),
        (said(input_id=""), "input_id"),
        (said(source_key=" "), "source_key"),
        (said(source_key="x" * 1025), "source_key"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_invalid_draft_is_refused_before_anything_is_read(
    world: World, store: Any, draft: PendingTurnInputDraft, field: str
) -> None:
    store.sessions.list()
    world.backend(store).counts.clear()

    with pytest.raises(InvalidArgument) as refused:
        store.inputs.enqueue(draft)

    assert refused.value.field == field
    assert not +world.backend(store).counts


def test_an_input_larger_than_a_value_may_be_is_refused(world: World) -> None:
    store = world.open(max_value_bytes=100)
    submit(store, "x" * (100 - len('{"text":""}')))

    with pytest.raises(InvalidArgument) as refused:
        submit(store, "x" * (101 - len('{"text":""}')))

    assert (refused.value.field, refused.value.reason) == ("input", "too_large")
    assert len(store.inputs.list_pending("s1")) == 1


def test_a_view_takes_inputs_of_its_own_session_only(store: Any) -> None:
    view = store.session("s1")

    with pytest.raises(SessionBindingMismatch) as refused:
        view.inputs.enqueue(said(session_id="s2"))

    assert (refused.value.bound_session_id, refused.value.attempted_session_id) == ("s1", "s2")
    assert view.inputs.enqueue(said("mine")) == view.inputs.list_pending()[0]
    assert store.inputs.list_pending("s2") == []
