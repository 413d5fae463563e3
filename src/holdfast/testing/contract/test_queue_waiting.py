"""Section 16 for queued work: who waited for a section answers as if coming after (BAK-7)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from holdfast import (
    CheckpointWork,
    EnqueueOutcome,
    LeaseLost,
    QueuedWorkClaimSuperseded,
    SessionDeleted,
)
from holdfast.testing.contract.lanes import enqueue, names, queued, settle, work
from holdfast.testing.contract.samples import lease_on
from holdfast.testing.contract.test_backends_waiting import DELETED, RELEASED, TAKEN, after
from holdfast.testing.contract.test_queue_fences import work_of
from holdfast.testing.world import World

JOINS: dict[str, Any] = {"slot_policy": "join", "merge_key": "payload_default"}
EARLY: dict[str, Any] = {"delivery_policy": "earliest_safe_boundary"}

#: Every claim of queued work, of all that is there.
CLAIMS: dict[str, Callable[[Any, Any, list[str]], Any]] = {
    "first": lambda store, lease, _: store.queue.claim(lease, "idle", 5),
    "command": lambda store, lease, _: store.queue.claim_command(lease),
    "exactly": lambda store, lease, ids: store.queue.claim_exactly(lease, "idle", ids),
    "checkpoint": lambda store, lease, _: store.queue.claim_at_checkpoint(
        lease, "t", "after_work", 0, 5
    ),
}

#: What somebody else does to the queue in its section while others wait for it.
ENTERED = "UPDATE {session} SET generation = generation"
CLAIMED = (
    "UPDATE {work} SET claim_id = 'qwc:1:9', claim_token = 'hers', claim_owner = 'alice',"
    " claim_generation = 1, claim_count = 9"
)
FREED = (
    "UPDATE {work} SET claim_id = NULL, claim_token = NULL, claim_owner = NULL,"
    " claim_generation = NULL"
)
CANCELLED = "DELETE FROM {work}"
SETTLED = (
    "UPDATE {work} SET settled_at_ms = 1, payloads = NULL,"
    " source_key = coalesce(source_key, batch_id)"
)
KEYED = "UPDATE {work} SET source_key = 'k'"
GONE = (*DELETED, CANCELLED, "DELETE FROM {readiness}")


def waiting(store: Any, name: str) -> list[str]:
    """Enqueue what such a claim would take; the ids of the batches."""
    fields: dict[str, Any] = JOINS | EARLY
    if name == "command":
        fields = {"payloads": [{"type": "session_command", "name": "command"}]}
    return [enqueue(store, "a", **fields).batch_id for _ in range(1 if name == "command" else 3)]


@pytest.mark.scenario("BAK-T7")
@pytest.mark.parametrize("name", CLAIMS)
class TestClaims:
    """A claim that waited finds lease and rows as they are when its turn comes."""

    @pytest.mark.parametrize(
        ("change", "reason"),
        [(TAKEN, "superseded"), (RELEASED, "released")],
        ids=["taken", "released"],
    )
    def test_it_takes_nothing_under_a_lease_that_passed_on(
        self, world: World, store: Any, name: str, change: str, reason: str
    ) -> None:
        ids = waiting(store, name)
        held = lease_on(store, "s1")

        outcome = after(world, store, change, act=lambda: CLAIMS[name](store, held, ids))

        assert isinstance(outcome, LeaseLost)
        assert outcome.reason == reason
        assert world.sql(store, "SELECT sum(claim_count) FROM {work}") == [(0,)]

    @pytest.mark.parametrize(
        "change", [CLAIMED, CANCELLED, SETTLED], ids=["claimed", "cancelled", "settled"]
    )
    def test_it_takes_nothing_that_was_taken_meanwhile(
        self, world: World, store: Any, name: str, change: str
    ) -> None:
        ids = waiting(store, name)
        held = lease_on(store, "s1")

        outcome = after(world, store, ENTERED, change, act=lambda: CLAIMS[name](store, held, ids))

        assert outcome in (None, CheckpointWork())

    def test_it_takes_what_was_given_back_meanwhile(
        self, world: World, store: Any, name: str
    ) -> None:
        ids = waiting(store, name)
        held = lease_on(store, "s1")
        CLAIMS[name](store, held, ids)
        if name == "checkpoint":
            # What its look finds nothing for does not wait at all.
            enqueue(store, "b", **EARLY)

        outcome = after(world, store, ENTERED, FREED, act=lambda: CLAIMS[name](store, held, ids))

        claim = work_of(outcome)
        assert (claim.batch_ids, claim.claim_count) == (ids, 2)


@pytest.mark.scenario("BAK-T7")
@pytest.mark.parametrize("name", ["first", "command", "exactly"])
def test_a_lease_is_missing_where_the_session_was_deleted(
    world: World, store: Any, name: str
) -> None:
    ids = waiting(store, name)
    held = lease_on(store, "s1")

    outcome = after(world, store, *GONE, act=lambda: CLAIMS[name](store, held, ids))

    assert isinstance(outcome, LeaseLost)
    assert outcome.reason == "missing"


@pytest.mark.scenario("BAK-T7", "QUE-T32")
def test_a_selection_of_which_one_was_cancelled_takes_none(world: World, store: Any) -> None:
    ids = waiting(store, "exactly")
    held = lease_on(store, "s1")
    gone = f"{CANCELLED} WHERE batch_id = '{ids[1]}'"

    outcome = after(world, store, ENTERED, gone, act=lambda: CLAIMS["exactly"](store, held, ids))

    assert outcome is None
    assert world.sql(store, "SELECT sum(claim_count) FROM {work}") == [(0,)]


@pytest.mark.scenario("BAK-T7")
class TestCancelling:
    """A cancellation that waited."""

    def test_it_meets_the_claim_that_came_first(self, world: World, store: Any) -> None:
        (batch_id,) = waiting(store, "command")
        lease_on(store, "s1")

        outcome = after(
            world, store, ENTERED, CLAIMED, act=lambda: store.queue.cancel("s1", batch_id)
        )

        assert outcome is None
        assert queued(store) == ["command"]

    @pytest.mark.parametrize("change", [RELEASED, TAKEN], ids=["released", "taken"])
    def test_it_removes_what_a_lease_no_longer_protects(
        self, world: World, store: Any, change: str
    ) -> None:
        batch = enqueue(store).batch
        store.queue.claim(lease_on(store, "s1"))

        outcome = after(world, store, change, act=lambda: store.queue.cancel("s1", batch.batch_id))

        assert outcome == batch
        assert queued(store) == []

    @pytest.mark.parametrize("change", [CANCELLED, SETTLED], ids=["cancelled", "settled"])
    def test_it_finds_nothing_where_the_batch_is_gone(
        self, world: World, store: Any, change: str
    ) -> None:
        batch_id = enqueue(store).batch_id

        outcome = after(
            world, store, ENTERED, change, act=lambda: store.queue.cancel("s1", batch_id)
        )

        assert outcome is None


@pytest.mark.scenario("BAK-T7")
def test_giving_a_claim_back_leaves_the_one_that_replaced_it(world: World, store: Any) -> None:
    enqueue(store)
    claim = store.queue.claim(lease_on(store, "s1"))

    for act in (
        lambda: store.queue.abandon(claim),
        lambda: store.queue.abandon_many([claim]),
    ):
        assert after(world, store, ENTERED, CLAIMED, act=act) == 0

    assert store.queue.list_pending("s1") == []


@pytest.mark.scenario("BAK-T7")
@pytest.mark.parametrize("change", [CLAIMED, FREED, CANCELLED], ids=["claimed", "freed", "gone"])
def test_a_completion_meets_what_became_of_its_claim(world: World, store: Any, change: str) -> None:
    enqueue(store)
    lease = lease_on(store, "s1")
    claim = store.queue.claim(lease)

    outcome = after(
        world,
        store,
        ENTERED,
        change,
        act=lambda: settle(store, lease, completed_queue_claims=[claim]),
    )

    assert isinstance(outcome, QueuedWorkClaimSuperseded)
    assert outcome.unowned_batch_ids == claim.batch_ids
    assert store.sessions.load("s1") is None


#: Every way to enqueue a draft with the key `k`.
ENQUEUES: dict[str, Callable[[Any, Any], EnqueueOutcome]] = {
    "one": lambda store, _: enqueue(store, "a", source_key="k"),
    "many": lambda store, _: store.queue.enqueue_many([work("a", source_key="k")])[0],
    "outbox": lambda store, lease: settle(
        store, lease, enqueued_queue_batches=[work("a", source_key="k")]
    ).enqueued_queue_batches[0],
}


@pytest.mark.scenario("BAK-T7")
@pytest.mark.parametrize("name", ENQUEUES)
class TestEnqueueing:
    """An enqueue that waited, by itself or in the outbox of a commit."""

    @pytest.mark.parametrize(
        ("changes", "settled"),
        [([KEYED], False), ([KEYED, SETTLED], True)],
        ids=["used", "settled"],
    )
    def test_it_meets_the_key_that_was_used_meanwhile(
        self, world: World, store: Any, name: str, changes: list[str], settled: bool
    ) -> None:
        batch_id = enqueue(store, "a").batch_id
        lease = lease_on(store, "s1")

        outcome = after(world, store, ENTERED, *changes, act=lambda: ENQUEUES[name](store, lease))

        assert (outcome.batch_id, outcome.created, outcome.settled) == (batch_id, False, settled)
        assert world.sql(store, "SELECT count(*) FROM {work}") == [(1,)]

    def test_it_takes_a_key_that_was_given_up_meanwhile(
        self, world: World, store: Any, name: str
    ) -> None:
        before = enqueue(store, "before", source_key="k").batch_id
        lease = lease_on(store, "s1")

        outcome = after(world, store, ENTERED, CANCELLED, act=lambda: ENQUEUES[name](store, lease))

        assert outcome.created
        assert outcome.batch_id != before
        assert queued(store) == ["a"]


@pytest.mark.scenario("BAK-T7")
@pytest.mark.parametrize("name", ["one", "many"])
def test_an_enqueue_begins_a_session_anew_that_was_deleted(
    world: World, store: Any, name: str
) -> None:
    enqueue(store, "before", source_key="k")

    outcome = after(world, store, *GONE, act=lambda: ENQUEUES[name](store, None))

    assert outcome.created
    assert queued(store) == ["a"]
    assert [each.session_id for each in store.queue.ready_sessions()] == ["s1"]


@pytest.mark.scenario("BAK-T7")
@pytest.mark.parametrize(
    "act",
    [
        lambda view, *_: view.queue.enqueue(work("late")),
        lambda view, _, claim: view.queue.cancel(claim.batch_ids[0]),
        lambda view, lease, _: view.queue.claim(lease),
        lambda view, lease, _: view.queue.claim_command(lease),
        lambda view, lease, claim: view.queue.claim_exactly(lease, "idle", claim.batch_ids),
        lambda view, _, claim: view.queue.abandon(claim),
    ],
    ids=["enqueue", "cancel", "claim", "command", "exactly", "abandon"],
)
def test_a_view_notices_a_deletion_it_waited_for(
    world: World, store: Any, act: Callable[[Any, Any, Any], Any]
) -> None:
    view = store.session("s1")
    view.queue.enqueue(work("a"))
    lease = lease_on(store, "s1")
    claim = view.queue.claim(lease)

    outcome = after(world, store, *GONE, act=lambda: act(view, lease, claim))

    assert isinstance(outcome, SessionDeleted)
    assert names(store.queue.list("s1")) == []
