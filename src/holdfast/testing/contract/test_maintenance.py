"""Section 15: levers of the host."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from typing import Any, ClassVar

import pytest

from holdfast import (
    Append,
    InvalidArgument,
    LoadScope,
    ReplaceFull,
    SessionCreate,
    Splice,
    VacuumReport,
)
from holdfast.testing.contract.lanes import queued, said, work
from holdfast.testing.contract.samples import (
    chain,
    checkpoint,
    commit,
    lease_on,
    message,
    path_ids,
    put,
    turn,
)
from holdfast.testing.world import World, racing


class TestVacuum:
    """MNT-1: tombstoned nodes go for good."""

    @pytest.mark.scenario("MNT-T1")
    def test_a_tombstoned_node_is_removed_once(self, store: Any, world: World) -> None:
        for session_id in ("s1", "s2"):
            put(store, session_id, graph=chain(f"{session_id}-a", f"{session_id}-b"))
            store.sessions.tombstone(session_id, [f"{session_id}-b"])

        assert store.sessions.vacuum("s1").removed_node_count == 1
        assert store.sessions.vacuum("s1").removed_node_count == 0

        stored = world.sql(store, "SELECT node_id FROM {node} ORDER BY node_id")
        assert stored == [("s1-a",), ("s2-a",), ("s2-b",)]
        assert store.sessions.vacuum("s2").removed_node_count == 1

    def test_live_nodes_stay(self, store: Any) -> None:
        put(store, "s1", graph=chain("a", "b", "c"))
        store.sessions.tombstone("s1", ["c"])

        store.sessions.vacuum("s1")

        assert path_ids(store, scope=LoadScope.FULL_GRAPH) == ["a", "b"]

    def test_on_the_store_it_vacuums_every_session(self, store: Any) -> None:
        for session_id in ("s1", "s2", "s3"):
            put(store, session_id, graph=chain(f"{session_id}-a"))
            store.sessions.tombstone(session_id, [f"{session_id}-a"])

        assert store.maintenance.vacuum(limit=2).removed_node_count == 3
        assert store.maintenance.vacuum().removed_node_count == 0

    def test_it_removes_what_nobody_reaches_any_more(self, store: Any, world: World) -> None:
        put(store, "s1", graph=chain("a", "b", "c"), turn_commit=turn("t1"))
        put(store, "s2", graph=chain("x", "y"))
        put(store, "s2", graph=ReplaceFull([message("z")]))
        store.sessions.delete("s1")

        assert store.maintenance.vacuum().removed_unreachable_count > 0

        assert world.sql(store, "SELECT node_id FROM {node}") == [("z",)]
        assert world.sql(store, "SELECT * FROM {turn_commit}") == []
        assert path_ids(store, "s2") == ["z"]
        assert store.maintenance.vacuum().removed_unreachable_count == 0

    @pytest.mark.invariant("INV-26")
    def test_what_a_fork_reads_stays(self, store: Any) -> None:
        put(store, "s1", graph=chain("a", "b", "c"))
        store.sessions.fork("s1", SessionCreate(session_id="s2"), leaf="b")
        store.sessions.delete("s1")

        store.maintenance.vacuum()

        assert path_ids(store, "s2") == ["a", "b"]

    def test_what_was_shared_goes_once_nobody_else_reads_it(self, store: Any, world: World) -> None:
        put(store, "s1", graph=chain("a", "b", "c"))
        store.sessions.fork("s1", SessionCreate(session_id="s2"))
        put(store, "s1", graph=Splice(1))
        store.maintenance.vacuum()
        assert path_ids(store, "s2") == ["a", "b", "c"]
        store.sessions.delete("s2")
        store.maintenance.vacuum()  # first what a deleted session inherited ...

        report = store.sessions.vacuum("s1")  # ... then what it alone kept

        assert report.removed_node_count == 0
        assert world.sql(store, "SELECT node_id FROM {node}") == [("a",)]
        assert path_ids(store, "s1") == ["a"]

    def test_stamps_and_blobs_stay(self, store: Any) -> None:
        put(store, "s1", graph=chain("a"), checkpoint=checkpoint(tool_state=b"t"))
        put(store, "s1", turn_commit=turn("t1"))
        orphan = store.blobs.put(b"orphan")

        store.maintenance.vacuum()

        assert store.sessions.load_turn_commit("s1", "t1") is not None
        assert store.blobs.has(orphan)

    def test_queued_work_and_its_receipts_stay(self, store: Any) -> None:
        drafts = [work("done", source_key="done"), work("claimed"), work("waits")]
        store.queue.enqueue_many(drafts)
        lease = lease_on(store, "s1")
        done, claimed = store.queue.claim(lease), store.queue.claim(lease)
        under = {"session_execution_lease": lease}
        store.sessions.commit(commit("s1", completed_queue_claims=[done], **under))

        store.maintenance.vacuum()
        store.sessions.vacuum("s1")

        assert queued(store) == ["claimed", "waits"]
        assert store.queue.enqueue(drafts[0]).settled
        store.sessions.commit(commit("s1", completed_queue_claims=[claimed], **under))
        assert queued(store) == ["waits"]


class TestPruningOfTurns:
    """MNT-5: old stamps are dropped, the newest stay."""

    @pytest.fixture(autouse=True)
    def turns(self, store: Any, world: World) -> None:
        for number in range(1, 6):
            self.take(store, number)
            world.clock.advance(10)

    def take(self, store: Any, number: int, **fields: Any) -> Any:
        return put(store, "s1", graph=chain(f"n{number}"), turn_commit=turn(f"t{number}"), **fields)

    def left(self, store: Any) -> list[int]:
        turns = range(1, 6)
        return [n for n in turns if store.sessions.load_turn_commit("s1", f"t{n}") is not None]

    @pytest.mark.scenario("MNT-T3")
    def test_the_newest_still_replays(self, store: Any, world: World) -> None:
        assert store.sessions.prune_turn_commits("s1", world.clock.now_ms()) == 4

        assert self.left(store) == [5]
        assert self.take(store, 5).replayed
        assert store.sessions.prune_turn_commits("s1", world.clock.now_ms()) == 0

    @pytest.mark.scenario("MNT-T3")
    def test_a_pruned_one_applies_as_new(self, store: Any, world: World) -> None:
        store.sessions.prune_turn_commits("s1", world.clock.now_ms())

        again = put(store, "s1", graph=chain("new"), turn_commit=turn("t1"))

        assert (again.replayed, again.head_revision) == (False, 6)
        assert path_ids(store)[-1] == "new"

    def test_only_those_from_before_the_instant_go(self, store: Any, world: World) -> None:
        third = store.sessions.load_turn_commit("s1", "t3").committed_at_ms

        assert store.sessions.prune_turn_commits("s1", third) == 2

        assert self.left(store) == [3, 4, 5]

    @pytest.mark.parametrize(("keep", "left"), [(0, [5]), (1, [5]), (3, [3, 4, 5]), (9, None)])
    def test_the_newest_that_are_asked_for_stay(
        self, store: Any, world: World, keep: int, left: list[int] | None
    ) -> None:
        store.sessions.prune_turn_commits("s1", world.clock.now_ms(), keep_latest=keep)

        assert self.left(store) == (left or [1, 2, 3, 4, 5])

    def test_on_the_store_it_keeps_the_newest_of_each_session(
        self, store: Any, world: World
    ) -> None:
        put(store, "s2", turn_commit=turn("only", "s2"))
        world.clock.advance(10)

        assert store.maintenance.prune_turn_commits(world.clock.now_ms(), limit=2) == 4

        assert self.left(store) == [5]
        assert store.sessions.load_turn_commit("s2", "only") is not None

    def test_it_cannot_keep_fewer_than_none(self, store: Any, world: World) -> None:
        with pytest.raises(InvalidArgument) as refused:
            store.sessions.prune_turn_commits("s1", world.clock.now_ms(), keep_latest=-1)

        assert refused.value.field == "keep_latest"


class TestLeversOverTheStore:
    """MNT-6: they meet the sessions for which there is something to do, and no others."""

    #: Each lever, and what makes one session due for it.
    LEVERS: ClassVar[dict[str, tuple[Callable[..., Any], Callable[[Any, str], Any]]]] = {
        "nodes": (
            lambda store, _: store.maintenance.vacuum(),
            lambda store, id: store.sessions.tombstone(id, ["a"]),
        ),
        "inputs": (
            lambda store, _: store.maintenance.vacuum(),
            lambda store, id: store.inputs.cancel(id, [f"{id}-input"]),
        ),
        "stamps": (
            lambda store, now_ms: store.maintenance.prune_turn_commits(now_ms),
            lambda store, id: put(store, id, turn_commit=turn("t2", id)),
        ),
        "receipts": (
            lambda store, now_ms: store.maintenance.prune_settled_source_keys(now_ms),
            lambda store, id: complete(store, id),
        ),
    }

    @pytest.mark.parametrize("name", LEVERS)
    def test_idle_sessions_cost_nothing(self, store: Any, world: World, name: str) -> None:
        pull, make_due = self.LEVERS[name]

        def statements() -> Counter[str]:
            counts = world.backend(store).counts
            counts.clear()
            pull(store, world.clock.advance(10) + 1)
            return Counter(counts)

        for session_id in ("s1", "s2"):
            idle(store, session_id)
        for_two = statements()
        for number in range(3, 13):
            idle(store, f"s{number}")
        assert statements() == for_two

        make_due(store, "s5")
        once = statements()

        assert sum((once - for_two).values()) > 0
        assert statements() == for_two

    def test_pages_of_sessions_follow_each_other(
        self, store: Any, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("holdfast.operations.levers.BATCH", 2)
        for number in range(7):
            idle(store, f"s{number}")
        for name in self.LEVERS:
            for number in range(7):
                self.LEVERS[name][1](store, f"s{number}")
        store.sessions.delete("s3")
        now_ms = world.clock.advance(10) + 1

        report = store.maintenance.vacuum(limit=1)

        assert (report.removed_node_count, report.removed_turn_input_count) == (6, 6)
        assert store.maintenance.prune_turn_commits(now_ms, limit=1) == 6
        assert store.maintenance.prune_settled_source_keys(now_ms, limit=1) == 6


def idle(store: Any, session_id: str) -> None:
    """A session with something of everything, of which no lever may remove a thing."""
    put(store, session_id, graph=chain("a", "b"), turn_commit=turn("t1", session_id))
    store.queue.enqueue(work("waits", session_id, source_key="waits"))
    store.inputs.enqueue(said("waits", session_id=session_id, input_id=f"{session_id}-input"))


def complete(store: Any, session_id: str) -> None:
    """Settle the session's queued work."""
    lease = lease_on(store, session_id)
    done = {"completed_queue_claims": [store.queue.claim(lease)]}
    store.sessions.commit(commit(session_id, session_execution_lease=lease, **done))
    store.sessions.release_lease(lease)


