"""Section 3.2: sessions that are made, found, and made again."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from holdfast import Child, Root, SessionCreate
from holdfast.testing.clock import ManualClock
from holdfast.testing.contract import children
from holdfast.testing.contract.catalogue import a_meta
from holdfast.testing.contract.samples import chain, create, lease_on, path_ids, put
from holdfast.testing.processes import spawn, together
from holdfast.testing.world import World, racing


@pytest.mark.scenario("FAC-T1")
def test_looking_for_an_unknown_session_adds_nothing(world: World, store: Any) -> None:
    create(store, "other")
    before = world.dump(store)
    files = _files(world)

    assert store.sessions.open("s1") is None

    assert world.dump(store) == before
    assert _files(world) == files


def _files(world: World) -> list[str]:
    if world.database != "file":
        return []
    return sorted(each.name for each in world.path.parent.iterdir())


def test_a_session_with_a_lease_alone_is_not_known(store: Any) -> None:
    lease_on(store, "s1")

    assert store.sessions.open("s1") is None
    assert store.sessions.list().sessions == []


@pytest.mark.scenario("FAC-T2")
def test_a_created_session_shows_its_request(world: World, store: Any) -> None:
    cause = {"call": 7}
    view = create(store, relation=Child("parent", cause), model="m")

    meta = view.load_meta()

    assert (meta.session_id, meta.session_name, meta.model) == ("s1", "s1", "m")
    assert meta.relation == Child("parent", cause)
    assert meta.created_at_ms == world.clock.now_ms() > 0
    assert meta.cwd is None
    assert store.sessions.open("s1").load_meta() == meta
    again = world.open() if world.is_durable else store
    assert again.sessions.open("s1").load_meta() == meta


@pytest.mark.scenario("FAC-T3")
def test_creating_a_known_session_keeps_what_is_stored(store: Any, clock: ManualClock) -> None:
    create(store, relation=Child("parent"), model="m", labels={"a": "b"}, scope=("x",))
    store.sessions.save_meta(a_meta("s1"))
    edited = store.sessions.load_meta("s1")
    clock.advance(1_000)

    again = create(
        store,
        relation=Root(),
        model="n",
        session_name="n",
        cwd="/n",
        scope=("n",),
        labels={"n": ""},
    )

    assert again.load_meta() == edited
    assert edited.session_name == "named"


@pytest.mark.scenario("FAC-T4")
def test_16_creators_of_one_session_agree(world: World, store: Any) -> None:
    stores = [world.open() for _ in range(4)] if world.is_durable else [store]

    def make(number: int) -> Any:
        request = SessionCreate(session_id="s1", model=f"m{number}", labels={"n": str(number)})
        return stores[number % len(stores)].sessions.create(request).load_meta()

    answers = racing(16, make)

    assert len({(meta.model, meta.labels["n"]) for meta in answers}) == 1
    assert all(meta == answers[0] for meta in answers)
    assert len(store.sessions.list().sessions) == 1


def test_a_first_commit_makes_a_session_known(store: Any) -> None:
    put(store, "s1", config={"model": {"id": "m"}})

    meta = store.sessions.open("s1").load_meta()

    assert (meta.session_name, meta.relation, meta.model) == ("s1", Root(), "m")


@pytest.mark.invariant("INV-3")
@pytest.mark.scenario("GEN-T11")
def test_an_acknowledged_write_is_seen_by_every_later_read(world: World, store: Any) -> None:
    if world.is_durable:
        readers = [spawn(world, children.read_path, "s1") for _ in range(2)]
        for reader in readers:
            reader.await_ready()
        put(store, "s1", graph=chain("a"))
        for reader in readers:
            reader.go()
        assert [reader.result() for reader in readers] == [["a"], ["a"]]
        return
    put(store, "s1", graph=chain("a"))
    seen: list[list[str]] = []
    thread = threading.Thread(target=lambda: seen.append(path_ids(store)))
    thread.start()
    thread.join()
    assert seen == [["a"]]


@pytest.mark.invariant("INV-3")
def test_what_another_process_wrote_is_seen_at_once(durable: World) -> None:
    store = durable.open()
    assert store.sessions.open("s1") is None

    together(spawn(durable, children.create_one, "s1"))

    assert store.sessions.open("s1").session_id == "s1"


def test_a_store_in_memory_lives_as_long_as_it_is_open(world: World) -> None:
    first, second = world.open(), world.open()
    put(first, "s1", graph=chain("a"))

    assert path_ids(first) == ["a"]
    assert (second.sessions.open("s1") is None) is not world.is_durable
