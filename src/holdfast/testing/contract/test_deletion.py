"""Section 3.3: deleting a session, the whole story."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from holdfast import Child, HeadRevisionConflict, SessionBusy, SessionCreate, Splice
from holdfast.testing.contract import children
from holdfast.testing.contract.lanes import submit
from holdfast.testing.contract.samples import (
    ALICE,
    chain,
    commit,
    create,
    lease_on,
    path_ids,
    put,
)
from holdfast.testing.contract.whole import full, shown, shows_nothing
from holdfast.testing.processes import spawn, together
from holdfast.testing.world import World, racing

#: Tables whose rows say by another name than `session` whose they are.
OWNED = ("branch", "node")
#: Tables whose rows are no session's.
OF_NOBODY = {
    "blob",
    "artifact",
    "process",
    "attachment_bytes",
    "attachment_chunk",
    "attachment_staging",
    "store_name",
}


def rows_of(world: World, store: Any, key: int) -> dict[str, int]:
    """How many rows each table has of a session, by its key."""
    counts = {}
    for table in world.tables(store):
        column = {"session": "key"}.get(table, "owner" if table in OWNED else "session")
        if table not in OF_NOBODY:
            text = f"SELECT count(*) FROM {{{table}}} WHERE {column} = ?"  # noqa: S608
            counts[table] = world.sql(store, text, key)[0][0]
    return {table: count for table, count in counts.items() if count}


def key_of(world: World, store: Any, session_id: str = "s1") -> int:
    """The session's key in the database."""
    key: int = world.sql(store, "SELECT key FROM {session} WHERE id = ?", session_id)[0][0]
    return key


@pytest.mark.scenario("FAC-T17")
def test_nothing_shows_a_deleted_session_and_no_table_keeps_it(world: World, store: Any) -> None:
    full(store)
    key = key_of(world, store)
    areas = {*world.tables(store)} - OF_NOBODY - {"inherited", "removal"}
    assert set(rows_of(world, store, key)) == areas

    report = store.sessions.delete("s1")

    assert (report.deleted, report.session_count) == (True, 1)
    assert shows_nothing(store)
    assert store.sessions.find_path("a") is None
    store.maintenance.vacuum()
    store.maintenance.collect_garbage()
    assert not any(world.dump(store).values())


@pytest.mark.invariant("INV-26")
@pytest.mark.scenario("FAC-T17")
def test_a_fork_of_a_deleted_session_is_as_before(world: World, store: Any) -> None:
    full(store)
    key = key_of(world, store)
    put(store, "other", graph=chain("a"))
    store.artifacts.put("space", "name", b"content")
    store.sessions.fork("s1", SessionCreate(session_id="f"))
    put(store, "f", graph=chain("e"))
    before = [store.sessions.load(id) for id in ("f", "other")]
    listed = [store.sessions.picker_info(id) for id in ("f", "other")]

    store.sessions.delete("s1")
    assert [store.sessions.load(id) for id in ("f", "other")] == before
    store.maintenance.vacuum()
    store.maintenance.collect_garbage()

    assert [store.sessions.load(id) for id in ("f", "other")] == before
    assert [store.sessions.picker_info(id) for id in ("f", "other")] == listed
    assert store.artifacts.get("space", "name") == b"content"
    assert set(rows_of(world, store, key)) <= set(OWNED)
    store.sessions.delete("f")
    store.maintenance.vacuum()
    assert rows_of(world, store, key) == {}


@pytest.mark.scenario("FAC-T5")
def test_deleting_twice_says_so(store: Any) -> None:
    put(store, "s1", graph=chain("a"))
    submit(store, "hi")
    lease_on(store, "s1", ttl_ms=0)

    first, second = store.sessions.delete("s1"), store.sessions.delete("s1")

    assert (first.deleted, second.deleted) == (True, False)
    assert store.sessions.open("s1") is None
    assert store.inputs.list("s1") == []


@pytest.mark.scenario("FAC-T5")
def test_what_only_has_an_input_can_be_deleted(store: Any) -> None:
    submit(store, "early")
    assert store.sessions.open("s1") is None

    first, second = store.sessions.delete("s1"), store.sessions.delete("s1")

    assert (first.deleted, second.deleted) == (True, False)
    assert store.inputs.list("s1") == []
    assert store.queue.ready_sessions() == []


def test_deleting_what_never_was_says_so(world: World, store: Any) -> None:
    create(store, "other")
    before = world.dump(store)

    assert not store.sessions.delete("s1").deleted

    assert world.dump(store) == before


@pytest.mark.invariant("INV-31")
@pytest.mark.scenario("FAC-T6")
def test_a_recreated_session_is_a_clean_slate(store: Any) -> None:
    full(store)
    store.sessions.delete("s1")

    view = create(store, model="new")

    meta = view.load_meta()
    assert (meta.model, meta.labels, meta.scope, meta.session_name) == ("new", {}, (), "s1")
    assert view.load() is None
    held = view.claim_lease(ALICE, 30_000)
    assert (held.lease.generation, held.displaced) == (1, None)
    done = view.commit(commit("s1", graph=chain("x"), session_execution_lease=held.lease))
    assert done.head_revision == 1
    loaded = view.load(scope="full_graph")
    assert [node.node_id for node in loaded.graph.nodes] == ["x"]
    assert (loaded.graph.nodes[0].sequence, loaded.token_ledger, loaded.config) == (1, [], {})
    assert (loaded.checkpoint, loaded.agent_frames) == (None, [])
    assert view.load_turn_commit("t1") is None
    assert (view.inputs.list(), view.queue.list()) == ([], [])
    assert store.queue.ready_sessions() == []


