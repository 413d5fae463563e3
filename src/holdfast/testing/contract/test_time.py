"""Section 2: whose clock counts, and when it is read."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from holdfast import Acquired, Busy, LeaseLost
from holdfast.testing.clock import ManualClock
from holdfast.testing.contract.samples import ALICE, BOB, chain, commit, lease_on, put
from holdfast.testing.world import World

HOUR_MS = 3_600_000


@pytest.mark.scenario("GEN-T2")
def test_a_lease_dies_by_the_injected_clock_alone(store: Any, clock: ManualClock) -> None:
    held = lease_on(store, "s1", ALICE, ttl_ms=30_000)
    clock.advance(29_999)
    assert store.sessions.lease("s1").live

    clock.advance(1)

    assert not store.sessions.lease("s1").live
    with pytest.raises(LeaseLost) as lost:
        store.sessions.commit(commit("s1", graph=chain("a"), session_execution_lease=held))
    assert lost.value.reason == "expired"
    assert isinstance(store.sessions.claim_lease("s1", BOB), Acquired)


def test_a_lease_of_no_time_is_expired_at_once(store: Any) -> None:
    assert lease_on(store, "s1", ALICE, ttl_ms=0).generation == 1
    assert not store.sessions.lease("s1").live
    assert lease_on(store, "s1", BOB).generation == 2


def test_the_injected_clock_stamps_everything(store: Any, clock: ManualClock) -> None:
    clock.advance(12_345)
    put(store, "s1", graph=chain("a"))
    held = lease_on(store, "s1", ttl_ms=7)

    meta = store.sessions.load_meta("s1")
    now = clock.now_ms()
    assert (meta.created_at_ms, meta.updated_at_ms, meta.activity_us) == (now, now, now * 1000)
    assert (held.claimed_at_ms, held.expires_at_ms) == (now, now + 7)


@pytest.mark.scenario("GEN-T3")
@pytest.mark.parametrize("skew_ms", [HOUR_MS, -HOUR_MS], ids=["ahead", "behind"])
def test_a_worker_with_a_wrong_wall_clock_is_told_busy(
    world: World, monkeypatch: pytest.MonkeyPatch, skew_ms: int
) -> None:
    # A server's own clock counts; an embedded store's is the one it was given.
    store = world.open(clock=None) if world.is_server else world.open()
    held = lease_on(store, "s1", ALICE, ttl_ms=60_000)
    real = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: real() + skew_ms * 1_000_000)
    monkeypatch.setattr(time, "time", lambda: (real() + skew_ms * 1_000_000) / 1e9)

    outcome = store.sessions.claim_lease("s1", BOB)

    assert isinstance(outcome, Busy)
    assert outcome.holder.live
    assert outcome.holder.generation == held.generation
    renewed = store.sessions.renew_lease(held, 60_000)
    assert 0 <= renewed.expires_at_ms - held.expires_at_ms < HOUR_MS


@pytest.mark.scenario("GEN-T10")
@pytest.mark.parametrize("write", ["commit", "renew"])
def test_a_write_that_waited_past_its_leases_end_is_refused(world: World, write: str) -> None:
    store = world.open(clock=None)
    put(store, "s1", graph=chain("a"))
    held = lease_on(store, "s1", ALICE, ttl_ms=300)
    fenced = commit("s1", graph=chain("b"), session_execution_lease=held)

    with ThreadPoolExecutor(1) as thread:
        with world.held(store, "s1"):
            waiting = (
                thread.submit(store.sessions.commit, fenced)
                if write == "commit"
                else thread.submit(store.sessions.renew_lease, held, 60_000)
            )
            time.sleep(0.4)
            assert not waiting.done()
        with pytest.raises(LeaseLost) as lost:
            waiting.result()

    assert lost.value.reason == "expired"
    assert store.sessions.load("s1").head_revision == 1
    assert not store.sessions.lease("s1").live