WRITERS = 3
COMMITS = 20


@pytest.mark.scenario("MNT-T5")
def test_beside_commits_every_lever_finishes_and_no_commit_is_lost(
    store: Any, world: World
) -> None:
    for number in range(WRITERS):
        put(store, f"s{number}")
    end_ms = world.clock.now_ms() + 1
    levers: list[Callable[[], Any]] = [
        lambda: store.maintenance.vacuum(limit=3),
        lambda: store.sessions.vacuum("s0", limit=1),
        lambda: store.maintenance.prune_turn_commits(end_ms, limit=3),
        lambda: store.sessions.prune_turn_commits("s0", end_ms, limit=1),
        lambda: store.maintenance.collect_garbage(limit=3),
        lambda: store.maintenance.prune_settled_source_keys(end_ms, limit=3),
        lambda: store.sessions.prune_settled_source_keys("s0", end_ms, limit=1),
    ]
    writing, unfinished = threading.Event(), set(range(WRITERS))

    def write(number: int) -> int:
        try:
            for each in range(COMMITS):
                settle(store, f"s{number}", each)
            return COMMITS
        finally:
            unfinished.discard(number)
            if not unfinished:
                writing.set()

    def pull(lever: Callable[[], Any]) -> int:
        pulled = 0
        while not writing.is_set() or not pulled:
            lever()
            pulled += 1
        return pulled

    def race(number: int) -> int:
        return write(number) if number < WRITERS else pull(levers[number - WRITERS])

    outcomes = racing(WRITERS + len(levers), race)

    assert outcomes[:WRITERS] == [COMMITS] * WRITERS
    assert all(isinstance(pulled, int) and pulled > 0 for pulled in outcomes[WRITERS:]), outcomes
    store.maintenance.vacuum()
    store.maintenance.prune_settled_source_keys(end_ms)
    assert world.sql(store, "SELECT count(*) FROM {work}") == [(0,)]
    assert world.sql(store, "SELECT count(*) FROM {turn_input}") == [(0,)]
    for number in range(WRITERS):
        assert path_ids(store, f"s{number}", scope=LoadScope.FULL_GRAPH) == list(
            map(str, range(COMMITS))
        )
        loaded = store.sessions.load(f"s{number}")
        assert loaded.head_revision == COMMITS + 1
        assert [node.node_id for node in loaded.graph.nodes] == [str(n) for n in range(COMMITS)]
        assert loaded.checkpoint.components["tool_state"] == str(COMMITS - 1).encode()