@pytest.mark.scenario("FAC-T8")
def test_a_leased_session_is_not_deleted_unless_by_force(world: World, store: Any) -> None:
    full(store)
    held = lease_on(store, "s1", ALICE)
    before = world.dump(store)

    with pytest.raises(SessionBusy) as refused:
        store.sessions.delete("s1")

    assert refused.value.holder.owner == ALICE
    assert refused.value.holder.generation == held.generation
    assert world.dump(store) == before
    assert store.sessions.delete("s1", force=True).deleted
    assert shows_nothing(store)


def test_a_deletion_may_expect_a_revision(world: World, store: Any) -> None:
    put(store, "s1", graph=chain("a"))
    before = world.dump(store)

    with pytest.raises(HeadRevisionConflict) as refused:
        store.sessions.delete("s1", expect=2)

    assert refused.value.actual == 1
    assert world.dump(store) == before
    assert store.sessions.delete("s1", expect=1).deleted


def test_parents_and_children_of_a_deleted_session_stay(store: Any) -> None:
    create(store, "parent")
    create(store, "s1", relation=Child("parent"))
    create(store, "child", relation=Child("s1"))

    store.sessions.delete("s1")

    assert {line.session_id for line in store.sessions.list().sessions} == {"parent", "child"}
    assert store.sessions.load_meta("child").relation == Child("s1")


@pytest.mark.invariant("INV-2")
@pytest.mark.scenario("FAC-T18")
def test_a_deletion_killed_anywhere_leaves_all_or_nothing(world: World) -> None:
    """Every moment of it, in processes that die there; in memory a failure stands for death."""
    if world.is_durable:
        worker = spawn(world, children.die_in_every_deletion, *_recipe(world))
        found = together(worker)[0]
    else:
        found = list(_fail_everywhere(world, world.open()))
    *cut, (ended, left) = found

    assert (ended, left) == ("ended", "none")
    assert len(cut) >= 2 * len(("family", "enter_sections", "delete_sessions", "commit"))
    assert {how for how, _ in cut} == {"cut"}
    assert {left for _, left in cut} == {"all", "none"}
    firsts = [left for left, _ in itertools.groupby(left for _, left in cut)]
    assert firsts == ["all", "none"], "a later moment undid what an earlier one had settled"


def _recipe(world: World) -> tuple[str, dict[str, Any]]:
    return world.url, {"schema": world.schema} if world.is_server else {}


def _fail_everywhere(world: World, store: Any) -> Iterator[tuple[str, str]]:
    for moment in itertools.count():
        if shows_nothing(store):
            full(store)
        before = shown(store)
        ended = _fail_at(world.backend(store), moment, store)
        left = "none" if shows_nothing(store) else "all"
        assert left == "none" or shown(store) == before
        yield ("ended" if ended else "cut"), left
        if ended:
            return


def _fail_at(backend: Any, moment: int, store: Any) -> bool:
    moments = itertools.count()

    def fail(_name: str, _when: str) -> None:
        if next(moments) == moment:
            raise InterruptedError

    backend.on_statement = fail
    try:
        store.sessions.delete("s1")
    except InterruptedError:
        return False
    finally:
        backend.on_statement = None
    return True


@pytest.mark.scenario("FAC-T19")
def test_deletions_racing_commits_leave_only_what_came_later(world: World, store: Any) -> None:
    create(store, "keep")

    def work(number: int) -> None:
        for turn_number in range(12):
            if number < 2:
                store.sessions.delete("s1")
            elif number == 2:
                put(store, "s1", graph=Splice(0))
            else:
                put(store, "s1", graph=chain(f"{number}-{turn_number}"))

    answers = racing(6, work)

    assert answers == [None] * 6, "an error reached a caller"
    loaded = store.sessions.load("s1")
    if loaded is not None:
        assert loaded.head_revision <= 4 * 12
        sequences = [node.sequence for node in loaded.graph.nodes]
        assert sequences == sorted(set(sequences))
        assert store.sessions.picker_info("s1").node_count == len(loaded.graph.nodes)
    store.sessions.delete("s1")
    put(store, "s1", graph=chain("last"))
    assert path_ids(store) == ["last"]
    store.maintenance.vacuum()
    keys = {key_of(world, store), key_of(world, store, "keep")}
    for table, column in (("node", "owner"), ("branch", "owner"), ("listing", "session")):
        text = f"SELECT DISTINCT {column} FROM {{{table}}}"  # noqa: S608
        assert {key for (key,) in world.sql(store, text)} <= keys
    assert world.sql(store, "SELECT count(*) FROM {node}") == [(1,)]
