"""Section 11.3: every claim of queued work is judged by its lease, and refuses what is no sense."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from holdfast import (
    CheckpointWork,
    InvalidArgument,
    Lease,
    LeaseLost,
    SessionBindingMismatch,
    SessionDeleted,
)
from holdfast.testing.clock import ManualClock
from holdfast.testing.contract.lanes import (
    TTL_MS,
    enqueue,
    expired,
    queued,
    released,
    renewed,
    submit,
)
from holdfast.testing.contract.samples import ALICE, lease_on
from holdfast.testing.world import World

#: Every claim of queued work, of an area `at`, under a lease, of a batch where it names one.
CLAIMS: dict[str, Callable[[Any, Any, str], Any]] = {
    "idle": lambda at, lease, _: at.claim(lease),
    "at a checkpoint": lambda at, lease, _: at.claim(lease, "active_turn_checkpoint", 5),
    "command": lambda at, lease, _: at.claim_command(lease),
    "exactly": lambda at, lease, id: at.claim_exactly(lease, "idle", [id]),
    "with inputs": lambda at, lease, _: at.claim_at_checkpoint(lease, "t", "after_work"),
}


def waiting(store: Any, name: str, session_id: str = "s1") -> str:
    """Enqueue what such a claim would take; the batch's id."""
    fields: dict[str, Any] = {"delivery_policy": "earliest_safe_boundary", "session_id": session_id}
    if name == "command":
        fields["payloads"] = [{"type": "session_command", "name": "command"}]
    batch_id: str = enqueue(store, **fields).batch_id
    return batch_id


def work_of(found: Any) -> Any:
    """The claim of queued work in what a claim returned."""
    return found.work if isinstance(found, CheckpointWork) else found


def superseded(store: Any, clock: ManualClock, lease: Lease) -> None:
    """Have somebody else take the session."""
    renewed(store, clock, lease)


@pytest.mark.parametrize("name", CLAIMS)
class TestEveryClaim:
    """What holds for each way to claim (QUE-9)."""

    @pytest.mark.scenario("QUE-T24")
    @pytest.mark.parametrize("end", [expired, released, superseded], ids=lambda f: f.__name__)
    def test_a_lost_lease_takes_nothing(
        self, world: World, store: Any, clock: ManualClock, name: str, end: Any
    ) -> None:
        batch_id = waiting(store, name)
        lease = lease_on(store, "s1")
        end(store, clock, lease)
        before = world.dump(store)

        with pytest.raises(LeaseLost) as lost:
            CLAIMS[name](store.queue, lease, batch_id)

        told = lost.value
        assert (told.reason, told.presented_generation) == (end.__name__, lease.generation)
        assert (told.guards, told.key) == ("session", "s1")
        assert world.dump(store) == before

    def test_a_live_lease_takes_it(self, store: Any, name: str) -> None:
        batch_id = waiting(store, name)

        found = CLAIMS[name](store.queue, lease_on(store, "s1"), batch_id)

        assert work_of(found).batch_ids == [batch_id]

    def test_a_view_claims_for_its_own_session_only(
        self, world: World, store: Any, name: str
    ) -> None:
        batch_id = waiting(store, name, "s2")
        lease = lease_on(store, "s2")
        view = store.session("s1")
        before = world.dump(store)

        with pytest.raises(SessionBindingMismatch) as refused:
            CLAIMS[name](view.queue, lease, batch_id)

        told = refused.value
        assert (told.bound_session_id, told.attempted_session_id) == ("s1", "s2")
        assert world.dump(store) == before

    def test_a_view_claims_as_the_store_does(self, store: Any, name: str) -> None:
        batch_id = waiting(store, name)
        lease = lease_on(store, "s1")

        found = CLAIMS[name](store.session("s1").queue, lease, batch_id)

        claim = work_of(found)
        assert (claim.session_id, claim.batch_ids) == ("s1", [batch_id])

    def test_a_view_of_a_deleted_session_takes_nothing_of_the_next(
        self, store: Any, name: str
    ) -> None:
        view = store.session("s1")
        view.queue.list()
        waiting(store, name)
        view.queue.list()
        store.sessions.delete("s1", force=True)
        batch_id = waiting(store, name)
        lease = lease_on(store, "s1")

        with pytest.raises(SessionDeleted):
            CLAIMS[name](view.queue, lease, batch_id)

        assert len(store.queue.list_pending("s1")) == 1

    def test_what_is_no_lease_is_refused(self, world: World, store: Any, name: str) -> None:
        world.backend(store).counts.clear()

        for given in (None, "lease", ALICE):
            with pytest.raises(InvalidArgument):
                CLAIMS[name](store.queue, given, "qwb:none")

        assert not +world.backend(store).counts


