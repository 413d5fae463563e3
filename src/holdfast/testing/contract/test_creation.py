"""Extensions 2: sessions made by a commit, and paths that begin elsewhere (EXT-11)."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast import (
    Fork,
    GraphNodeNotFound,
    HeadRevisionConflict,
    SessionBusy,
    SessionCreate,
    StartAt,
)
from holdfast.testing.contract.samples import (
    ALICE,
    chain,
    checkpoint,
    commit,
    create,
    lease_on,
    path_ids,
    put,
)
from holdfast.testing.world import World, racing

CONTENTS: dict[str, dict[str, Any]] = {"light": {}, "whole": {"checkpoint": checkpoint()}}


def made(session_id: str, **fields: Any) -> SessionCreate:
    """A request for a session."""
    return SessionCreate(session_id=session_id, **fields)


def several(world: World, count: int) -> list[Any]:
    """Stores on the one database; in memory one store for all."""
    if world.is_durable:
        return [world.open() for _ in range(count)]
    return [world.open()] * count


@pytest.mark.scenario("EXT-T12")
@pytest.mark.parametrize("content", CONTENTS)
def test_of_two_creators_one_wins_and_its_scope_stays(world: World, content: str) -> None:
    stores = several(world, 2)

    def act(number: int) -> Any:
        request = made("s1", scope=(f"by-{number}",), labels={"by": f"{number}"})
        fields = CONTENTS[content] | {"graph": chain(f"n{number}"), "create": request}
        return put(stores[number], "s1", expected_head_revision=0, **fields)

    outcomes = racing(2, act)

    (loser,) = (n for n, each in enumerate(outcomes) if isinstance(each, HeadRevisionConflict))
    winner = 1 - loser
    assert outcomes[loser].actual == outcomes[winner].head_revision == 1
    meta = stores[0].sessions.load_meta("s1")
    assert (meta.scope, meta.labels) == ((f"by-{winner}",), {"by": f"{winner}"})
    assert path_ids(stores[0]) == [f"n{winner}"]


@pytest.mark.parametrize("content", CONTENTS)
def test_a_request_for_a_known_session_is_ignored(store: Any, content: str) -> None:
    create(store, "s1", scope=("first",))

    put(store, "s1", create=made("s1", scope=("second",)), **CONTENTS[content])

    assert store.sessions.load_meta("s1").scope == ("first",)


def test_a_commit_may_begin_where_another_session_is(world: World, store: Any) -> None:
    put(store, "source", graph=chain("a", "b", "c"))
    stored = world.sql(store, "SELECT count(*) FROM {node}")

    put(store, "s1", create=made("s1", start_at=StartAt("b", "source")), graph=chain("d"))

    assert path_ids(store) == ["a", "b", "d"]
    assert path_ids(store, "source") == ["a", "b", "c"]
    relation = store.sessions.load_meta("s1").relation
    assert isinstance(relation, Fork)
    assert (relation.parent_session_id, relation.from_node_id) == ("source", "b")
    assert world.sql(store, "SELECT count(*) FROM {node}") == [(stored[0][0] + 1,)]


def test_a_beginning_that_is_not_there_makes_nothing(world: World, store: Any) -> None:
    put(store, "source", graph=chain("a"))
    before = world.dump(store)

    for start in (StartAt("nowhere"), StartAt("nowhere", "source"), StartAt("a", "nobody")):
        with pytest.raises(GraphNodeNotFound):
            put(store, "s1", create=made("s1", start_at=start), graph=chain("d"))

    assert world.dump(store) == before


@pytest.mark.scenario("EXT-T12")
@pytest.mark.parametrize("named", [True, False], ids=["named", "unnamed"])
def test_a_beginning_that_a_deletion_races_is_whole_or_not_there(world: World, named: bool) -> None:
    stores = several(world, 2)
    for number in range(8):
        source, target = f"source-{number}", f"target-{number}"
        ids = [f"{name}-{number}" for name in "abc"]
        put(stores[0], source, graph=chain(*ids))
        start = StartAt(ids[1], source if named else None)
        request = made(target, start_at=start)

        def act(who: int, source: str = source, request: SessionCreate = request) -> Any:
            if who == 0:
                return stores[0].sessions.delete(source)
            return put(stores[1], request.session_id, create=request, graph=chain("mine"))

        _, begun = racing(2, act)

        loaded = stores[0].sessions.load(target)
        if isinstance(begun, GraphNodeNotFound):
            assert loaded is None
        else:
            assert begun.head_revision == 1
            assert path_ids(stores[0], target) == [*ids[:2], "mine"]


@pytest.mark.scenario("EXT-T12")
@pytest.mark.parametrize("forks", [1, 0], ids=["a fork left", "nobody left"])
def test_a_beginning_is_looked_for_again_where_who_had_it_is_deleted_first(
    world: World, forks: int
) -> None:
    if not world.is_server:
        pytest.skip("an embedded store finds and locks at once")
    store, other = world.open(), world.real(world.open())
    put(store, "source", graph=chain("a", "b"))
    for number in range(forks):
        store.sessions.fork("source", made(f"fork-{number}"))

    def meddle(name: str, when: str) -> None:
        if (name, when) == ("find_nodes", "after"):
            other.sessions.delete("source")

    world.backend(store).on_statement = meddle
    request = made("s1", start_at=StartAt("b"))

    if not forks:
        with pytest.raises(GraphNodeNotFound):
            put(store, "s1", create=request, graph=chain("mine"))
        assert store.sessions.load("s1") is None
        return
    put(store, "s1", create=request, graph=chain("mine"))
    assert path_ids(store) == ["a", "b", "mine"]
    assert store.sessions.load_meta("s1").relation == Fork("fork-0", "b", 1)


def test_who_holds_the_lease_and_the_head_are_judged_before_the_beginning(store: Any) -> None:
    nowhere = made("s1", start_at=StartAt("nowhere"))
    with pytest.raises(HeadRevisionConflict):
        put(store, "s1", create=nowhere, expected_head_revision=1)

    held = lease_on(store, "s1", ALICE)
    with pytest.raises(SessionBusy):
        put(store, "s1", create=nowhere)
    with pytest.raises(GraphNodeNotFound):
        store.sessions.commit(commit("s1", create=nowhere, session_execution_lease=held))


def test_a_beginning_elsewhere_takes_four_trips_and_one_more_to_find_it(
    world: World, store: Any
) -> None:
    put(store, "source", graph=chain("a", "b"))
    counts = world.backend(store).counts
    for session_id, source, budget in (("s1", "source", 4), ("s2", None, 5)):
        counts.clear()
        put(
            store,
            session_id,
            create=made(session_id, start_at=StartAt("b", source)),
            graph=chain("c"),
            checkpoint=checkpoint(),
        )
        if world.is_server:
            assert counts["trips"] == budget
        assert counts["transactions"] == 1
