"""BAK-7 for turn inputs: what waited for a section answers as if it had come after."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from holdfast import (
    CheckpointWork,
    LeaseLost,
    PendingTurnInputSourceKeyConflict,
    SessionDeleted,
    TurnInputClaimSuperseded,
)
from holdfast.testing.contract.lanes import (
    enqueue,
    pending,
    queued,
    said,
    settle,
    states,
    submit,
    work,
)
from holdfast.testing.contract.samples import lease_on
from holdfast.testing.contract.test_backends_waiting import (
    _WAITING,
    DELETED,
    RELEASED,
    TAKEN,
    after,
)
from holdfast.testing.world import World

CLAIMS: dict[str, Callable[[Any, Any], Any]] = {
    "next": lambda store, lease: store.inputs.claim_next(lease),
    "active": lambda store, lease: store.inputs.claim_active(lease, "t", "after_work"),
    "checkpoint": lambda store, lease: store.queue.claim_at_checkpoint(lease, "t", "after_work"),
    "recover": lambda store, lease: store.inputs.recover_orphaned(lease, "t"),
}
#: What somebody else does to the inputs in their section while others wait for it.
ENTERED = "UPDATE {session} SET generation = generation"
CANCELLED = "UPDATE {turn_input} SET state = 'cancelled', ended_at_ms = 1, ready_at_ms = NULL"
CLAIMED = (
    "UPDATE {turn_input} SET claim_id = 'tic:1:9', claim_token = 'hers', claim_owner = 'alice',"
    " claim_generation = 1, claim_count = 9"
)
GONE = (*DELETED, "DELETE FROM {turn_input}", "DELETE FROM {readiness}")


@pytest.mark.scenario("BAK-T7")
@pytest.mark.parametrize("name", CLAIMS)
@pytest.mark.parametrize(
    ("change", "reason"), [(TAKEN, "superseded"), (RELEASED, "released")], ids=["taken", "released"]
)
def test_a_claim_whose_lease_passed_on_while_it_waited_takes_nothing(
    world: World, store: Any, name: str, change: str, reason: str
) -> None:
    submit(store, "next")
    submit(store, "active", "t")
    held = lease_on(store, "s1")

    outcome = after(world, store, change, act=lambda: CLAIMS[name](store, held))

    assert isinstance(outcome, LeaseLost)
    assert outcome.reason == reason
    assert world.sql(store, "SELECT sum(claim_count) FROM {turn_input}") == [(0,)]


@pytest.mark.scenario("BAK-T7")
@pytest.mark.parametrize(("name", "nothing"), [("next", None), ("active", None), ("checkpoint", 0)])
@pytest.mark.parametrize("change", [CANCELLED, CLAIMED], ids=["cancelled", "claimed"])
def test_a_claim_finds_what_is_there_when_its_turn_comes(
    world: World, store: Any, name: str, nothing: Any, change: str
) -> None:
    submit(store, "next")
    submit(store, "active", "t")
    held = lease_on(store, "s1")

    outcome = after(world, store, ENTERED, change, act=lambda: CLAIMS[name](store, held))

    assert outcome == (CheckpointWork() if nothing == 0 else None)


@pytest.mark.scenario("BAK-T7")
def test_a_cancellation_meets_the_claim_that_came_first(world: World, store: Any) -> None:
    submit(store, "hi", input_id="i")
    lease_on(store, "s1")

    for act in (
        lambda: store.inputs.cancel("s1", ["i"]),
        lambda: store.inputs.cancel_suffix("s1", "i"),
    ):
        (outcome,) = after(world, store, ENTERED, CLAIMED, act=act)
        assert (outcome.outcome, outcome.claim.claim_id) == ("already_claimed", "tic:1:9")
    assert states(store) == {"hi": "deferred_next_turn"}


@pytest.mark.scenario("BAK-T7")
@pytest.mark.parametrize("name", ["one", "suffix", "work"])
def test_a_cancellation_does_nothing_in_a_session_that_appeared_behind_its_look(
    world: World, store: Any, name: str
) -> None:
    if not world.is_server:
        pytest.skip("the lock of the one writer is there before any session")
    submit(store, "hi", session_id="other", input_id="i")
    batch_id = enqueue(store, session_id="other").batch_id
    act = {
        "one": lambda: store.inputs.cancel("s1", ["i"])[0].outcome,
        "suffix": lambda: store.inputs.cancel_suffix("s1", "i")[0].outcome,
        "work": lambda: store.queue.cancel("s1", batch_id),
    }[name]
    # It stops between its look at the section, in which there is no such session, and the rest.
    stopped = "LOCK TABLE {%s} IN ACCESS EXCLUSIVE MODE" % (
        "work" if name == "work" else "turn_input"
    )
    appears = ("UPDATE {session} SET id = 's1'", "DELETE FROM {readiness}")

    outcome = after(world, store, stopped, *appears, act=act)

    assert outcome in ("not_found", "anchor_not_found", None)
    assert (pending(store), queued(store)) == (["hi"], ["tick"])
    assert store.queue.ready_sessions() == [], "without the lock nothing is made ready"


@pytest.mark.scenario("BAK-T7")
def test_a_completion_meets_what_became_of_its_claim(world: World, store: Any) -> None:
    submit(store, "hi")
    lease = lease_on(store, "s1")
    claim = store.inputs.claim_next(lease)

    outcome = after(
        world,
        store,
        ENTERED,
        CLAIMED,
        act=lambda: settle(store, lease, completed_turn_input_claims=[claim]),
    )

    assert isinstance(outcome, TurnInputClaimSuperseded)
    assert store.sessions.load("s1") is None


@pytest.mark.scenario("BAK-T7")
def test_giving_a_claim_back_leaves_the_one_that_replaced_it(world: World, store: Any) -> None:
    submit(store, "hi")
    claim = store.inputs.claim_next(lease_on(store, "s1"))

    assert after(world, store, ENTERED, CLAIMED, act=lambda: store.inputs.abandon(claim)) == 0

    assert pending(store) == []


@pytest.mark.scenario("BAK-T7")
def test_a_submission_meets_the_key_that_was_used_meanwhile(world: World, store: Any) -> None:
    other = submit(store, "other", input_id="i")
    used = "UPDATE {turn_input} SET source_key = 'k'"

    conflict = after(world, store, ENTERED, used, act=lambda: submit(store, "hi", source_key="k"))
    same = after(world, store, ENTERED, used, act=lambda: submit(store, "other", source_key="k"))

    assert isinstance(conflict, PendingTurnInputSourceKeyConflict)
    assert conflict.existing_input_id == other.input_id == same.input_id
    assert len(store.inputs.list("s1")) == 1


@pytest.mark.scenario("BAK-T7")
@pytest.mark.parametrize("name", ["one", "many", "input"])
def test_what_waited_for_the_section_has_come_when_its_turn_came(world: World, name: str) -> None:
    """GEN-7, by the database's own clock."""
    store = world.open(clock=None)
    enqueue(store)
    act = {
        "one": lambda: enqueue(store).batch,
        "many": lambda: store.queue.enqueue_many([work()])[0].batch,
        "input": lambda: submit(store),
    }[name]

    with ThreadPoolExecutor(1) as thread, world.beneath(store) as run:
        run("BEGIN" if world.is_server else "BEGIN IMMEDIATE")
        run(ENTERED)
        waiting = thread.submit(act)
        while world.is_server and not run(_WAITING)[0][0]:
            assert not waiting.done()
        begun = now = clock_of(world, run)
        while now < begun + 5:
            now = clock_of(world, run)
        run("COMMIT")
        assert waiting.result().enqueued_at_ms >= now


