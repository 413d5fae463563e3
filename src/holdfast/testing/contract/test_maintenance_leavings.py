"""Section 15: what a vacuum leaves of graphs is what somebody can still meet."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast import Append, Node, SessionCreate, Splice, Unchanged
from holdfast.testing.contract.samples import chain, full_ids, message, path_ids, put
from holdfast.testing.world import World

TABLES = ("branch", "hidden", "inherited", "node")


def rows(world: World, store: Any) -> dict[str, int]:
    """How many rows of graphs there are, by table; those without any left out."""
    counts = {
        table: world.sql(store, f"SELECT count(*) FROM {{{table}}}")[0][0]  # noqa: S608
        for table in TABLES
    }
    return {table: count for table, count in counts.items() if count}


def fork(store: Any, source: str, target: str, leaf: str | None = None) -> None:
    """Another session with the path of one."""
    store.sessions.fork(source, SessionCreate(session_id=target), leaf=leaf)


def behind(parent: str | None, *node_ids: str) -> Append:
    """A chain of nodes behind one of any place."""
    nodes: list[Node] = []
    for node_id in node_ids:
        nodes.append(message(node_id, node_id, parent_node_id=parent))
        parent = node_id
    return Append(nodes)


@pytest.fixture(params=[1, 1_000], ids=["one by one", "at once"])
def limit(request: pytest.FixtureRequest) -> int:
    """How much a transaction of a vacuum does."""
    found: int = request.param
    return found


class TestInherited:
    """What a fork has let go of is its owner's, or nobody's, as if it had not been inherited."""

    @pytest.fixture(autouse=True)
    def template(self, store: Any) -> None:
        put(store, "s1", graph=chain("a", "b", "c", "d"))
        fork(store, "s1", "s2")

    def vacuum(self, store: Any, limit: int) -> None:
        store.maintenance.vacuum(limit=limit)
        store.maintenance.vacuum(limit=limit)

    def test_all_of_it_goes_with_its_owner(self, store: Any, world: World, limit: int) -> None:
        put(store, "s2", graph=Splice(0))
        store.sessions.delete("s1")

        self.vacuum(store, limit)

        assert rows(world, store) == {}
        put(store, "s2", graph=chain("a", "b"))
        assert path_ids(store, "s2") == ["a", "b"]

    def test_its_end_goes_with_its_owner(self, store: Any, world: World, limit: int) -> None:
        put(store, "s2", graph=Splice(2))
        store.sessions.delete("s1")

        self.vacuum(store, limit)

        assert rows(world, store) == {"branch": 1, "inherited": 1, "node": 2}
        put(store, "s2", graph=chain("c", "e"))
        assert path_ids(store, "s2") == ["a", "b", "c", "e"]

    def test_its_owner_removes_it(self, store: Any, world: World, limit: int) -> None:
        put(store, "s1", graph=Splice(1))
        put(store, "s2", graph=Splice(3))

        self.vacuum(store, limit)
        assert rows(world, store) == {"branch": 1, "inherited": 1, "node": 3, "hidden": 2}
        put(store, "s2", graph=Splice(0))
        self.vacuum(store, limit)

        assert rows(world, store) == {"branch": 1, "node": 1}
        assert (path_ids(store, "s1"), path_ids(store, "s2")) == (["a"], [])

    def test_what_another_fork_reads_stays(self, store: Any, world: World, limit: int) -> None:
        fork(store, "s2", "s3", leaf="c")
        put(store, "s2", graph=Splice(0))
        store.sessions.delete("s1")

        self.vacuum(store, limit)

        assert rows(world, store) == {"branch": 1, "inherited": 1, "node": 3}
        assert path_ids(store, "s3") == ["a", "b", "c"]
        assert full_ids(store, "s2") == []

    def test_a_tombstoned_node_may_still_be_revived(self, store: Any, limit: int) -> None:
        store.sessions.tombstone("s2", ["d"])
        put(store, "s2", graph=Unchanged("c"))
        store.sessions.vacuum("s1", limit=limit)

        put(store, "s2", graph=behind("c", "d"))

        assert path_ids(store, "s2") == ["a", "b", "c", "d"]

    def test_what_was_tombstoned_counts_as_removed(self, store: Any) -> None:
        put(store, "s2", graph=Splice(3))
        put(store, "s2", graph=Unchanged(None))
        store.sessions.tombstone("s2", ["a", "b", "c"])

        assert store.sessions.vacuum("s2", limit=2).removed_node_count == 3

    def test_only_an_end_goes(self, store: Any, world: World, limit: int) -> None:
        put(store, "s2", graph=Unchanged(None))
        store.sessions.tombstone("s2", ["b", "d"])

        self.vacuum(store, limit)

        assert full_ids(store, "s2") == ["a", "c"]
        assert world.sql(store, "SELECT start, upto FROM {inherited}") == [(0, 3)]

    def test_what_its_owner_lets_go_of_stays_gone(self, store: Any, limit: int) -> None:
        put(store, "s2", graph=Splice(1))
        put(store, "s1", graph=Splice(0))

        self.vacuum(store, limit)

        assert (full_ids(store, "s1"), full_ids(store, "s2")) == ([], ["a"])

    @pytest.mark.parametrize("reach", ["head", "branch", "inherited branch"])
    def test_as_far_as_a_path_leads_it_stays(
        self, store: Any, world: World, reach: str, limit: int
    ) -> None:
        reader = "s2"
        if reach == "head":
            store.sessions.tombstone("s2", ["c", "d"])
        else:
            put(store, "s2", graph=behind("c", "x", "y"))
            if reach == "inherited branch":
                reader = "s3"
                fork(store, "s2", "s3", leaf="y")
            store.sessions.tombstone(reader, ["b", "c", "d"])
        before = self.seen(store, reader)
        inherited = rows(world, store)["inherited"]

        self.vacuum(store, limit)

        assert self.seen(store, reader) == before
        assert rows(world, store)["inherited"] == inherited

    def seen(self, store: Any, session_id: str) -> list[Any]:
        loaded = [store.sessions.load(session_id, last=last) for last in (None, 0, 1, 2, 3)]
        ends = store.sessions.load(session_id, scope="full_graph").graph.nodes
        paths = [path_ids(store, session_id, leaf=node.node_id) for node in ends]
        return [*[(each.graph, each.more, each.leaf_missing) for each in loaded], paths]


class TestOwn:
    """What marks removed nodes, and branches that have none left, do not add up."""

    @pytest.mark.parametrize("length", [1, 3])
    def test_a_window_that_moves_on(
        self, store: Any, world: World, limit: int, length: int
    ) -> None:
        ids = [f"n{number}" for number in range(12)]
        put(store, "s1", graph=chain(*ids[:length]))
        for number in range(length, len(ids)):
            put(store, "s1", graph=chain(ids[number]))
            store.sessions.tombstone("s1", [ids[number - length]])
            assert store.sessions.vacuum("s1", limit=limit).removed_node_count == 1

            loaded = store.sessions.load("s1", last=length)
            window = ids[number - length + 1 : number + 1]
            assert ([node.node_id for node in loaded.graph.nodes], loaded.more) == (window, False)

        assert rows(world, store) == {"branch": 1, "hidden": 1, "node": length}

    def test_an_end_that_is_tried_again_and_again(
        self, store: Any, world: World, limit: int
    ) -> None:
        put(store, "s1", graph=chain("a"))
        for number in range(6):
            put(store, "s1", graph=chain(f"b{number}", f"c{number}"))
            store.sessions.tombstone("s1", [f"b{number}", f"c{number}"])
            store.sessions.vacuum("s1", limit=limit)
            assert store.sessions.load("s1").leaf_missing
            put(store, "s1", graph=Unchanged("a"))

        store.sessions.vacuum("s1", limit=limit)

        assert rows(world, store) == {"branch": 1, "node": 1}
        put(store, "s1", graph=chain("b0"))
        assert path_ids(store) == ["a", "b0"]
        assert rows(world, store) == {"branch": 1, "node": 2}

    def test_a_branch_of_its_own(self, store: Any, world: World, limit: int) -> None:
        put(store, "s1", graph=chain("a", "b"))
        put(store, "s1", graph=behind("a", "x", "y"))
        put(store, "s1", graph=behind("x", "z"))
        put(store, "s1", graph=Unchanged("b"))
        store.sessions.tombstone("s1", ["x", "y", "z"])

        store.sessions.vacuum("s1", limit=limit)

        assert rows(world, store) == {"branch": 1, "node": 2}

    def test_where_the_head_stands_stays_marked(self, store: Any, world: World, limit: int) -> None:
        put(store, "s1", graph=chain("a", "b", "c", "d"))
        put(store, "s1", graph=Unchanged("b"))
        store.sessions.tombstone("s1", ["a", "b", "c"])

        store.sessions.vacuum("s1", limit=limit)
        assert rows(world, store) == {"branch": 1, "hidden": 2, "node": 1}
        store.sessions.tombstone("s1", ["d"])
        store.sessions.vacuum("s1", limit=limit)

        assert store.sessions.load("s1").leaf_missing
        assert rows(world, store) == {"branch": 1, "hidden": 1}

    def test_a_branch_that_another_leaves_stays(self, store: Any, world: World, limit: int) -> None:
        put(store, "s1", graph=chain("a"))
        put(store, "s1", graph=behind("a", "b"))
        put(store, "s1", graph=Append([message("x", parent_node_id="a"), message("y")], leaf="y"))
        store.sessions.tombstone("s1", ["a", "b"])

        store.sessions.vacuum("s1", limit=limit)

        assert path_ids(store) == ["x", "y"]
        assert rows(world, store) == {"branch": 2, "hidden": 1, "node": 2}

    @pytest.mark.parametrize("gone", ["b", "bc", "cb", "abc", "bcd", "bd", "abcdx", "cdx"])
    def test_paths_end_where_they_ended(
        self, store: Any, world: World, limit: int, gone: str
    ) -> None:
        put(store, "s1", graph=chain(*"abcdef"))
        put(store, "s1", graph=behind("c", "x", "y"))
        put(store, "s1", graph=Unchanged("f"))
        store.sessions.tombstone("s1", list(gone))
        before = self.seen(store)

        for node_id in gone:
            store.sessions.vacuum("s1", limit=limit)
            assert self.seen(store) == before, node_id
        for node_id in set("abcdefxy") - set(gone):
            put(store, "s1", graph=behind(node_id, f"behind-{node_id}"))
            path = path_ids(store)
            assert path[-2:] == [node_id, f"behind-{node_id}"]
            assert path[:-1] == path_ids(store, leaf=node_id)
        put(store, "s1", graph=Unchanged("f"))
        assert self.seen(store)[:3] == before[:3]

    def seen(self, store: Any) -> list[Any]:
        loaded = [store.sessions.load("s1", last=last) for last in (None, 1, 2)]
        answers: list[Any] = [
            ([node.node_id for node in each.graph.nodes], each.more, each.leaf_missing)
            for each in loaded
        ]
        for node_id in full_ids(store):
            for last in (None, 1, 2):
                found = store.sessions.load("s1", leaf=node_id, last=last)
                answers.append(([node.node_id for node in found.graph.nodes], found.more))
        return answers
