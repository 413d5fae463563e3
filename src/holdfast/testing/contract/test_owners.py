"""Section 10.3: whether the holder of a lease can be shown to be dead, and what follows."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast import (
    Acquired,
    Busy,
    CorruptRecord,
    LeaseOwner,
    LocalProcess,
    Opaque,
    local_process,
)
from holdfast.owners import ProcessTable, proven_dead
from holdfast.testing.contract.samples import BOB, lease_on
from holdfast.testing.processes import spawn, together
from holdfast.testing.world import World, racing

pytestmark = pytest.mark.skipif(
    not isinstance(local_process("anybody").liveness, LocalProcess),
    reason="this system does not tell which processes run",
)


def process(owner_id: str, **fields: Any) -> LeaseOwner:
    """This process as an owner, but for the fields given."""
    me = local_process(owner_id)
    return msgspec.structs.replace(me, liveness=msgspec.structs.replace(me.liveness, **fields))


def ended() -> LeaseOwner:
    """A process that has ended, and whose id nobody has now."""
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        pid = child.pid
    return process("dead", pid=pid)


def replaced() -> LeaseOwner:
    """A process whose id somebody else has now."""
    return process("dead", process_start="1")


@pytest.mark.scenario("LEA-T8")
@pytest.mark.parametrize("dead", [ended, replaced])
def test_a_dead_holder_is_replaced_before_its_time_but_only_on_request(
    store: Any, dead: Callable[[], LeaseOwner]
) -> None:
    held = lease_on(store, "s1", dead())
    me, other = local_process("me"), local_process("other")

    busy = store.sessions.claim_lease("s1", me, 30_000)
    taken = store.sessions.reclaim_lease(busy.holder, me, 30_000)
    late = store.sessions.reclaim_lease(busy.holder, other, 30_000)

    assert isinstance(busy, Busy)
    assert taken.lease.generation == held.generation + 1
    assert taken.displaced.owner == held.owner
    assert isinstance(late, Busy)
    assert late.holder.owner == me


@pytest.mark.scenario("LEA-T8")
def test_an_observation_of_an_earlier_generation_takes_nothing_over(store: Any) -> None:
    holder = ended()
    first = lease_on(store, "s1", holder)
    observed = store.sessions.lease("s1")
    store.sessions.release_lease(first)
    lease_on(store, "s1", holder)

    outcome = store.sessions.reclaim_lease(observed, process("me"), 30_000)

    assert isinstance(outcome, Busy)
    assert (outcome.holder.owner, outcome.holder.generation) == (holder, 2)


@pytest.mark.scenario("LEA-T8")
def test_an_incarnation_that_re_entered_from_a_live_process_keeps_its_lease(store: Any) -> None:
    dead = replaced()
    alive = msgspec.structs.replace(process("dead"), incarnation_id=dead.incarnation_id)
    held = lease_on(store, "s1", dead)
    observed = store.sessions.lease("s1")
    assert lease_on(store, "s1", alive).generation == held.generation

    outcome = store.sessions.reclaim_lease(observed, local_process("me"), 30_000)

    assert isinstance(outcome, Busy)
    assert store.sessions.lease("s1").owner == alive


@pytest.mark.scenario("LEA-T9")
def test_of_racing_reclaimers_exactly_one_acquires(world: World) -> None:
    stores = [world.open() for _ in range(4)] if world.is_durable else [world.open()] * 4
    lease_on(stores[0], "s1", replaced())
    observed = stores[0].sessions.lease("s1")

    def reclaim(number: int) -> Any:
        return stores[number].sessions.reclaim_lease(observed, local_process(f"o{number}"), 30_000)

    outcomes = racing(4, reclaim)

    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["Acquired"] + ["Busy"] * 3
    assert stores[0].sessions.lease("s1").generation == observed.generation + 1


def _claim_as_process(store: Any) -> None:
    store.sessions.claim_lease("s1", local_process("child"), 30_000)


@pytest.mark.scenario("LEA-T8")
def test_a_process_that_ended_without_releasing_is_found_dead(world: World, store: Any) -> None:
    if world.is_durable:
        together(spawn(world, _claim_as_process))
    else:
        lease_on(store, "s1", ended())
    observed = store.sessions.lease("s1")

    outcome = store.sessions.reclaim_lease(observed, local_process("me"), 30_000)

    assert isinstance(outcome, Acquired)


@pytest.mark.scenario("LEA-T10")
@pytest.mark.parametrize(
    "holder",
    [
        process("h", host_id="another host", process_start="1"),
        process("h", boot_id="another boot", process_start="1"),
        LeaseOwner("h", "1", Opaque()),
        process("h"),
    ],
    ids=["other-host", "other-boot", "opaque", "alive"],
)
def test_whoever_may_be_alive_keeps_its_lease(store: Any, holder: LeaseOwner) -> None:
    lease_on(store, "s1", holder)
    observed = store.sessions.lease("s1")

    outcome = store.sessions.reclaim_lease(observed, local_process("me"), 30_000)

    assert isinstance(outcome, Busy)
    assert store.sessions.lease("s1") == observed


@pytest.mark.scenario("LEA-T10")
def test_an_opaque_claimant_proves_nothing(store: Any) -> None:
    lease_on(store, "s1", replaced())

    outcome = store.sessions.reclaim_lease(store.sessions.lease("s1"), BOB, 30_000)

    assert isinstance(outcome, Busy)


@pytest.mark.scenario("LEA-T11")
def test_what_cannot_be_parsed_is_not_dead(store: Any) -> None:
    lease_on(store, "s1", process("h", process_start="yesterday"))

    outcome = store.sessions.reclaim_lease(store.sessions.lease("s1"), local_process("me"), 30_000)

    assert isinstance(outcome, Busy)


@pytest.mark.scenario("LEA-T11")
def test_in_an_unreadable_process_table_nobody_is_dead(tmp_path: Path) -> None:
    me, dead = local_process("me"), ended()
    assert proven_dead(me, dead)

    boot = tmp_path / "proc/sys/kernel/random"
    boot.mkdir(parents=True)
    (boot / "boot_id").write_text(me.liveness.boot_id)  # type: ignore[union-attr]
    assert not proven_dead(me, dead, ProcessTable(tmp_path))


def test_an_unreadable_process_table_makes_an_opaque_owner(tmp_path: Path) -> None:
    assert local_process("me", table=ProcessTable(tmp_path)).liveness == Opaque()


def test_an_incarnation_is_new_with_every_call() -> None:
    assert local_process("me").incarnation_id != local_process("me").incarnation_id


def test_a_damaged_liveness_is_not_taken_for_an_opaque_one(world: World, store: Any) -> None:
    lease_on(store, "s1")
    world.sql(store, "UPDATE {session} SET liveness = ?", '{"kind": "martian"}')

    with pytest.raises(CorruptRecord):
        store.sessions.lease("s1")
    with pytest.raises(CorruptRecord):
        store.sessions.claim_lease("s1", BOB, 30_000)
