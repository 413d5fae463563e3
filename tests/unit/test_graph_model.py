"""Random operations on a few sessions, compared with a naive model after every step.

Ids come from a small pool, so that they collide, are removed and are used again.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from holdfast import (
    ANY,
    HoldfastError,
    Node,
    RuntimeCommit,
    SessionCreate,
    StartAt,
)
from holdfast.testing.world import World, make_world
from tests.unit.graph_draws import IDS, Draws, brief
from tests.unit.graph_model import ModelSession, Outcome, Refusal, Stored

SESSIONS = ["s1", "s2", "s3", "s4"]
RUNS = [("memory", seed, 220) for seed in range(8)]
RUNS += [("file", seed, 120) for seed in range(100, 102)]
RUNS += [("postgres", seed, 120) for seed in range(200, 203)]


@pytest.mark.invariant("INV-15", "INV-24")
@pytest.mark.parametrize(("database", "seed", "steps"), RUNS)
def test_the_store_agrees_with_the_model(database: str, seed: int, steps: int) -> None:
    with make_world(database, "blocking") as world:
        walk = Walk(world, seed)
        for _ in range(steps):
            walk.step()
        walk.leave_nothing()


class Walk:
    """A store and its model, moved through the same operations."""

    def __init__(self, world: World, seed: int) -> None:
        self.world = world
        self.store = world.open()
        self.model: dict[str, ModelSession] = {}
        self.random = random.Random(seed)
        self.draws = Draws(self.random)
        self.log: list[str] = []

    def step(self) -> None:
        actions = {
            self.commit: 60, self.tombstone: 12, self.fork: 8, self.start: 6,
            self.vacuum: 5, self.vacuum_all: 3, self.delete: 3,
        }  # fmt: skip
        (action,) = self.random.choices(list(actions), list(actions.values()))
        action(self.random.choice(SESSIONS))
        self.compare()

    def same(self, expected: Callable[[], Any], actual: Callable[[], Any], what: str) -> Any:
        """Do both; both answer, or both refuse for the same reason."""
        self.log.append(what)
        wanted, given = attempted(expected), attempted(actual)
        if isinstance(wanted, Refusal) or isinstance(given, Refusal):
            assert repr(wanted) == repr(given), self.told()
            return None
        return wanted, given

    def told(self) -> str:
        return "\n".join(["the last steps:", *self.log[-12:]])

    # --- operations --------------------------------------------------------------------

    def commit(self, session_id: str, **fields: Any) -> None:
        delta = self.draws.delta(self.model.get(session_id) or ModelSession())
        commit = RuntimeCommit(
            session_id=session_id, expected_head_revision=ANY, graph=delta, **fields
        )
        outcomes = self.same(
            lambda: self.expect_commit(session_id, delta, commit.create),
            lambda: self.store.sessions.commit_with_fresh_lease(commit),
            f"{session_id}: {brief(delta)} {create_of(commit)}",
        )
        if outcomes is None:
            return
        expected, result = outcomes
        removed = [node.node_id for node in result.removed_nodes]
        found = Outcome(result.head_revision, result.replayed, removed)
        assert found == expected, self.told()

    def expect_commit(self, session_id: str, delta: Any, create: SessionCreate | None) -> Outcome:
        before = self.model.get(session_id)
        if before is None:
            before = self.begun(create.start_at) if create and create.start_at else ModelSession()
        after, outcome = before.committed(delta)
        self.model[session_id] = after
        return outcome

    def begun(self, start: StartAt) -> ModelSession:
        places = self.holders(start.node_id)
        if start.session_id is not None:
            places = [place for place in places if place[0] == start.session_id]
        if not places:
            raise Refusal("graph_node_not_found")
        if len({id(node) for _, node in places}) > 1:
            raise Refusal("ambiguous_node")
        # Which of several sharers is asked is open; a start is only made where it makes no odds.
        return self.model[places[0][0]].started_at(places[0][1])

    def holders(self, node_id: str) -> list[tuple[str, Stored]]:
        return [(key, s.live[node_id]) for key, s in self.model.items() if node_id in s.live]

    def start(self, session_id: str) -> None:
        node_id = self.random.choice(IDS)
        source = self.random.choice([*SESSIONS, None])
        if source is None and len({id(node) for _, node in self.holders(node_id)}) == 1:
            source = self.holders(node_id)[0][0]
        create = SessionCreate(session_id=session_id, start_at=StartAt(node_id, source))
        self.commit(session_id, create=create)

    def fork(self, session_id: str) -> None:
        target, leaf = self.random.choice(SESSIONS), self.random.choice([None, None, *IDS])

        def expected() -> bool:
            source = self.model.get(session_id)
            if target == session_id or target in self.model:
                raise Refusal("invalid_argument", "session_exists")
            if source is None:
                return False
            if leaf is not None and leaf not in source.live:
                raise Refusal("graph_node_not_found")
            end = source.live[leaf] if leaf is not None else source.leaf
            made = source.started_at(end if source.sees(end) else None)
            made.revision = 1
            self.model[target] = made
            return True

        request = SessionCreate(session_id=target)
        outcomes = self.same(
            expected,
            lambda: self.store.sessions.fork(session_id, request, leaf=leaf) is not None,
            f"fork {session_id} as {target} at {leaf}",
        )
        assert outcomes is None or outcomes[0] == outcomes[1], self.told()

    def tombstone(self, session_id: str) -> None:
        ids = self.random.choices(IDS, k=self.random.randint(1, 3))
        self.log.append(f"{session_id}: tombstone {ids}")
        session = self.model.get(session_id)
        expected = session.tombstone(ids) if session else 0
        assert self.store.sessions.tombstone(session_id, ids) == expected, self.told()

    def vacuum(self, session_id: str) -> None:
        self.log.append(f"{session_id}: vacuum")
        session = self.model.get(session_id)
        expected = session.vacuum() if session else 0
        report = self.store.sessions.vacuum(session_id, limit=self.random.choice([1, 2, 1000]))
        assert report.removed_node_count == expected, self.told()

    def vacuum_all(self, _: str) -> None:
        self.log.append("vacuum")
        expected = sum(session.vacuum() for session in self.model.values())
        report = self.store.maintenance.vacuum(limit=self.random.choice([1, 3, 1000]))
        assert report.removed_node_count == expected, self.told()

    def delete(self, session_id: str) -> None:
        self.log.append(f"{session_id}: delete")
        known = self.model.pop(session_id, None) is not None
        assert self.store.sessions.delete(session_id).deleted == known, self.told()

    def leave_nothing(self) -> None:
        """Without sessions a vacuum leaves no row of any graph."""
        for session_id in SESSIONS:
            self.delete(session_id)
        self.store.maintenance.vacuum()
        for table in ("session", "node", "branch", "inherited", "hidden", "removal"):
            assert self.world.sql(self.store, f"SELECT count(*) FROM {{{table}}}") == [(0,)], table

    # --- comparing ---------------------------------------------------------------------

    def compare(self) -> None:
        for session_id in SESSIONS:
            self.compare_session(session_id, self.model.get(session_id))
        node_id = self.random.choice(IDS)
        self.compare_find(node_id)

    def compare_session(self, session_id: str, session: ModelSession | None) -> None:
        loaded = self.store.sessions.load(session_id)
        if session is None:
            assert loaded is None, self.told()
            return
        path = session.active_path()
        assert loaded.head_revision == session.revision, self.told()
        assert shown(loaded.graph.nodes) == rows(path), self.told()
        assert loaded.graph.leaf_node_id == session.leaf_id, self.told()
        assert loaded.leaf_missing == (session.leaf_id is not None and not path), self.told()
        assert not loaded.more, self.told()
        self.compare_last(session_id, path)
        self.compare_full(session_id, session)
        self.compare_summary(session_id, session)

    def compare_last(self, session_id: str, path: list[Stored]) -> None:
        last = self.random.randint(0, 5)
        loaded = self.store.sessions.load(session_id, last=last)
        assert shown(loaded.graph.nodes) == rows(path[max(len(path) - last, 0) :]), self.told()
        assert loaded.more == (len(path) > last), self.told()
        assert loaded.leaf_missing == (loaded.graph.leaf_node_id is not None and not path)

    def compare_full(self, session_id: str, session: ModelSession) -> None:
        loaded = self.store.sessions.load(session_id, scope="full_graph")
        assert shown(loaded.graph.nodes) == rows(session.full()), self.told()
        assert loaded.leaf_missing == (session.leaf_id not in {None, *session.live}), self.told()
        after = self.random.choice([0, 0, *(node.sequence for node in session.full())])
        page = self.store.sessions.list_nodes(session_id, after_sequence=after, limit=3)
        behind = [node for node in session.full() if node.sequence > after]
        assert (shown(page.nodes), page.more) == (rows(behind[:3]), len(behind) > 3), self.told()
        for node_id in self.random.sample(IDS, 2):
            node = self.store.sessions.load_node(session_id, node_id)
            stored = session.live.get(node_id)
            assert shown([node] if node else []) == rows([stored] if stored else []), self.told()
            if stored:
                path = self.store.sessions.load(session_id, leaf=node_id).graph.nodes
                assert shown(path) == rows(session.path_to(stored)), self.told()

    def compare_summary(self, session_id: str, session: ModelSession) -> None:
        line = self.store.sessions.picker_info(session_id)
        users = session.user_texts()
        assert line.node_count == len(session.live), self.told()
        assert line.user_message_count == len(users), self.told()
        assert line.first_user_message == (users[0] if users else ""), self.told()

    def compare_find(self, node_id: str) -> None:
        holders = self.holders(node_id)

        def expected() -> list[Any]:
            if len({id(node) for _, node in holders}) > 1:
                raise Refusal("ambiguous_node")
            return [rows(self.model[key].path_to(node)) for key, node in holders]

        outcomes = self.same(
            expected, lambda: self.store.sessions.find_path(node_id), f"find {node_id}"
        )
        self.log.pop()
        if outcomes is not None:
            paths, found = outcomes
            assert found is None if not paths else shown(found.nodes) in paths, self.told()


def attempted(action: Callable[[], Any]) -> Any:
    """What it answered, or how it was refused."""
    try:
        return action()
    except Refusal as refusal:
        return refusal
    except HoldfastError as error:
        return Refusal(error.code, getattr(error, "reason", None))


def create_of(commit: RuntimeCommit) -> str:
    start = commit.create.start_at if commit.create else None
    return f"start={start.session_id}/{start.node_id}" if start else ""


def shown(nodes: list[Node]) -> list[Any]:
    return [(node.node_id, node.parent_node_id, node.body, node.sequence) for node in nodes]


def rows(nodes: list[Stored]) -> list[Any]:
    return [(node.node_id, node.parent_id, node.body, node.sequence) for node in nodes]
