"""Section 11.3: giving claims of queued work back, which frees what they still own (QUE-17)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from holdfast import (
    InvalidArgument,
    QueuedWorkClaimSuperseded,
    QueuedWorkCompletion,
    SessionBindingMismatch,
)
from holdfast.testing.clock import ManualClock
from holdfast.testing.contract.lanes import (
    ENDINGS,
    enqueue,
    mortal,
    names,
    queued,
    renewed,
    settle,
    taken_over,
)
from holdfast.testing.contract.samples import ALICE, lease_on
from holdfast.testing.world import World

JOINS: dict[str, Any] = {"slot_policy": "join", "merge_key": "payload_default"}


def pending_work(store: Any, session_id: str = "s1") -> list[str]:
    """The names of what no live claim holds."""
    return names(store.queue.list_pending(session_id))


@pytest.mark.scenario("QUE-T18")
def test_an_abandoned_claim_is_over_and_the_next_one_counts_on(store: Any) -> None:
    batch_id = enqueue(store, "a").batch_id
    lease = lease_on(store, "s1")
    first = store.queue.claim(lease)
    assert store.queue.abandon(first) == 1

    second = store.queue.claim(lease)

    assert (second.claim_count, second.batch_ids) == (2, [batch_id])
    assert not {first.claim_id, first.claim_token} & {second.claim_id, second.claim_token}
    with pytest.raises(QueuedWorkClaimSuperseded) as refused:
        settle(store, lease, completed_queue_claims=[first])
    assert refused.value.unowned_batch_ids == [batch_id]
    settle(store, lease, completed_queue_claims=[second])
    assert queued(store) == []


def test_every_batch_of_a_claim_is_freed_and_told(store: Any) -> None:
    for name in ("a", "b", "c"):
        enqueue(store, name, **JOINS)
    claim = store.queue.claim(lease_on(store, "s1"), "idle", 3)

    assert store.queue.abandon(claim) == 3

    assert pending_work(store) == ["a", "b", "c"]


def test_it_is_idempotent(world: World, store: Any) -> None:
    enqueue(store, "a")
    claim = store.queue.claim(lease_on(store, "s1"))
    store.queue.abandon(claim)
    before = world.dump(store)

    assert store.queue.abandon(claim) == 0

    assert world.dump(store) == before


def test_a_stale_claim_frees_nothing_of_the_one_that_replaced_it(
    store: Any, clock: ManualClock
) -> None:
    enqueue(store, "a")
    lease = lease_on(store, "s1")
    stale = store.queue.claim(lease)
    store.queue.claim(renewed(store, clock, lease))

    assert store.queue.abandon(stale) == 0

    assert pending_work(store) == []


def test_a_completed_claim_frees_nothing(store: Any) -> None:
    enqueue(store, "a", source_key="k")
    lease = lease_on(store, "s1")
    claim = store.queue.claim(lease)
    settle(store, lease, completed_queue_claims=[claim])

    assert store.queue.abandon(claim) == 0

    assert (queued(store), enqueue(store, "a", source_key="k").settled) == ([], True)


@pytest.mark.parametrize("end", ENDINGS)
def test_it_needs_no_lease(world: World, store: Any, clock: ManualClock, end: Any) -> None:
    enqueue(store, "a")
    lease = lease_on(store, "s1", mortal() if end is taken_over else ALICE)
    claim = store.queue.claim(lease)
    end(store, clock, lease)

    assert store.queue.abandon(claim) == 1

    columns = "claim_id, claim_token, claim_owner, claim_generation, claim_count"
    rows = world.sql(store, f"SELECT {columns} FROM {{work}}")  # noqa: S608
    assert rows == [(None, None, None, None, 1)]


@pytest.mark.parametrize("part", ["claim_id", "claim_token", "session_id"])
def test_a_claim_is_known_by_session_id_and_token(world: World, store: Any, part: str) -> None:
    enqueue(store, "a")
    enqueue(store, "other", session_id="s2")
    claim = store.queue.claim(lease_on(store, "s1"))
    forged = msgspec.structs.replace(claim, **{part: "s2"})
    before = world.dump(store)

    assert store.queue.abandon(forged) == 0

    assert world.dump(store) == before


def test_a_completion_stands_for_its_claim(store: Any) -> None:
    enqueue(store, "a")
    claim = store.queue.claim(lease_on(store, "s1"))

    shown = QueuedWorkCompletion(
        session_id="s1", claim_id=claim.claim_id, claim_token=claim.claim_token, batch_ids=[]
    )

    assert store.queue.abandon(shown) == 1


def test_claims_of_several_sessions_are_given_back_together(store: Any) -> None:
    claims = []
    for session_id in ("s2", "s1"):
        for name in ("a", "b"):
            enqueue(store, name, session_id=session_id)
        lease = lease_on(store, session_id)
        claims += [store.queue.claim(lease) for _ in range(2)]

    assert store.queue.abandon_many(claims[:3]) == 3
    assert store.queue.abandon_many(claims) == 1

    assert pending_work(store, "s1") == pending_work(store, "s2") == ["a", "b"]


def test_a_claim_named_twice_is_freed_once(store: Any) -> None:
    enqueue(store, "a")
    claim = store.queue.claim(lease_on(store, "s1"))

    assert store.queue.abandon_many([claim, claim]) == 1


def test_no_claims_are_given_back_unseen(world: World, store: Any) -> None:
    store.queue.list("s1")
    world.backend(store).counts.clear()

    assert store.queue.abandon_many([]) == 0

    assert not +world.backend(store).counts


def test_a_claim_of_a_session_that_is_gone_frees_nothing(world: World, store: Any) -> None:
    enqueue(store, "a")
    claim = store.queue.claim(lease_on(store, "s1"))
    store.sessions.delete("s1", force=True)
    before = world.dump(store)

    assert store.queue.abandon(claim) == 0

    assert world.dump(store) == before


def test_a_view_gives_back_claims_of_its_own_session_only(store: Any) -> None:
    for session_id in ("s1", "s2"):
        enqueue(store, "a", session_id=session_id)
    mine, other = (store.queue.claim(lease_on(store, id)) for id in ("s1", "s2"))
    view = store.session("s1")

    with pytest.raises(SessionBindingMismatch) as refused:
        view.queue.abandon(other)
    assert (refused.value.bound_session_id, refused.value.attempted_session_id) == ("s1", "s2")
    assert view.queue.abandon(mine) == 1
    assert (pending_work(store, "s1"), pending_work(store, "s2")) == (["a"], [])


@pytest.mark.parametrize("given", ["claim", None, 1])
def test_what_is_no_claim_is_refused(store: Any, given: Any) -> None:
    with pytest.raises(InvalidArgument) as refused:
        store.queue.abandon_many([given])

    assert refused.value.field == "claims[0]"
