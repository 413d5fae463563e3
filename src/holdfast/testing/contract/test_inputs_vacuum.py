"""MNT-1 to MNT-3 for turn inputs: what has ended goes when the host says so, and only that."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast import InvalidArgument, SourceKey
from holdfast.testing.clock import ManualClock
from holdfast.testing.contract.lanes import (
    cancel_one,
    enqueue,
    pending,
    queued,
    settle,
    states,
    submit,
)
from holdfast.testing.contract.samples import lease_on
from holdfast.testing.world import World


@pytest.fixture
def ended(store: Any) -> Any:
    """One input cancelled, one completed, and one in each state that is not over; the lease."""
    submit(store, "cancelled", source_key="k1", input_id="i1")
    submit(store, "completed", source_key="k2", input_id="i2")
    cancel_one(store, "i1")
    lease = lease_on(store, "s1")
    settle(store, lease, completed_turn_input_claims=[store.inputs.claim_next(lease)])
    submit(store, "accepted", "t1")
    store.inputs.claim_active(lease, "t1", "after_work")
    submit(store, "deferred")
    submit(store, "active", "t2")
    return lease


@pytest.mark.scenario("INP-T19", "MNT-T2")
@pytest.mark.usefixtures("ended")
def test_what_has_ended_is_removed_and_counted_once(store: Any) -> None:
    report = store.sessions.vacuum("s1")

    assert (report.removed_turn_input_count, report.removed_node_count) == (2, 0)
    assert [cancel_one(store, id).outcome for id in ("i1", "i2")] == ["not_found"] * 2
    assert pending(store) == ["deferred", "active"]
    assert states(store) == {
        "accepted": "accepted",
        "deferred": "deferred_next_turn",
        "active": "pending_active",
    }
    assert store.sessions.vacuum("s1").removed_turn_input_count == 0


@pytest.mark.scenario("MNT-T2")
@pytest.mark.usefixtures("ended")
def test_a_freed_key_and_id_take_new_content(store: Any) -> None:
    store.sessions.vacuum("s1")

    record = submit(store, "new", source_key="k1", input_id="i2")

    assert (record.input, record.state) == ({"text": "new"}, "deferred_next_turn")
    assert submit(store, "new", "t9", source_key="k2").state == "pending_active"


@pytest.mark.usefixtures("ended")
def test_neither_queue_nor_claims_are_touched(store: Any, ended: Any) -> None:
    enqueue(store, "waits", source_key="q")
    (accepted,) = store.inputs.list("s1", ["accepted"])

    store.sessions.vacuum("s1")
    store.maintenance.vacuum()

    assert queued(store) == ["waits"]
    assert store.inputs.list("s1", ["accepted"]) == [accepted]
    assert store.inputs.claim_next(ended) is not None


def test_only_what_ended_before_an_instant_goes(store: Any, clock: ManualClock) -> None:
    for number in range(4):
        submit(store, str(number), input_id=str(number))
        cancel_one(store, str(number))
        clock.advance(10)
    instant = clock.now_ms() - 20

    report = store.sessions.vacuum("s1", instant)

    assert report.removed_turn_input_count == 2
    assert sorted(states(store)) == ["2", "3"]


def test_on_the_store_it_vacuums_every_session_in_batches(store: Any) -> None:
    for session_id in ("s1", "s2", "s3"):
        for number in range(3):
            submit(store, "hi", session_id=session_id, source_key=str(number))
            cancel_one(store, SourceKey(str(number)), session_id)
        submit(store, "stays", session_id=session_id)

    assert store.maintenance.vacuum(limit=2).removed_turn_input_count == 9
    assert store.maintenance.vacuum().removed_turn_input_count == 0

    assert [pending(store, each) for each in ("s1", "s2", "s3")] == [["stays"]] * 3


def test_another_sessions_inputs_stay(store: Any) -> None:
    for session_id in ("s1", "s2"):
        submit(store, "hi", session_id=session_id, input_id="i")
        cancel_one(store, "i", session_id)

    assert store.sessions.vacuum("s1").removed_turn_input_count == 1

    assert (states(store), states(store, "s2")) == ({}, {"hi": "cancelled"})


@pytest.mark.parametrize("wrong", [{"terminal_before_ms": 0.5}, {"limit": -1}])
def test_a_window_that_is_none_is_refused(store: Any, wrong: Any) -> None:
    submit(store)
    with pytest.raises(InvalidArgument):
        store.sessions.vacuum("s1", **wrong)


@pytest.mark.scenario("GEN-T12")
def test_an_interrupted_vacuum_is_continued(world: World, store: Any) -> None:
    for number in range(5):
        submit(store, "hi", input_id=str(number))
        cancel_one(store, str(number))
    batches = 0

    def interrupt(name: str, when: str) -> None:
        nonlocal batches
        batches += (name, when) == ("vacuum_inputs", "before")
        if batches == 2:
            raise InterruptedError

    world.backend(store).on_statement = interrupt
    with pytest.raises(InterruptedError):
        store.sessions.vacuum("s1", limit=2)
    world.backend(store).on_statement = None

    assert len(store.inputs.list("s1")) == 3
    assert store.sessions.vacuum("s1", limit=2).removed_turn_input_count == 3
