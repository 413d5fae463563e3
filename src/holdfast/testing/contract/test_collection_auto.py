"""GCX-7: collections that follow commits by themselves."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from holdfast import HeadRevisionConflict
from holdfast.engine import Work
from holdfast.testing.contract.lanes import enqueue, submit
from holdfast.testing.contract.samples import chain, checkpoint, put, turn
from holdfast.testing.world import World
from holdfast.transaction import Mode, Transaction

PATIENCE_S = 10


def collector(world: World, store: Any) -> Any:
    """The store's counts of automatic runs."""
    return world.real(store)._core.collector


def await_runs(world: World, store: Any, runs: int, failures: int = 0) -> None:
    """Wait for what follows the commits so far, one after the other; it has to be so many runs."""
    over = threading.Event()

    async def be_the_last(tx: Transaction) -> None:
        tx.after_commit(over.set)

    world.real(store)._core.run(Work("be_the_last", Mode.WRITE, be_the_last))
    assert over.wait(PATIENCE_S)
    found = collector(world, store)
    assert (found.runs, found.failures) == (runs, failures)


class Steps:
    """Commits, each superseding what the one before it stored, and an orphan put before each."""

    def __init__(self, store: Any) -> None:
        self.store = store
        self.orphans: list[str] = []

    def commit(self) -> int:
        number = len(self.orphans)
        self.orphans.append(self.store.blobs.put(b"orphan %d" % number))
        revision: int = put(self.store, "s1", checkpoint=checkpoint(number)).head_revision
        return revision

    def enqueue(self) -> None:
        """Work and input that reach the session between its commits."""
        enqueue(self.store)
        submit(self.store)

    def left(self) -> list[bool]:
        return [self.store.blobs.has(ref) for ref in self.orphans]


@pytest.mark.scenario("GCX-T9")
def test_runs_follow_every_second_revision_and_reopening_shifts_nothing(world: World) -> None:
    # A store in memory cannot be reopened: all four revisions are made by the one there is.
    steps = Steps(world.open(gc_every_commits=2))

    assert steps.commit() == 1
    steps.enqueue()
    assert steps.commit() == 2
    await_runs(world, steps.store, 1)
    assert steps.left() == [False, False]
    steps.enqueue()

    before = 1
    if world.is_durable:
        steps.store.close()
        steps.store = world.open(gc_every_commits=2)
        before = 0
    assert steps.commit() == 3
    await_runs(world, steps.store, before)
    assert steps.commit() == 4
    await_runs(world, steps.store, before + 1)
    assert steps.left() == [False] * 4


@pytest.mark.scenario("GCX-T9")
def test_after_an_odd_revision_nothing_runs(world: World) -> None:
    steps = Steps(world.open(gc_every_commits=2))
    steps.commit()
    steps.commit()
    await_runs(world, steps.store, 1)

    steps.commit()

    await_runs(world, steps.store, 1)
    assert steps.left() == [False, False, True]
    if world.is_durable:
        steps.store.close()
        steps.store = world.open(gc_every_commits=2)
        await_runs(world, steps.store, 0)
        assert steps.left() == [False, False, True]


def test_replays_and_refused_commits_do_not_count(world: World) -> None:
    store = world.open(gc_every_commits=2)
    put(store, "s1", turn_commit=turn("t1"))
    put(store, "s1", turn_commit=turn("t2"))
    for _ in range(3):
        assert put(store, "s1", turn_commit=turn("t2")).replayed
        with pytest.raises(HeadRevisionConflict):
            put(store, "s1", expected_head_revision=7)

    put(store, "s1", turn_commit=turn("t3"))
    put(store, "s1", turn_commit=turn("t4"))

    await_runs(world, store, 2)


def test_light_commits_count(world: World) -> None:
    store = world.open(gc_every_commits=2)
    for number in range(4):
        put(store, "s1", graph=chain(str(number)))

    await_runs(world, store, 2)


@pytest.mark.parametrize("never", [None, 0])
def test_without_an_interval_nothing_runs(world: World, never: int | None) -> None:
    steps = Steps(world.open(gc_every_commits=never))

    for _ in range(4):
        steps.commit()

    await_runs(world, steps.store, 0)
    assert steps.left() == [True] * 4


@pytest.mark.scenario("GCX-T10")
def test_a_run_that_fails_changes_nothing_about_its_commit(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    store = world.open(gc_every_commits=1)
    damaged = put(store, "s2", checkpoint=checkpoint(1)).checkpoint_ref
    await_runs(world, store, 1)
    world.sql(store, "UPDATE {blob} SET codec = 9 WHERE ref = ?", damaged)

    answer = put(store, "s1", graph=chain("a"), checkpoint=checkpoint(2, tool_state=b"t"))

    assert (answer.head_revision, answer.replayed) == (1, False)
    await_runs(world, store, 1, failures=1)
    assert "automatic collection failed" in caplog.text
    assert store.sessions.load("s1").checkpoint.components == {"tool_state": b"t"}


def test_closing_behind_a_commit_is_no_failure(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    store = world.open(gc_every_commits=1)
    put(store, "s1", checkpoint=checkpoint(1))

    store.close()

    assert collector(world, store).failures == 0
    assert caplog.text == ""
