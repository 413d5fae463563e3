"""Section 10: the session lease, one caller at a time."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from holdfast import (
    Busy,
    InvalidArgument,
    Lease,
    LeaseLost,
    LeaseOwner,
    LeaseTimings,
    SessionBusy,
    SessionCreate,
)
from holdfast.testing.clock import ManualClock
from holdfast.testing.contract.samples import ALICE, BOB, commit, create, lease_on, put
from holdfast.testing.world import World


@pytest.mark.scenario("LEA-T1")
def test_the_same_incarnation_is_let_in_again(store: Any, clock: ManualClock) -> None:
    first = store.sessions.claim_lease("s1", ALICE, 30_000)
    clock.advance(10)

    again = store.sessions.claim_lease("s1", ALICE, 60_000)

    assert (first.reentered, again.reentered) == (False, True)
    assert again.lease == msgspec.structs.replace(
        first.lease, expires_at_ms=clock.now_ms() + 60_000
    )


@pytest.mark.scenario("LEA-T2")
def test_another_incarnation_of_the_owner_is_somebody_else(store: Any) -> None:
    held = lease_on(store, "s1", ALICE)

    outcome = store.sessions.claim_lease("s1", LeaseOwner("alice", "alice-2"), 30_000)

    assert isinstance(outcome, Busy)
    assert outcome.holder == store.sessions.lease("s1")
    assert (outcome.holder.owner, outcome.holder.generation) == (ALICE, held.generation)
    assert outcome.holder.live


@pytest.mark.scenario("LEA-T3")
def test_a_busy_claim_changes_nothing(world: World, store: Any) -> None:
    lease_on(store, "s1", ALICE)
    before = world.sql(store, "SELECT * FROM {session}")

    assert isinstance(store.sessions.claim_lease("s1", BOB, 90_000), Busy)

    assert world.sql(store, "SELECT * FROM {session}") == before


@pytest.mark.invariant("INV-13")
@pytest.mark.scenario("LEA-T4")
def test_re_entry_and_renewal_never_shorten_a_lease(store: Any) -> None:
    held = lease_on(store, "s1", ALICE, ttl_ms=30_000)

    again = store.sessions.claim_lease("s1", ALICE, 1_000).lease
    renewed = store.sessions.renew_lease(held, 1_000)

    assert again.expires_at_ms == renewed.expires_at_ms == held.expires_at_ms
    assert store.sessions.lease("s1").expires_at_ms == held.expires_at_ms


def _altered(reason: str, store: Any, clock: ManualClock) -> Lease:
    """A lease that is not valid any more, or never was, for the reason named."""
    held = lease_on(store, "s1")
    match reason:
        case "token":
            return msgspec.structs.replace(held, token="0" * len(held.token))
        case "generation":
            return msgspec.structs.replace(held, generation=held.generation + 1)
        case "expired":
            clock.advance(30_000)
        case "released":
            store.sessions.release_lease(held)
        case "superseded":
            store.sessions.release_lease(held)
            lease_on(store, "s1", BOB)
        case "missing":
            store.sessions.delete("s1", force=True)
    return held


@pytest.mark.scenario("LEA-T5")
@pytest.mark.parametrize(
    ("what", "reason"),
    [
        ("token", "superseded"),
        ("generation", "superseded"),
        ("expired", "expired"),
        ("released", "released"),
        ("superseded", "superseded"),
        ("missing", "missing"),
    ],
)
def test_a_renewal_says_why_the_lease_is_lost(
    store: Any, clock: ManualClock, what: str, reason: str
) -> None:
    lease = _altered(what, store, clock)

    with pytest.raises(LeaseLost) as lost:
        store.sessions.renew_lease(lease)

    assert (lost.value.guards, lost.value.key, lost.value.reason) == ("session", "s1", reason)
    assert lost.value.presented_generation == lease.generation


@pytest.mark.scenario("LEA-T6")
@pytest.mark.parametrize("what", ["token", "generation", "superseded"])
def test_releasing_a_stale_lease_does_nothing(store: Any, clock: ManualClock, what: str) -> None:
    stale = _altered(what, store, clock)
    live = store.sessions.lease("s1")

    assert store.sessions.release_lease(stale) is False
    assert store.sessions.lease("s1") == live


@pytest.mark.scenario("LEA-T6")
def test_the_old_holder_cannot_release_what_was_taken_over(store: Any, clock: ManualClock) -> None:
    old = lease_on(store, "s1", ALICE)
    clock.advance(30_000)
    lease_on(store, "s1", BOB)

    assert store.sessions.release_lease(old) is False
    assert store.sessions.lease("s1").owner == BOB


def test_an_expired_lease_can_still_be_released_once(store: Any, clock: ManualClock) -> None:
    held = lease_on(store, "s1")
    clock.advance(30_000)

    assert store.sessions.lease("s1").live is False
    assert store.sessions.release_lease(held) is True
    assert store.sessions.release_lease(held) is False
    assert store.sessions.lease("s1") is None


@pytest.mark.invariant("INV-11")
@pytest.mark.scenario("LEA-T7")
def test_each_acquisition_raises_the_generation_by_one(store: Any) -> None:
    first = lease_on(store, "s1", ALICE)
    store.sessions.release_lease(first)
    second = lease_on(store, "s1", BOB, ttl_ms=0)
    third = lease_on(store, "s1", ALICE)

    assert [first.generation, second.generation, third.generation] == [1, 2, 3]
    assert len({first.token, second.token, third.token}) == 3


@pytest.mark.scenario("LEA-T13")
def test_leases_of_different_sessions_are_independent(store: Any) -> None:
    lease_on(store, "a", ALICE)

    assert lease_on(store, "b", BOB).generation == 1
    assert store.sessions.lease("a").owner == ALICE


@pytest.mark.scenario("LEA-T14")
def test_a_lease_may_come_before_the_session(store: Any) -> None:
    assert lease_on(store, "s1").generation == 1
    assert store.sessions.load("s1") is None


@pytest.mark.scenario("LEA-T17")
@pytest.mark.parametrize("timings", [(29_000, 10_000), (0, 1), (30_000, 0)])
def test_timings_leave_room_for_missed_renewals(timings: tuple[int, int]) -> None:
    with pytest.raises(InvalidArgument):
        LeaseTimings(*timings)


@pytest.mark.scenario("LEA-T17")
def test_timings_can_be_made_from_a_ttl() -> None:
    assert LeaseTimings(30_000, 10_000) == LeaseTimings()
    assert LeaseTimings.from_ttl(60).renew_interval_ms == 20
    with pytest.raises(InvalidArgument):
        LeaseTimings.from_ttl(2)


@pytest.mark.invariant("INV-12")
@pytest.mark.scenario("LEA-T19")
def test_the_token_is_in_nothing_but_the_lease(store: Any, clock: ManualClock) -> None:
    create(store, "s1")
    held = lease_on(store, "s1", ALICE)
    seen: list[Any] = [
        store.sessions.claim_lease("s1", BOB, 30_000),
        store.sessions.lease("s1"),
        store.sessions.list(),
        repr(held),
    ]
    with pytest.raises(SessionBusy) as busy:
        put(store, "s1")
    clock.advance(30_000)
    with pytest.raises(LeaseLost) as lost:
        store.sessions.commit(commit("s1", session_execution_lease=held))
    seen += [busy.value, vars(busy.value), lost.value, vars(lost.value)]
    seen.append(lease_on(store, "s1", BOB))  # a lease of somebody else, who displaced us

    shown = "".join(f"{each}{each!r}" for each in seen)
    shown += "".join(msgspec.json.encode(each).decode() for each in seen[:3])
    assert held.token not in shown


@pytest.mark.scenario("LEA-T20")
def test_who_died_in_office_is_named_to_the_next(store: Any, clock: ManualClock) -> None:
    lease_on(store, "s1", ALICE)
    clock.advance(30_000)

    taken = store.sessions.claim_lease("s1", BOB, 30_000)
    store.sessions.release_lease(taken.lease)
    after_release = store.sessions.claim_lease("s1", ALICE, 30_000)

    assert (taken.displaced.owner, taken.displaced.generation) == (ALICE, 1)
    assert taken.displaced.live is False
    assert after_release.displaced is None


def test_a_released_lease_is_no_ones_though_the_session_is_known(store: Any) -> None:
    store.sessions.create(SessionCreate(session_id="s1"))

    assert store.sessions.lease("s1") is None
    assert store.sessions.release_lease(Lease("s1", ALICE, "no token", 1, 0, 0)) is False
