"""Section 3.4 and FAC-9: what a bound view accepts, and when it is over."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec
import pytest

import holdfast
from holdfast import Lease, LeaseLost, SessionBindingMismatch, SessionCreate, SessionDeleted
from holdfast.face import Descriptor
from holdfast.store import InputVerbs, QueueVerbs, SessionView
from holdfast.testing.contract.catalogue import BY_ID, BY_RECORD, area_of, on_view
from holdfast.testing.contract.samples import (
    ALICE,
    chain,
    commit,
    create,
    lease_on,
    path_ids,
    put,
    turn,
)
from holdfast.testing.world import World


def test_the_catalogue_of_a_views_operations_is_complete() -> None:
    areas: dict[str, Any] = {"sessions": SessionView, "queue": QueueVerbs, "inputs": InputVerbs}
    listed = {
        f"{area}.{name}"
        for area, owner in areas.items()
        for base in owner.__mro__
        for name, value in vars(base).items()
        if isinstance(value, Descriptor)
    }

    assert listed == {*BY_ID, *BY_RECORD}


def test_making_a_view_does_no_io(world: World, store: Any) -> None:
    create(store, "other")
    world.backend(store).counts.clear()

    view = store.session("s1")

    assert view.session_id == "s1"
    assert not +world.backend(store).counts


@pytest.mark.scenario("FAC-T9")
def test_a_view_refuses_records_of_another_session(world: World, store: Any) -> None:
    view = create(store)
    create(store, "s2")
    before = world.dump(store)
    world.backend(store).counts.clear()

    for name, operation in BY_RECORD.items():
        with pytest.raises(SessionBindingMismatch) as refused:
            operation(area_of(view, name), "s2")
        told = (refused.value.bound_session_id, refused.value.attempted_session_id)
        assert told == ("s1", "s2"), name

    assert not +world.backend(store).counts
    assert world.dump(store) == before


@pytest.mark.scenario("FAC-T9")
def test_a_commit_refuses_to_create_another_session(store: Any) -> None:
    view = store.session("s1")

    with pytest.raises(SessionBindingMismatch) as refused:
        view.commit_with_fresh_lease(commit("s1", create=SessionCreate(session_id="s2")))

    assert (refused.value.bound_session_id, refused.value.attempted_session_id) == ("s1", "s2")


@pytest.mark.scenario("FAC-T9")
def test_a_lease_of_another_session_is_told_as_the_lease_rules_say(store: Any) -> None:
    view = create(store)
    elsewhere = lease_on(store, "s2")

    with pytest.raises(LeaseLost) as lost:
        view.commit(commit("s1", graph=chain("a"), session_execution_lease=elsewhere))

    assert lost.value.reason == "wrong_session"
    assert store.sessions.load("s1") is None


@pytest.mark.scenario("FAC-T9")
def test_a_stamp_of_another_session_is_told_as_the_commit_rules_say(store: Any) -> None:
    view = create(store)

    with pytest.raises(holdfast.RuntimeTurnCommitConflict) as refused:
        view.commit_with_fresh_lease(commit("s1", turn_commit=turn("t1", "s2")))

    assert refused.value.stored_hash is None


def _delete(store: Any) -> None:
    assert store.sessions.delete("s1", force=True).deleted


@pytest.mark.invariant("INV-32")
@pytest.mark.scenario("FAC-T7")
@pytest.mark.parametrize("again", [False, True], ids=["gone", "created_anew"])
def test_a_view_that_outlived_its_session_does_nothing(
    world: World, store: Any, again: bool
) -> None:
    view = store.session("s1")
    view.commit_with_fresh_lease(commit("s1", graph=chain("a"), turn_commit=turn("t1")))
    _delete(store)
    if again:
        put(store, "s1", graph=chain("b"), turn_commit=turn("t1"))
    before = world.dump(store)

    for name in (*BY_ID, *BY_RECORD):
        with pytest.raises(SessionDeleted) as refused:
            on_view(view, name)
        assert refused.value.session_id == "s1", name

    assert world.dump(store) == before


#: They end the session, answer about another one, or need what nobody has.
_TELL_NOTHING = {"sessions.delete", "sessions.fork", "sessions.reclaim_lease"}
#: They need a live lease.
_FENCED: dict[str, Callable[[Any, Lease], Any]] = {
    "sessions.commit": lambda at, held: at.commit(
        commit(held.session_id, session_execution_lease=held)
    ),
    "sessions.renew_lease": lambda at, held: at.renew_lease(held),
    "sessions.release_lease": lambda at, held: at.release_lease(held),
    "queue.claim": lambda at, held: at.claim(held),
    "queue.claim_command": lambda at, held: at.claim_command(held),
    "queue.claim_exactly": lambda at, held: at.claim_exactly(held, "idle", ["qwb:none"]),
    "inputs.claim_active": lambda at, held: at.claim_active(held, "t1", "after_work"),
    "inputs.claim_next": lambda at, held: at.claim_next(held),
    "inputs.recover_orphaned": lambda at, held: at.recover_orphaned(held),
}


@pytest.mark.scenario("FAC-T7")
def test_a_view_remembers_the_session_from_its_first_answer(store: Any) -> None:
    for first in {*BY_ID, *BY_RECORD} - _TELL_NOTHING:
        view = store.session(first)
        _first_use(store, view, first)
        store.sessions.delete(first, force=True)

        with pytest.raises(SessionDeleted):
            view.commit_with_fresh_lease(commit(first, graph=chain("b")))

        assert store.sessions.open(first) is None


def _first_use(store: Any, view: Any, name: str) -> None:
    known = create(store, name)
    if name not in _FENCED:
        on_view(view, name)
        return
    held = known.claim_lease(ALICE, 30_000).lease
    _FENCED[name](area_of(view, name), held)


def test_a_refused_write_tells_a_view_nothing(store: Any) -> None:
    view = store.session("s1")
    with pytest.raises(holdfast.HeadRevisionConflict):
        view.commit_with_fresh_lease(commit("s1", expected_head_revision=7))

    create(store)
    view.commit_with_fresh_lease(commit("s1", graph=chain("a")))

    assert path_ids(store) == ["a"]


def test_nor_does_a_call_that_meets_nothing_behind_it(store: Any) -> None:
    view = store.session("s1")
    with pytest.raises(holdfast.HeadRevisionConflict):
        view.commit_with_fresh_lease(commit("s1", expected_head_revision=7))
    assert view.queue.list(limit=0) == []

    assert view.load() is None
    view.commit_with_fresh_lease(commit("s1", graph=chain("a")))
    assert path_ids(store) == ["a"]


def test_calls_of_one_view_side_by_side_tell_it_only_what_was_stored(store: Any) -> None:
    """A refused write takes back the row that another call of the view may have heard of."""
    view = store.session("s1")
    refusals: list[type[Exception]] = []

    def refuse() -> None:
        for _ in range(50):
            try:
                view.commit_with_fresh_lease(commit("s1", expected_head_revision=7))
            except holdfast.HoldfastError as error:
                refusals.append(type(error))

    def read() -> None:
        for _ in range(200):
            assert view.load_meta() is None

    with ThreadPoolExecutor(3) as threads:
        for done in [threads.submit(task) for task in (refuse, refuse, read)]:
            done.result(60)

    assert set(refusals) == {holdfast.HeadRevisionConflict}


def test_a_view_made_after_the_deletion_is_unaffected(store: Any) -> None:
    old = create(store)
    _delete(store)

    new = create(store)
    new.commit_with_fresh_lease(commit("s1", graph=chain("a")))
    put(store, "s1", graph=chain("b"))

    assert [node.node_id for node in new.load().graph.nodes] == ["a", "b"]
    with pytest.raises(SessionDeleted):
        old.load()


def test_a_view_of_an_unknown_session_lets_it_be_created_later(store: Any) -> None:
    view = store.session("s1")
    assert view.load() is None
    assert view.load_meta() is None

    put(store, "s1", graph=chain("a"))

    assert view.load().head_revision == 1


def test_two_views_of_one_session_are_equal_in_rights(store: Any) -> None:
    one, other = create(store), store.session("s1")
    held = one.claim_lease(ALICE, 30_000).lease

    longer = other.renew_lease(held, 60_000)

    assert msgspec.structs.replace(longer, expires_at_ms=0) == msgspec.structs.replace(
        held, expires_at_ms=0
    )
    assert other.release_lease(longer)
    assert one.lease() is None
