"""Section 10.3: whether the holder of a lease can be shown to be dead, and what follows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast import (
    Acquired,
    Busy,
    CorruptRecord,
    InvalidArgument,
    LeaseOwner,
    Opaque,
    local_process,
)
from holdfast.owners import ProcessTable, proven_dead
from holdfast.rules.liveness import Unseen
from holdfast.testing.contract.lanes import settle
from holdfast.testing.contract.owners import ended, replaced, this_process
from holdfast.testing.contract.samples import BOB, chain, checkpoint, create, lease_on, put
from holdfast.testing.processes import spawn, together
from holdfast.testing.world import World, racing


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
    assert settle(store, taken.lease, graph=chain("a")).head_revision == 1
    assert store.sessions.release_lease(taken.lease)


@pytest.mark.scenario("LEA-T8")
def test_an_observation_of_an_earlier_generation_takes_nothing_over(store: Any) -> None:
    holder = ended()
    first = lease_on(store, "s1", holder)
    observed = store.sessions.lease("s1")
    store.sessions.release_lease(first)
    lease_on(store, "s1", holder)

    outcome = store.sessions.reclaim_lease(observed, local_process("me"), 30_000)

    assert isinstance(outcome, Busy)
    assert (outcome.holder.owner, outcome.holder.generation) == (holder, 2)


@pytest.mark.scenario("LEA-T8")
def test_an_incarnation_that_re_entered_from_a_live_process_keeps_its_lease(store: Any) -> None:
    dead = replaced()
    alive = msgspec.structs.replace(this_process("dead"), incarnation_id=dead.incarnation_id)
    held = lease_on(store, "s1", dead)
    observed = store.sessions.lease("s1")
    assert lease_on(store, "s1", alive).generation == held.generation

    outcome = store.sessions.reclaim_lease(observed, local_process("me"), 30_000)

    assert isinstance(outcome, Busy)
    assert store.sessions.lease("s1").owner == alive


@pytest.mark.invariant("INV-11")
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
    me = this_process("me")
    if world.is_durable:
        together(spawn(world, _claim_as_process))
    else:
        lease_on(store, "s1", ended())
    observed = store.sessions.lease("s1")

    outcome = store.sessions.reclaim_lease(observed, me, 30_000)

    assert isinstance(outcome, Acquired)


@pytest.mark.invariant("INV-14")
@pytest.mark.scenario("LEA-T10")
@pytest.mark.parametrize(
    "holder",
    [
        lambda: this_process("h", host_id="another host", process_start="1"),
        lambda: this_process("h", boot_id="another boot", process_start="1"),
        lambda: LeaseOwner("h", "1", Opaque()),
        lambda: this_process("h"),
    ],
    ids=["other-host", "other-boot", "opaque", "alive"],
)
def test_whoever_may_be_alive_keeps_its_lease(store: Any, holder: Callable[[], LeaseOwner]) -> None:
    lease_on(store, "s1", holder())
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
    lease_on(store, "s1", this_process("h", process_start="yesterday"))

    outcome = store.sessions.reclaim_lease(store.sessions.lease("s1"), local_process("me"), 30_000)

    assert isinstance(outcome, Busy)


@pytest.mark.scenario("LEA-T11")
def test_in_an_unreadable_process_table_nobody_is_dead(tmp_path: Path) -> None:
    me, dead = this_process("me"), ended()
    assert proven_dead(me, dead)

    boot = tmp_path / "proc/sys/kernel/random"
    boot.mkdir(parents=True)
    (boot / "boot_id").write_text(me.liveness.boot_id)  # type: ignore[union-attr]
    assert not proven_dead(me, dead, ProcessTable(tmp_path))


def test_an_unreadable_process_table_makes_an_opaque_owner(tmp_path: Path) -> None:
    assert local_process("me", table=ProcessTable(tmp_path)).liveness == Opaque()


def test_an_incarnation_is_new_with_every_call() -> None:
    assert local_process("me").incarnation_id != local_process("me").incarnation_id


#: Liveness that no library wrote, some of it near to what one writes.
DAMAGED = [
    "",
    "{bad",
    '{"kind":"martian"}',
    '{"kind": "opaque"}',
    '{"boot_id":"b","host_id":"\\q","kind":"local_process","pid":7,"process_start":"1"}',
    '{"boot_id":"b","host_id":"\\u0041","kind":"local_process","pid":7,"process_start":"1"}',
    '{"boot_id":"b","host_id":"h","kind":"local_process","pid":07,"process_start":"1"}',
    '{"boot_id":"b","host_id":"h","kind":"local_process","pid":2147483648,"process_start":"1"}',
]


def damage(world: World, store: Any, liveness: str | None) -> None:
    """Spoil the stored liveness of whoever holds a lease."""
    world.sql(store, "UPDATE {session} SET liveness = ? WHERE owner_id IS NOT NULL", liveness)


class TestDamagedLiveness:
    """OWN-4: it is not taken for an opaque one, and nobody replaces what cannot be told."""

    @pytest.mark.parametrize("ttl_ms", [30_000, 0], ids=["live", "expired"])
    @pytest.mark.parametrize("liveness", [*DAMAGED, None])
    def test_a_claim_raises_and_writes_nothing(
        self, world: World, store: Any, liveness: str | None, ttl_ms: int
    ) -> None:
        lease_on(store, "s1", ttl_ms=ttl_ms)
        damage(world, store, liveness)
        before = world.dump(store)

        for attempt in (store.sessions.lease, lambda id: store.sessions.claim_lease(id, BOB)):
            with pytest.raises(CorruptRecord) as fault:
                attempt("s1")
            assert (fault.value.record_kind, fault.value.key) == ("lease_liveness", "s1")
        assert world.dump(store) == before

    @pytest.mark.parametrize("ttl_ms", [30_000, 0], ids=["live", "expired"])
    def test_deletion_is_a_way_out(self, world: World, store: Any, ttl_ms: int) -> None:
        create(store)
        lease_on(store, "s1", ttl_ms=ttl_ms)
        damage(world, store, "{bad")

        assert store.sessions.delete("s1", force=ttl_ms > 0).deleted
        assert lease_on(store, "s1", BOB).generation == 1

    @pytest.mark.parametrize("content", [{}, {"checkpoint": checkpoint()}], ids=["light", "whole"])
    def test_so_is_a_momentary_lease_after_the_end(
        self, world: World, store: Any, content: dict[str, Any]
    ) -> None:
        lease_on(store, "s1", ttl_ms=0)
        damage(world, store, "{bad")

        put(store, "s1", graph=chain("a"), **content)

        assert lease_on(store, "s1", BOB).generation == 3

    @pytest.mark.parametrize("way", ["re-entry", "release"])
    def test_so_is_the_holder_itself(self, world: World, store: Any, way: str) -> None:
        held = lease_on(store, "s1")
        damage(world, store, "{bad")

        if way == "re-entry":
            assert lease_on(store, "s1") == held
        assert store.sessions.release_lease(held)
        assert lease_on(store, "s1", BOB).generation == 2


#: Everything that JSON spells in a way of its own.
PECULIAR = "".join(map(chr, range(1, 0x30))) + "\\\x7f\x80\u2028é\U0001f600TEXT"


@pytest.mark.parametrize(
    "fields",
    [
        {"host_id": PECULIAR, "boot_id": PECULIAR, "process_start": PECULIAR},
        {"host_id": "h" * 512, "boot_id": "", "process_start": "é" * 256},
        {"pid": 0},
        {"pid": 2**31 - 1},
    ],
)
def test_whoever_could_claim_is_named_to_the_next(store: Any, fields: dict[str, Any]) -> None:
    owner = this_process("peculiar", **fields)
    lease_on(store, "s1", owner, ttl_ms=0)

    assert store.sessions.claim_lease("s1", BOB, 30_000).displaced.owner == owner


def test_no_system_has_a_process_of_a_larger_id(store: Any) -> None:
    with pytest.raises(InvalidArgument) as refused:
        store.sessions.claim_lease("s1", this_process("large", pid=2**31), 30_000)

    assert (refused.value.field, refused.value.reason) == ("pid", "too_large")
    assert store.sessions.lease("s1") is None


@pytest.mark.parametrize("pid", [2**31, 2**40, 2**100])
def test_of_a_process_with_an_impossible_id_nothing_can_be_told(pid: int) -> None:
    assert ProcessTable().started(pid) is Unseen.UNREADABLE