def settle(store: Any, session_id: str, number: int) -> None:
    """One turn of a batch and an input, with a node beside the path that is tombstoned at once."""
    taken, aside = str(number), f"aside-{number}"
    store.queue.enqueue(work(taken, session_id, source_key=taken))
    store.inputs.enqueue(said(taken, session_id=session_id, source_key=taken))
    lease = lease_on(store, session_id)
    store.sessions.commit(
        commit(
            session_id,
            session_execution_lease=lease,
            release_session_execution_lease=True,
            completed_queue_claims=[store.queue.claim(lease)],
            completed_turn_input_claims=[store.inputs.claim_next(lease)],
            graph=Append([message(taken), message(aside)], leaf=taken),
            turn_commit=turn(f"t{number}", session_id),
            checkpoint=checkpoint(number, tool_state=taken.encode()),
        )
    )
    store.sessions.tombstone(session_id, [aside])


@pytest.mark.parametrize("lever", ["vacuum", "prune"])
def test_a_views_lever_leaves_a_session_that_took_the_place_of_its_own(
    world: World, store: Any, monkeypatch: pytest.MonkeyPatch, lever: str
) -> None:
    """FAC-9, between the lever's first look and its first batch."""
    real = world.real(store)
    put(store, "s1", graph=chain("a"))
    view = store.session("s1")
    view.load_meta()
    far = world.clock.advance(1_000) + 1_000
    run = real._core.run

    def run_and_replace(work: Any) -> Any:
        found = run(work)
        if work.name == "read_lease":
            monkeypatch.undo()
            real.sessions.delete("s1")
            for number in (1, 2):
                put(real, "s1", graph=chain(f"n{number}"), turn_commit=turn(f"t{number}"))
            real.sessions.tombstone("s1", ["n1"])
        return found

    monkeypatch.setattr(real._core, "run", run_and_replace)
    done = view.vacuum() if lever == "vacuum" else view.prune_turn_commits(far)

    assert done in (0, VacuumReport(removed_node_count=0))
    assert store.sessions.load_turn_commit("s1", "t1") is not None
    assert ("n1",) in world.sql(store, "SELECT node_id FROM {node}")
