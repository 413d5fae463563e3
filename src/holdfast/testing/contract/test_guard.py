"""Section 10.4: the guard that holds a lease for the length of a turn."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from holdfast import (
    LeaseLost,
    LeaseTimings,
    Refused,
    SessionBusy,
    StoreUnavailable,
    local_process,
)
from holdfast.testing.calm import Calm
from holdfast.testing.contract.owners import replaced
from holdfast.testing.contract.samples import ALICE, BOB, commit, lease_on
from holdfast.testing.world import World

#: Soon over, for what happens at the deadline.
QUICK = LeaseTimings(ttl_ms=300, renew_interval_ms=50)
#: Often renewed, and not over before a busy machine gets round to it.
STEADY = LeaseTimings(ttl_ms=20_000, renew_interval_ms=20)


def failing(world: World, store: Any, name: str, times: int) -> threading.Event:
    """Make the next runs of a statement meet a dead connection; set once one came after them."""
    again, left = threading.Event(), iter(range(times))

    def hook(statement: str, when: str) -> None:
        if (statement, when) == (name, "before"):
            if next(left, None) is not None:
                raise StoreUnavailable(name, "connection reset", retryable=True)
            again.set()

    world.backend(store).on_statement = hook
    return again


def await_renewal(world: World, guard: Any, renewed: threading.Event) -> None:
    """Let time pass, and wait until the guard's lease ends so much later."""
    before = guard.lease.expires_at_ms
    world.clock.advance(100)
    while guard.lease.expires_at_ms == before:
        assert renewed.wait(10)
        renewed.clear()
    assert guard.lease.expires_at_ms == before + 100


class Watched:
    """A guard's lock, of either colour, that tells when it is asked for."""

    def __init__(self, lock: Any, asked: threading.Event) -> None:
        self._lock = lock
        self._asked = asked

    def __enter__(self) -> None:
        self._asked.set()
        self._lock.acquire()

    def __exit__(self, *error: object) -> None:
        self._lock.release()

    async def __aenter__(self) -> None:
        self._asked.set()
        await self._lock.acquire()

    async def __aexit__(self, *error: object) -> None:
        self._lock.release()


def lose_in_a_turn(
    world: World, store: Any, timings: LeaseTimings, take: Callable[[], Any]
) -> Exception | None:
    """Hold a guard, call `take`, work until told to stop; what told, and was raised at the end."""
    if world.colour == "async":
        return asyncio.run(_lose_async(world, store, timings, take))
    told: list[Exception] = []
    stop = threading.Event()

    def on_lost(error: Exception) -> None:
        told.append(error)
        stop.set()

    view = world.real(store).session("s1")

    def turn() -> None:
        with view.guard(ALICE, timings, on_lost=on_lost) as guard:
            take()
            assert stop.wait(10)
            assert guard.is_lost
            guard.check()

    with pytest.raises((LeaseLost, StoreUnavailable)) as raised:
        turn()
    assert told == [raised.value]
    return raised.value


async def _lose_async(
    world: World, store: Any, timings: LeaseTimings, take: Callable[[], Any]
) -> Exception | None:
    view = world.real(store).aio.session("s1")
    saw: list[BaseException] = []

    async def turn() -> None:
        async with view.guard(ALICE, timings) as guard:
            try:
                await asyncio.to_thread(take)
                await asyncio.sleep(10)
            except asyncio.CancelledError as cancelled:
                saw.append(cancelled)
                assert guard.is_lost
                raise

    with pytest.raises((LeaseLost, StoreUnavailable)) as raised:
        await turn()
    assert saw
    task = asyncio.current_task()
    assert task is not None
    assert not task.cancelling()
    return raised.value


def test_a_guard_claims_when_entered_and_releases_when_left(store: Any) -> None:
    with store.session("s1").guard(ALICE) as guard:
        assert store.sessions.lease("s1").owner == ALICE
        assert guard.lease.generation == 1
        assert not guard.is_lost

    assert store.sessions.lease("s1") is None
    assert lease_on(store, "s1", BOB).generation == 2


def test_a_guard_releases_when_the_turn_fails(store: Any) -> None:
    with pytest.raises(ZeroDivisionError), store.session("s1").guard(ALICE):
        1 / 0  # noqa: B018

    assert store.sessions.lease("s1") is None


def test_a_guard_is_refused_while_somebody_else_is_at_it(store: Any) -> None:
    lease_on(store, "s1", BOB)

    with pytest.raises(SessionBusy) as refused, store.session("s1").guard(ALICE):
        pass

    assert refused.value.holder.owner == BOB
    assert store.sessions.lease("s1").owner == BOB


def test_a_guard_takes_over_from_a_dead_process(store: Any) -> None:
    lease_on(store, "s1", replaced())

    with store.session("s1").guard(local_process("me")) as guard:
        assert guard.lease.generation == 2


def test_a_guard_renews_while_the_turn_runs(world: World, store: Any) -> None:
    renewed = failing(world, store, "renew_lease", times=0)

    with store.session("s1").guard(ALICE, STEADY) as guard:
        claimed = guard.lease
        await_renewal(world, guard, renewed)
        assert guard.lease.token == claimed.token


