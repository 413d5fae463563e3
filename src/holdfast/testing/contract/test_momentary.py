"""COM-14: commits of callers that own no lease."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from holdfast import (
    ANY,
    Acquired,
    Append,
    HeadRevisionConflict,
    InvalidArgument,
    LeaseLost,
    Refused,
    RuntimeCommitResult,
    SessionBusy,
    local_process,
)
from holdfast.testing.contract.samples import (
    ALICE,
    BOB,
    chain,
    checkpoint,
    commit,
    lease_on,
    message,
    path_ids,
    put,
    turn,
)
from holdfast.testing.processes import spawn, together
from holdfast.testing.world import World, racing

ROUNDS = 10


@pytest.mark.scenario("COM-T17")
@pytest.mark.parametrize("content", ["light", "whole"])
@pytest.mark.parametrize("whose", ["another's", "the caller's own"])
def test_a_live_holder_is_not_disturbed(store: Any, whose: str, content: str) -> None:
    put(store, "s1", graph=chain("a"))
    owner = BOB if whose == "another's" else local_process("me")
    lease = lease_on(store, "s1", owner)
    parts: dict[str, Any] = {"checkpoint": checkpoint()} if content == "whole" else {}

    with pytest.raises(SessionBusy) as refused:
        put(store, "s1", graph=chain("b"), **parts)

    holder = refused.value.holder
    assert (refused.value.session_id, holder.owner, holder.live) == ("s1", owner, True)
    assert holder.generation == lease.generation
    assert path_ids(store) == ["a"]
    assert store.sessions.commit(
        commit("s1", session_execution_lease=lease, expected_head_revision=1)
    )


@pytest.mark.invariant("INV-19")
@pytest.mark.scenario("COM-T17")
@pytest.mark.parametrize("wrong", ["revision", "graph", "stamp"])
def test_a_failing_one_leaves_the_lease_free_and_the_generation(store: Any, wrong: str) -> None:
    put(store, "s1", graph=chain("a"), turn_commit=turn("t1", turn_commit_hash="one"))
    failing: dict[str, dict[str, Any]] = {
        "revision": {"expected_head_revision": 0},
        "graph": {"graph": Append([message("b", parent_node_id="nowhere")])},
        "stamp": {"turn_commit": turn("t1", turn_commit_hash="two")},
    }

    with pytest.raises(Refused):
        put(store, "s1", **failing[wrong])

    assert store.sessions.lease("s1") is None
    assert lease_on(store, "s1").generation == 2


@pytest.mark.invariant("INV-19")
def test_each_applied_one_raises_the_generation_once_and_a_replay_does_not(store: Any) -> None:
    for _ in range(3):
        put(store, "s1", turn_commit=turn("t1"))
    put(store, "s1")

    assert lease_on(store, "s1").generation == 3


@pytest.mark.parametrize("brought", ["session_execution_lease", "release_session_execution_lease"])
def test_it_brings_no_lease_and_gives_none_back(store: Any, brought: str) -> None:
    lease = lease_on(store, "s1")
    given = {"session_execution_lease": lease, "release_session_execution_lease": True}

    with pytest.raises(InvalidArgument) as refused:
        put(store, "s1", **{brought: given[brought]})

    assert refused.value.field == brought


@pytest.mark.scenario("COM-T20")
def test_it_fences_off_a_holder_whose_time_was_over(store: Any, world: World) -> None:
    expired = lease_on(store, "s1", ALICE, ttl_ms=1_000)
    world.clock.advance(1_000)

    put(store, "s1", graph=chain("a"))

    assert store.sessions.lease("s1") is None
    with pytest.raises(LeaseLost) as lost:
        store.sessions.commit(commit("s1", session_execution_lease=expired, graph=chain("late")))
    assert lost.value.reason == "superseded"
    assert path_ids(store) == ["a"]


@pytest.mark.scenario("COM-T20")
def test_racing_a_claim_one_goes_first_and_nobody_sees_it_held(store: Any) -> None:
    put(store, "s1")
    racers: list[Callable[[], Any]] = [
        lambda: put(store, "s1"),
        lambda: store.sessions.claim_lease("s1", BOB, 30_000),
        lambda: [store.sessions.lease("s1") for _ in range(5)],
    ]
    for round_number in range(ROUNDS):
        before = lease_on(store, "s1")
        store.sessions.release_lease(before)

        committed, claimed, seen = racing(3, lambda number: racers[number]())

        assert isinstance(claimed, Acquired), round_number
        if isinstance(committed, SessionBusy):
            assert committed.holder.owner == BOB
            assert claimed.lease.generation == before.generation + 1
        else:
            assert isinstance(committed, RuntimeCommitResult)
            assert claimed.lease.generation == before.generation + 2
        assert {holder.owner for holder in seen if holder is not None} <= {BOB}
        store.sessions.release_lease(claimed.lease)


def test_several_on_one_session_never_make_each_other_busy(store: Any) -> None:
    put(store, "s1")

    answers = racing(4, lambda _: put(store, "s1", expected_head_revision=1))

    applied = [answer for answer in answers if isinstance(answer, RuntimeCommitResult)]
    refused = [answer for answer in answers if isinstance(answer, HeadRevisionConflict)]
    assert (len(applied), len(refused)) == (1, 3)
    assert {conflict.actual for conflict in refused} == {applied[0].head_revision}


CALLERS = 8
NODES = 10


def append_as(store: Any, callers: list[int]) -> None:
    """Each caller appends its nodes one by one behind whatever the others append."""

    def one(place: int) -> None:
        for number in range(NODES):
            node_id = f"{callers[place]}:{number}"
            store.sessions.commit_with_fresh_lease(
                commit("s1", expected_head_revision=ANY, graph=chain(node_id))
            )

    failures = [outcome for outcome in racing(len(callers), one) if outcome is not None]
    if failures:
        raise failures[0]


@pytest.mark.scenario("COM-T21")
def test_many_callers_append_behind_each_other(store: Any, world: World) -> None:
    everybody = list(range(CALLERS))
    if world.is_durable:
        halves = everybody[::2], everybody[1::2]
        together(*(spawn(world, append_as, half) for half in halves))
    else:
        append_as(store, everybody)

    path = path_ids(store)
    assert len(path) == CALLERS * NODES
    for caller in everybody:
        own = [node_id for node_id in path if node_id.startswith(f"{caller}:")]
        assert own == [f"{caller}:{number}" for number in range(NODES)]
    assert store.sessions.load("s1").head_revision == CALLERS * NODES
