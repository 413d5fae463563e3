"""Section 12.5: both families at a checkpoint, in one transaction or in none."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from holdfast import CheckpointWork, InvalidArgument, LeaseLost
from holdfast.testing.clock import ManualClock
from holdfast.testing.contract.lanes import enqueue, names, pending, queued, submit, texts
from holdfast.testing.contract.samples import lease_on
from holdfast.testing.world import World

NOTHING = CheckpointWork(None, None)


def at_checkpoint(store: Any, lease: Any, *maxima: int, checkpoint: str = "after_work") -> Any:
    return store.queue.claim_at_checkpoint(lease, "t", checkpoint, *maxima)


def both(store: Any) -> Any:
    """Something of each family; a lease."""
    submit(store, "for the turn", "t")
    enqueue(store, "joins the turn", delivery_policy="earliest_safe_boundary")
    return lease_on(store, "s1")


@pytest.mark.scenario("INP-T17")
def test_both_families_are_claimed_together_and_once(store: Any) -> None:
    lease = both(store)

    taken = at_checkpoint(store, lease)

    assert texts(taken.inputs.inputs) == ["for the turn"]
    assert names(taken.work.batches) == ["joins the turn"]
    generations = {each.session_lease_generation for each in (taken.inputs, taken.work)}
    assert generations == {lease.generation}
    assert (taken.inputs.turn_id, taken.inputs.checkpoint) == ("t", "after_work")
    assert taken.inputs.inputs[0].state == "accepted"
    assert (pending(store), store.queue.list_pending("s1")) == ([], [])
    assert at_checkpoint(store, lease) == NOTHING


@pytest.mark.scenario("INP-T17")
@pytest.mark.parametrize(("maxima", "families"), [((0, 1), {"work"}), ((1, 0), {"inputs"})])
def test_a_maximum_of_none_switches_a_family_off(
    store: Any, maxima: tuple[int, int], families: set[str]
) -> None:
    lease = both(store)

    taken = at_checkpoint(store, lease, *maxima)

    assert {name for name in ("inputs", "work") if getattr(taken, name)} == families
    rest = at_checkpoint(store, lease)
    assert {name for name in ("inputs", "work") if getattr(rest, name)} == {
        "inputs",
        "work",
    } - families


@pytest.mark.parametrize("family", ["inputs", "work"])
def test_one_family_alone_is_claimed(store: Any, family: str) -> None:
    if family == "inputs":
        submit(store, "for the turn", "t", boundary="before_completion")
    else:
        enqueue(store, delivery_policy="earliest_safe_boundary")
    lease = lease_on(store, "s1")

    taken = at_checkpoint(store, lease, checkpoint="before_completion")

    assert [name for name in ("inputs", "work") if getattr(taken, name)] == [family]


def test_each_family_keeps_to_its_maximum(store: Any) -> None:
    for number in range(3):
        submit(store, str(number), "t")
        enqueue(
            store,
            str(number),
            delivery_policy="earliest_safe_boundary",
            slot_policy="join",
            merge_key="payload_default",
        )

    taken = at_checkpoint(store, lease_on(store, "s1"), 2, 2)

    assert texts(taken.inputs.inputs) == names(taken.work.batches) == ["0", "1"]


def nothing_at_all(store: Any) -> None:
    """An empty queue, and no inputs."""


def nothing_for_a_checkpoint(store: Any) -> None:
    """A head that waits for the turn's commit, and inputs for others."""
    enqueue(store, "after the commit")
    enqueue(store, "behind it", delivery_policy="earliest_safe_boundary")
    submit(store, "for another turn", "t2")
    submit(store, "for later", "t", boundary="before_completion")
    submit(store, "for the next turn")


def a_command_first(store: Any) -> None:
    """A session command is never skipped."""
    enqueue(store, payloads=[{"type": "session_command", "name": "command"}])
    enqueue(store, "behind it", delivery_policy="earliest_safe_boundary")


@pytest.mark.scenario("INP-T18")
@pytest.mark.parametrize(
    "prepared",
    [nothing_at_all, nothing_for_a_checkpoint, a_command_first],
    ids=lambda f: f.__name__,
)
def test_where_nothing_can_be_claimed_nothing_is_written(
    world: World, store: Any, prepared: Any
) -> None:
    prepared(store)
    lease = lease_on(store, "s1")
    before = world.dump(store)
    ran: list[str] = []
    backend = world.backend(store)
    backend.counts.clear()
    backend.on_statement = lambda name, when: ran.append(name) if when == "after" else None

    taken = at_checkpoint(store, lease)

    backend.on_statement = None
    assert taken == NOTHING
    assert set(ran) == {"probe_checkpoint"}
    assert (backend.counts["probe_checkpoint"], backend.counts["lock_section"]) == (1, 0)
    assert backend.counts["transactions"] <= 1
    assert world.dump(store) == before


def test_the_look_before_it_never_runs_on_a_loop(world: World, store: Any) -> None:
    real = world.real(store)
    enqueue(store, available_at_ms=2**60)
    lease = lease_on(store, "s1")
    threads: list[int] = []
    world.backend(store).on_statement = lambda *_: threads.append(threading.get_ident())

    async def on_a_loop() -> tuple[Any, int]:
        return await at_checkpoint(real.aio, lease), threading.get_ident()

    taken, loop = asyncio.run(on_a_loop())

    world.backend(store).on_statement = None
    assert taken == NOTHING
    assert threads
    assert loop not in threads


@pytest.mark.scenario("INP-T18")
def test_what_waits_for_the_commit_stays_claimable_at_idle(store: Any) -> None:
    nothing_for_a_checkpoint(store)
    lease = lease_on(store, "s1")
    assert at_checkpoint(store, lease) == NOTHING

    assert names(store.queue.claim(lease, "idle").batches) == ["after the commit"]
    assert names(at_checkpoint(store, lease).work.batches) == ["behind it"]


def test_the_lease_is_judged_only_where_there_is_something_to_claim(
    world: World, store: Any, clock: ManualClock
) -> None:
    lease = lease_on(store, "s1")
    clock.advance(30_000)
    assert at_checkpoint(store, lease) == NOTHING
    submit(store, "for the turn", "t")
    enqueue(store, delivery_policy="earliest_safe_boundary")
    before = world.dump(store)

    for maxima in ((), (0, 1), (1, 0)):
        with pytest.raises(LeaseLost) as lost:
            at_checkpoint(store, lease, *maxima)
        assert lost.value.reason == "expired"

    assert world.dump(store) == before
    assert (len(pending(store)), len(queued(store))) == (1, 1)


def test_both_switched_off_touches_nothing(world: World, store: Any) -> None:
    lease = both(store)
    world.backend(store).counts.clear()

    assert at_checkpoint(store, lease, 0, 0) == NOTHING

    assert not +world.backend(store).counts


@pytest.mark.parametrize(
    ("given", "field"),
    [
        (("", "after_work"), "turn_id"),
        (("t", "idle"), "checkpoint"),
        (("t", "after_work", -1), "max_inputs"),
        (("t", "after_work", 1, 10_001), "max_batches"),
    ],
)
def test_what_makes_no_sense_is_refused(store: Any, given: Any, field: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        store.queue.claim_at_checkpoint(lease_on(store, "s1"), *given)

    assert refused.value.field == field