@pytest.mark.scenario("LEA-T16")
def test_one_failing_renewal_is_not_a_loss(world: World, store: Any) -> None:
    renewed = failing(world, store, "renew_lease", times=1)

    with store.session("s1").guard(ALICE, STEADY) as guard:
        assert renewed.wait(10)
        assert not guard.is_lost
        guard.check()
        await_renewal(world, guard, renewed)

    assert store.sessions.lease("s1") is None


@pytest.mark.scenario("LEA-T16")
def test_failures_past_the_deadline_are_a_loss_and_stop_the_turn(world: World, store: Any) -> None:
    failing(world, store, "renew_lease", times=1_000)

    lost = lose_in_a_turn(world, store, QUICK, take=lambda: None)

    assert isinstance(lost, StoreUnavailable)
    assert store.sessions.lease("s1").owner == ALICE, "a lost guard releases nothing"


def test_a_definite_loss_stops_the_turn(world: World, store: Any) -> None:
    def take() -> None:
        world.clock.advance(STEADY.ttl_ms)
        world.real(store).sessions.claim_lease("s1", BOB, 30_000)

    lost = lose_in_a_turn(world, store, STEADY, take)

    assert isinstance(lost, LeaseLost)
    assert lost.reason in ("expired", "superseded"), "as the renewal came before the claim or not"
    assert store.sessions.lease("s1").owner == BOB


def test_a_renewal_that_hangs_does_not_hide_the_deadline(world: World, store: Any) -> None:
    gone = threading.Event()

    def hang(statement: str, when: str) -> None:
        if (statement, when) == ("renew_lease", "before"):
            gone.wait(10)

    world.backend(store).on_statement = hang
    guard = store.session("s1").guard(ALICE, QUICK)
    with pytest.raises(StoreUnavailable) as raised, guard as held:
        while not held.is_lost:
            gone.wait(0.01)
        gone.set()
    assert raised.value.maybe_written


@pytest.mark.scenario("LEA-T18")
def test_a_commit_that_released_is_not_followed_by_a_release(world: World, store: Any) -> None:
    backend = world.backend(store)

    with store.session("s1").guard(ALICE) as guard:
        guard.commit(commit("s1", config={"n": 1}))
        guard.commit(commit("s1", config={"n": 2}, release_session_execution_lease=True))
        bobs = lease_on(store, "s1", BOB)
        backend.counts.clear()
        assert not guard.is_lost

    assert backend.counts["release_lease"] == 0
    assert store.sessions.lease("s1").generation == bobs.generation
    assert store.sessions.load("s1").head_revision == 2


@pytest.mark.scenario("LEA-T18")
def test_a_renewal_under_way_does_not_take_the_release_of_a_commit_for_a_loss(
    world: World, store: Any
) -> None:
    if not world.is_server:
        pytest.skip("an embedded store takes the two in the order they were asked for")
    under_way, go_on = threading.Event(), threading.Event()

    def hold(statement: str, when: str) -> None:
        if (statement, when) == ("renew_lease", "before"):
            under_way.set()
            assert go_on.wait(10)

    world.backend(store).on_statement = hold
    with store.session("s1").guard(ALICE, STEADY) as guard:
        bare = guard._target if isinstance(guard, Calm) else guard
        assert under_way.wait(10)
        renewing = bare._renewing
        bare._renewing = Watched(renewing, asked=go_on)
        guard.commit(commit("s1", config={"n": 1}, release_session_execution_lease=True))
        go_on.set()
        while renewing.locked():  # until the guard has heard of its renewal
            time.sleep(0.001)
        assert not guard.is_lost

    assert store.sessions.lease("s1") is None


def test_a_commit_that_is_refused_leaves_the_lease_to_the_guard(store: Any) -> None:
    with store.session("s1").guard(ALICE) as guard:
        with pytest.raises(Refused):
            guard.commit(
                commit("s1", expected_head_revision=7, release_session_execution_lease=True)
            )
        assert store.sessions.lease("s1").owner == ALICE

    assert store.sessions.lease("s1") is None


def test_a_commit_shows_the_guard_that_its_lease_is_lost(world: World, store: Any) -> None:
    with pytest.raises(LeaseLost), store.session("s1").guard(ALICE) as guard:
        world.clock.advance(30_000)
        lease_on(store, "s1", BOB)
        with pytest.raises(LeaseLost):
            guard.commit(commit("s1", config={"n": 1}))
        assert guard.is_lost

    assert store.sessions.lease("s1").owner == BOB


def cancelled_once(world: World, store: Any, is_due: Callable[[Any], bool]) -> None:
    """Cancel a guarded turn as soon as its guard, or the recorded holder, says it is due."""
    aio = world.real(store).aio

    async def turn() -> None:
        async with aio.session("s1").guard(ALICE):
            entered.set()
            await asyncio.sleep(10)

    entered = threading.Event()

    async def main() -> None:
        task = asyncio.create_task(turn())
        while not is_due(entered):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())


def test_a_turn_cancelled_by_others_stays_cancelled(world: World, store: Any) -> None:
    cancelled_once(world, store, lambda entered: entered.is_set())

    assert store.sessions.lease("s1") is None


def test_a_guard_cancelled_while_it_claims_keeps_nothing(world: World, store: Any) -> None:
    look = world.real(store).sessions

    cancelled_once(world, store, lambda _: look.lease("s1") is not None)

    assert store.sessions.lease("s1") is None
