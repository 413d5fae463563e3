"""COM-4: of commits that expect the same head, one applies."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from holdfast import (
    Append,
    HeadRevisionConflict,
    Lease,
    RuntimeCommitResult,
    Tag,
)
from holdfast.testing.contract.samples import (
    chain,
    checkpoint,
    commit,
    lease_on,
    message,
    path_ids,
    put,
    spent,
)
from holdfast.testing.processes import spawn, together
from holdfast.testing.world import World, racing

CHAIN = 20


def whole(name: str) -> Append:
    """A chain that tells who wrote it."""
    return chain(*(f"{name}:{number}" for number in range(CHAIN)))


def write_first(store: Any, lease: dict[str, Any], name: str) -> dict[str, Any]:
    """Commit the first revision under a lease that others have too; what came of it."""
    try:
        answer = store.sessions.commit(
            commit(
                "s1",
                expected_head_revision=0,
                session_execution_lease=msgspec.convert(lease, Lease),
                graph=whole(name),
            )
        )
    except HeadRevisionConflict as conflict:
        return {"name": name, "actual": conflict.actual}
    return {"name": name, "revision": answer.head_revision}


def judge(store: Any, outcomes: list[dict[str, Any]]) -> None:
    """One success, one conflict with the winner's revision, exactly one graph stored."""
    winners = [outcome for outcome in outcomes if "revision" in outcome]
    losers = [outcome for outcome in outcomes if "actual" in outcome]
    assert (len(winners), len(losers)) == (1, len(outcomes) - 1)
    assert winners[0]["revision"] == 1
    assert {loser["actual"] for loser in losers} == {1}
    expected = [f"{winners[0]['name']}:{number}" for number in range(CHAIN)]
    assert path_ids(store) == expected
    assert path_ids(store, scope="full_graph") == expected


@pytest.mark.scenario("COM-T3")
def test_of_two_first_commits_through_one_store_one_applies(store: Any) -> None:
    lease = msgspec.to_builtins(lease_on(store, "s1"))

    outcomes = racing(2, lambda number: write_first(store, lease, f"thread-{number}"))

    judge(store, outcomes)


@pytest.mark.invariant("INV-16")
@pytest.mark.scenario("COM-T3")
def test_of_two_first_commits_of_independent_writers_one_applies(store: Any, world: World) -> None:
    lease = msgspec.to_builtins(lease_on(store, "s1"))

    if world.is_durable:
        outcomes = together(
            spawn(world, write_first, lease, "process-1"),
            spawn(world, write_first, lease, "process-2"),
        )
    else:
        # Nobody else reaches a database in memory: the other face of the store is as far apart
        # as two writers of it can be.
        faces = [world.real(store), store]
        outcomes = racing(2, lambda number: write_first(faces[number], lease, f"face-{number}"))

    judge(store, outcomes)


@pytest.mark.invariant("INV-16")
def test_of_commits_with_one_tag_and_new_ones_one_applies(store: Any) -> None:
    put(store, "s1", head_tag="first")

    def replace(number: int) -> Any:
        fields = {"expected_head_revision": Tag("first"), "head_tag": f"new-{number}"}
        return put(store, "s1", graph=whole(str(number)), **fields)

    answers = racing(4, replace)

    (winner,) = [n for n, answer in enumerate(answers) if isinstance(answer, RuntimeCommitResult)]
    losers = [answer for answer in answers if isinstance(answer, HeadRevisionConflict)]
    assert len(losers) == 3
    assert {(loser.actual, loser.actual_tag) for loser in losers} == {(2, f"new-{winner}")}
    assert path_ids(store, scope="full_graph") == [f"{winner}:{n}" for n in range(CHAIN)]


@pytest.mark.invariant("INV-1")
def test_a_commit_that_lost_leaves_no_trace(store: Any, world: World) -> None:
    put(store, "s1", graph=chain("a"))
    before = world.dump(store)

    with pytest.raises(HeadRevisionConflict):
        put(
            store,
            "s1",
            expected_head_revision=0,
            graph=chain("b"),
            config={"model": "m"},
            checkpoint=checkpoint(2, tool_state=b"tools"),
            usage_deltas=[spent("chat")],
        )

    assert world.dump(store) == before


def test_commits_that_expect_nothing_apply_one_after_the_other(store: Any) -> None:
    put(store, "s1")

    answers = racing(8, lambda number: put(store, "s1", graph=Append([message(str(number))])))

    assert sorted(answer.head_revision for answer in answers) == list(range(2, 10))
    assert sorted(path_ids(store)) == [str(number) for number in range(8)]
