"""Section 16: what every backend owes its callers when others are at it, or are gone."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import nullcontext
from typing import Any

import pytest

from holdfast import Contention, Durability, HeadRevisionConflict, LoadScope, Tag
from holdfast.testing.contract.samples import BOB, chain, checkpoint, lease_on, put
from holdfast.testing.processes import spawn, together
from holdfast.testing.world import World, racing


def commit_often(store: Any, name: str, count: int) -> int:
    """Commits without a lease of one's own, to the one session; the last revision."""
    for number in range(count):
        done = put(store, "s1", graph=chain(f"{name}-{number}"))
    return int(done.head_revision)


@pytest.mark.scenario("BAK-T1")
def test_contending_processes_never_see_a_raw_busy_error(world: World, store: Any) -> None:
    if world.is_durable:
        revisions = together(*(spawn(world, commit_often, name, 40) for name in "ab"))
    else:
        revisions = racing(2, lambda number: commit_often(store, f"{number}", 40))

    assert max(revisions) == 80
    assert len(store.sessions.load("s1").graph.nodes) == 80


def commit_and_die(store: Any) -> None:
    """End without a farewell as soon as a commit was acknowledged."""
    put(store, "s1", graph=chain("a"), checkpoint=checkpoint(tool_state=b"state"))
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.invariant("INV-3")
@pytest.mark.scenario("BAK-T2")
def test_what_was_acknowledged_outlives_its_process(world: World) -> None:
    if not world.is_durable:
        # Nothing in memory outlives its process, and the store says so.
        assert world.open().durability_tier is Durability.INLINE
        return

    with pytest.raises(RuntimeError):
        together(spawn(world, commit_and_die))

    loaded = world.open().sessions.load("s1", scope=LoadScope.ACTIVE_PATH)
    assert [node.node_id for node in loaded.graph.nodes] == ["a"]
    assert loaded.checkpoint_ref is not None


def impatient(world: World, put_first: int) -> Any:
    """A store that waits a moment only, with that many commits in its session."""
    store = world.open(wait_ms=250, lock_timeout_ms=80)
    for number in range(put_first):
        put(store, "s1", config={"n": number})
    return store


@pytest.mark.scenario("BAK-T3")
@pytest.mark.parametrize("content", ["light", "whole"])
def test_a_commit_that_only_waited_is_told_of_contention(world: World, content: str) -> None:
    store = impatient(world, 1)
    extra: Any = {} if content == "light" else {"checkpoint": checkpoint()}

    with world.held(store, "s1"), pytest.raises(Contention) as waited:
        put(store, "s1", expected_head_revision=1, config={"n": 5}, **extra)

    assert waited.value.retryable
    assert store.sessions.load("s1").head_revision == 1


@pytest.mark.scenario("BAK-T3")
@pytest.mark.parametrize("expected", [1, Tag("other")])
def test_a_commit_that_waited_for_a_head_that_moved_is_told_where_it_is(
    world: World, expected: int | Tag
) -> None:
    store = impatient(world, 3)
    # In memory nobody reads beside a stranger's transaction, and there are no strangers.
    others = world.held(store, "s1") if world.is_durable else nullcontext()

    with others, pytest.raises(HeadRevisionConflict) as conflict:
        put(store, "s1", expected_head_revision=expected, config={"n": 5})

    assert (conflict.value.expected, conflict.value.actual) == (expected, 3)


@pytest.mark.scenario("BAK-T3")
@pytest.mark.parametrize("content", ["light", "whole"])
def test_a_commit_in_whose_wait_the_head_moves_is_told_where_it_is(
    world: World, content: str
) -> None:
    if not world.is_server:
        pytest.skip("an embedded store asks for its one lock before any statement")
    store = world.open(wait_ms=2_000, lock_timeout_ms=50)
    put(store, "s1", graph=chain("a"))
    extra: Any = {} if content == "light" else {"checkpoint": checkpoint()}
    tried: list[str] = []

    with world.beneath(store) as others:

        def move(statement: str, when: str) -> None:
            # Its second try begins: the one who was in its way is done, and another is there.
            if when == "before":
                tried.append(statement)
                if tried.count(tried[0]) == 2 and tried[-1] == tried[0]:
                    others("UPDATE {session} SET head_revision = 2 WHERE id = 's1'")
                    others("COMMIT")
                    enter()

        def enter() -> None:
            others("BEGIN")
            others("SELECT key FROM {session} WHERE id = 's1' FOR UPDATE")

        enter()
        world.backend(store).on_statement = move
        with pytest.raises(HeadRevisionConflict) as conflict:
            put(store, "s1", expected_head_revision=1, config={"n": 5}, **extra)

    assert (conflict.value.expected, conflict.value.actual) == (1, 2)
    assert store.sessions.load("s1").head_revision == 2


def test_a_repeated_append_that_waited_may_be_a_replay(world: World) -> None:
    store = impatient(world, 0)
    put(store, "s1", graph=chain("a"))
    put(store, "s1", graph=chain("b"))

    with world.held(store, "s1"), pytest.raises(Contention):
        put(store, "s1", expected_head_revision=0, graph=chain("a"))


@pytest.mark.scenario("BAK-T5")
def test_a_long_read_does_not_block_a_commit(world: World, store: Any) -> None:
    put(store, "s1", graph=chain("a"))
    reading, go_on, reader = threading.Event(), threading.Event(), threading.Event()
    found: list[Any] = []

    def hook(_: str, when: str) -> None:
        if when == "after" and threading.current_thread().name in names and not reader.is_set():
            reader.set()
            reading.set()
            go_on.wait(10)

    def read() -> None:
        found.append(world.real(store).sessions.load("s1"))

    thread = threading.Thread(target=read, name="the reader")
    names = {thread.name, "holdfast-reader"}  # the latter where it must not sit through a write
    world.backend(store).on_statement = hook
    thread.start()
    assert reading.wait(10)
    if not world.is_durable:
        # In memory there is one copy of the data: reads and the writer take turns.
        go_on.set()
    done = put(store, "s1", graph=chain("b"))
    go_on.set()
    thread.join()

    assert done.head_revision == 2
    assert len(found[0].graph.nodes) in ((1,) if world.is_durable else (1, 2))


def test_a_writer_stopped_in_its_section_holds_up_no_reader(world: World, store: Any) -> None:
    put(store, "s1", graph=chain("a"))

    with world.held(store, "s1") if world.is_durable else nullcontext():
        assert store.sessions.load("s1").head_revision == 1
        assert store.sessions.lease("s1") is None


def test_a_writer_stopped_in_its_section_holds_up_writers_for_wait_ms(world: World) -> None:
    store = impatient(world, 1)

    with world.held(store, "s1"), pytest.raises(Contention):
        lease_on(store, "s1", BOB)
    assert lease_on(store, "s1", BOB).generation == 2
