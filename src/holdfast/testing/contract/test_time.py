"""Section 2: whose clock counts, and when it is read."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from holdfast import Acquired, Busy, LeaseLost, SessionCreate, StartAt
from holdfast.testing.clock import ManualClock, TickingClock
from holdfast.testing.contract.samples import (
    ALICE,
    BOB,
    chain,
    checkpoint,
    commit,
    lease_on,
    put,
    turn,
)
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


@pytest.mark.invariant("INV-6")
@pytest.mark.parametrize("start", [None, StartAt("a", "source")], ids=["bare", "elsewhere"])
def test_everything_that_a_commit_stamps_shows_one_reading_of_the_clock(
    world: World, start: StartAt | None
) -> None:
    """On a server too, although its statements go out in several trips."""
    store = world.open(clock=TickingClock())
    put(store, "source", graph=chain("a"))
    fields = {"turn_commit": turn("t1"), "checkpoint": checkpoint(tool_state=b"tools")}

    put(store, "s1", create=SessionCreate(session_id="s1", start_at=start), **fields)
    first = instants(world, store)
    put(store, "s1", turn_commit=turn("t2"), checkpoint=checkpoint(2))
    second = instants(world, store)

    assert len(set(first.values())) == 1
    assert second["created"] == first["created"]
    assert {second[name] for name in ("updated", "activity", "stamp", "blob")} == {second["stamp"]}
    assert second["stamp"] > first["stamp"]


def instants(world: World, store: Any) -> dict[str, int]:
    """When the last commit was, by everything that tells it."""
    meta = store.sessions.load_meta("s1")
    stamps = [store.sessions.load_turn_commit("s1", turn_id) for turn_id in ("t1", "t2")]
    return {
        "created": meta.created_at_ms,
        "updated": meta.updated_at_ms,
        "activity": meta.activity_us // 1000,
        "stamp": max(stamp.committed_at_ms for stamp in stamps if stamp),
        "blob": world.sql(store, "SELECT max(stored_at_ms) FROM {blob}")[0][0],
    }


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
    claimed = lease_on(store, "s2", BOB)
    assert 0 <= claimed.claimed_at_ms - held.claimed_at_ms < HOUR_MS


@pytest.mark.invariant("INV-6")
@pytest.mark.scenario("GEN-T10")
@pytest.mark.parametrize("write", ["commit", "whole", "renew"])
def test_a_write_that_waited_past_its_leases_end_is_refused(world: World, write: str) -> None:
    store = world.open(clock=None)
    put(store, "s1", graph=chain("a"))
    held = lease_on(store, "s1", ALICE, ttl_ms=300)
    content = {"checkpoint": checkpoint()} if write == "whole" else {}
    fenced = commit("s1", graph=chain("b"), session_execution_lease=held, **content)

    with ThreadPoolExecutor(1) as thread:
        with world.held(store, "s1"):
            waiting = (
                thread.submit(store.sessions.renew_lease, held, 60_000)
                if write == "renew"
                else thread.submit(store.sessions.commit, fenced)
            )
            time.sleep(0.4)
            assert not waiting.done()
        with pytest.raises(LeaseLost) as lost:
            waiting.result()

    assert lost.value.reason == "expired"
    assert store.sessions.load("s1").head_revision == 1
    assert not store.sessions.lease("s1").live


@pytest.mark.scenario("GEN-T10")
def test_a_claim_that_waited_past_its_own_leases_end_is_a_fresh_one(world: World) -> None:
    store = world.open(clock=None)
    held = lease_on(store, "s1", ALICE, ttl_ms=300)

    with ThreadPoolExecutor(1) as thread:
        with world.held(store, "s1"):
            waiting = thread.submit(store.sessions.claim_lease, "s1", ALICE, 60_000)
            time.sleep(0.4)
            assert not waiting.done()
        outcome = waiting.result()

    assert not outcome.reentered
    assert outcome.lease.generation == held.generation + 1
    assert outcome.lease.claimed_at_ms >= held.expires_at_ms