@pytest.mark.parametrize("name", [name for name in CLAIMS if name != "with inputs"])
def test_a_lease_of_a_session_that_is_gone_is_missing(world: World, store: Any, name: str) -> None:
    lease = lease_on(store, "s1")
    store.sessions.delete("s1", force=True)
    before = world.dump(store)

    with pytest.raises(LeaseLost) as lost:
        CLAIMS[name](store.queue, lease, "qwb:none")

    assert lost.value.reason == "missing"
    assert world.dump(store) == before


NOTHING: dict[str, Callable[[Any, Any], Any]] = {
    "work": lambda store, lease: store.queue.claim(lease, "idle", 0),
    "work at a checkpoint": lambda store, lease: store.queue.claim(
        lease, "active_turn_checkpoint", 0
    ),
    "no batch by its id": lambda store, lease: store.queue.claim_exactly(lease, "idle", []),
    "inputs of a turn": lambda store, lease: store.inputs.claim_active(lease, "t", "after_work", 0),
    "inputs for the next turn": lambda store, lease: store.inputs.claim_next(lease, 0),
    "both families": lambda store, lease: store.queue.claim_at_checkpoint(
        lease, "t", "after_work", 0, 0
    ),
}


@pytest.mark.scenario("GEN-T8", "QUE-T24")
@pytest.mark.parametrize("name", NOTHING)
@pytest.mark.parametrize("ttl_ms", [TTL_MS, 0], ids=["live", "expired"])
def test_none_at_all_is_granted_unseen(world: World, store: Any, name: str, ttl_ms: int) -> None:
    enqueue(store, delivery_policy="earliest_safe_boundary")
    submit(store, "hi", "t")
    submit(store, "next")
    lease = lease_on(store, "s1", ttl_ms=ttl_ms)
    world.backend(store).counts.clear()

    found = NOTHING[name](store, lease)

    assert found == (CheckpointWork() if name == "both families" else None)
    assert not +world.backend(store).counts


@pytest.mark.parametrize("maximum", [-1, 10_001, True, "1", None])
def test_a_number_that_is_none_is_refused(store: Any, maximum: Any) -> None:
    with pytest.raises(InvalidArgument) as refused:
        store.queue.claim(lease_on(store, "s1"), "idle", maximum)

    assert refused.value.field == "max_batches"


@pytest.mark.parametrize("boundary", ["after_work", "", None, 1])
@pytest.mark.parametrize("maximum", [0, 1])
def test_an_unknown_boundary_is_refused(store: Any, boundary: Any, maximum: int) -> None:
    lease = lease_on(store, "s1")

    with pytest.raises(InvalidArgument) as refused:
        store.queue.claim(lease, boundary, maximum)
    assert refused.value.field == "boundary"
    with pytest.raises(InvalidArgument) as refused:
        store.queue.claim_exactly(lease, boundary, ["qwb:a"][:maximum])
    assert refused.value.field == "boundary"


def test_the_largest_number_is_accepted(store: Any) -> None:
    enqueue(store, "a")

    claim = store.queue.claim(lease_on(store, "s1"), "idle", 10_000)

    assert len(claim.batches) == 1
    assert queued(store) == ["a"]