def clock_of(world: World, run: Any) -> int:
    """What the clock says that such a store goes by."""
    if not world.is_server:
        return time.time_ns() // 1_000_000
    return int(run("SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint")[0][0])


@pytest.mark.scenario("BAK-T7")
def test_a_submission_to_a_session_deleted_meanwhile_begins_it_anew(
    world: World, store: Any
) -> None:
    submit(store, "before", source_key="k")

    record = after(world, store, *GONE, act=lambda: submit(store, "after", source_key="k"))

    assert record.state == "deferred_next_turn"
    assert pending(store) == ["after"]
    assert [each.session_id for each in store.queue.ready_sessions()] == ["s1"]


@pytest.mark.scenario("BAK-T7")
@pytest.mark.parametrize(
    "act",
    [
        lambda view, _: view.inputs.enqueue(said()),
        lambda view, _: view.inputs.cancel(["i"]),
        lambda view, _: view.inputs.cancel_suffix("i"),
        lambda view, lease: view.inputs.claim_next(lease),
        lambda view, lease: view.inputs.recover_orphaned(lease),
    ],
    ids=["enqueue", "cancel", "suffix", "claim", "recover"],
)
def test_a_view_notices_a_deletion_it_waited_for(
    world: World, store: Any, act: Callable[[Any, Any], Any]
) -> None:
    view = store.session("s1")
    view.inputs.enqueue(said(input_id="i"))
    lease = lease_on(store, "s1")

    outcome = after(world, store, *GONE, act=lambda: act(view, lease))

    assert isinstance(outcome, SessionDeleted)
    assert store.inputs.list("s1") == []
