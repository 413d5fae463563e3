"""FAC-20: a store that was closed, and one that came along into a forked process."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from holdfast import StoreClosed
from holdfast.testing.contract import children
from holdfast.testing.contract.catalogue import BY_ID, BY_RECORD, EVERY, on_view
from holdfast.testing.contract.samples import chain, create, lease_on, path_ids, put, turn
from holdfast.testing.processes import spawn, together
from holdfast.testing.world import World


@pytest.mark.scenario("FAC-T21")
def test_a_closed_store_refuses_every_operation(world: World) -> None:
    store = world.open()
    view = create(store)

    store.close()

    for name, operation in EVERY.items():
        with pytest.raises(StoreClosed) as refused:
            operation(store, "s1")
        assert refused.value.reason == "closed", name
    for name in (*BY_ID, *BY_RECORD):
        with pytest.raises(StoreClosed) as refused:
            on_view(view, name)
        assert refused.value.reason == "closed", name
    with pytest.raises(StoreClosed):
        store.open()


@pytest.mark.scenario("FAC-T21")
def test_a_store_closed_before_it_was_used_is_closed(world: World) -> None:
    store = world.open()

    store.close()

    with pytest.raises(StoreClosed) as refused:
        store.sessions.list()
    assert refused.value.reason == "closed"


def test_closing_again_does_nothing(world: World) -> None:
    store = world.open()
    create(store)

    store.close()
    store.close()


def test_closing_releases_no_lease(durable: World) -> None:
    store = durable.open()
    held = lease_on(store, "s1")

    store.close()

    found = durable.open().sessions.lease("s1")
    assert found.live
    assert found.generation == held.generation


def test_closing_lets_an_accepted_write_finish(world: World) -> None:
    store = world.open()
    create(store)
    entered, go_on = threading.Event(), threading.Event()

    def linger(name: str, moment: str) -> None:
        if (name, moment) == ("update_head", "before"):
            entered.set()
            assert go_on.wait(10)

    world.backend(store).on_statement = linger
    with ThreadPoolExecutor(2) as threads:
        written = threads.submit(put, store, "s1", graph=chain("a"), turn_commit=turn("t1"))
        assert entered.wait(10)
        closed = threads.submit(store.close)
        go_on.set()
        assert written.result(10).head_revision == 1
        closed.result(10)
    if world.is_durable:
        assert path_ids(world.open()) == ["a"]


@pytest.mark.invariant("INV-38")
@pytest.mark.scenario("FAC-T21")
def test_in_a_forked_child_the_store_is_closed_and_its_parents_still_works(world: World) -> None:
    answers, path = together(spawn(world, children.fork_and_try_everything))[0]

    assert set(answers) == {*EVERY, *(f"view.{name}" for name in (*BY_ID, *BY_RECORD))}
    assert set(answers.values()) == {"store_closed forked"}
    assert path == ["a", "b"]
