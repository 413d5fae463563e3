"""Extensions 2: scopes, labels and activity in listings (EXT-9, EXT-10)."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast import InvalidArgument, ListingOrder, SessionCreate
from holdfast.testing.contract.samples import create, put
from holdfast.testing.world import World


def listed(store: Any, **filters: Any) -> list[str]:
    """The ids of a listing, in its order."""
    return [line.session_id for line in store.sessions.list(**filters).sessions]


@pytest.fixture
def scoped(store: Any) -> Any:
    """Sessions in three scopes; one has labels."""
    create(store, "1", scope=("a",))
    create(store, "2", scope=("a", "b"), labels={"colour": "red", "size": "big"})
    create(store, "3", scope=("ab",), labels={"colour": "red"})
    return store


@pytest.mark.scenario("EXT-T11")
def test_a_prefix_goes_by_labels_of_the_scope_not_by_letters(scoped: Any) -> None:
    assert sorted(listed(scoped, scope_prefix=("a",))) == ["1", "2"]
    assert listed(scoped, scope_prefix=("a", "b")) == ["2"]
    assert sorted(listed(scoped, scope_prefix=())) == ["1", "2", "3"]
    assert listed(scoped, scope=("a",)) == ["1"]
    assert listed(scoped, scope=("ab",)) == ["3"]


@pytest.mark.parametrize("label", ["\x01", "\U0010ffff", "\u00e9", "%", "/"])
def test_a_scope_keeps_any_character(store: Any, label: str) -> None:
    create(store, "in", scope=("x", label))
    create(store, "beside", scope=("x", label + "a"))
    create(store, "below", scope=("x", label, "y"))

    assert store.sessions.load_meta("in").scope == ("x", label)
    assert sorted(listed(store, scope_prefix=("x", label))) == ["below", "in"]


def test_all_labels_must_match(scoped: Any) -> None:
    assert sorted(listed(scoped, labels={"colour": "red"})) == ["2", "3"]
    assert listed(scoped, labels={"colour": "red", "size": "big"}) == ["2"]
    assert listed(scoped, labels={"colour": "blue"}) == []

    scoped.sessions.update_labels("3", {"size": "big"}, ["colour"])
    assert sorted(listed(scoped, labels={"size": "big"})) == ["2", "3"]
    assert listed(scoped, labels={"colour": "red"}) == ["2"]


@pytest.mark.scenario("EXT-T11")
def test_activity_given_in_the_past_sorts_a_session_there(scoped: Any) -> None:
    now = scoped.sessions.load_meta("1").activity_us
    put(scoped, "3", activity_us=now + 5)
    put(scoped, "1", activity_us=now - 5)
    put(scoped, "2", activity_us=-1)

    assert listed(scoped) == ["3", "1", "2"]
    assert listed(scoped, order=ListingOrder.ACTIVITY_ASC) == ["2", "1", "3"]
    assert listed(scoped, scope_prefix=("a",)) == ["1", "2"]
    assert scoped.sessions.load_meta("2").activity_us == -1


def test_ties_go_by_session_id(store: Any) -> None:
    for session_id in ("b", "a", "c"):
        put(store, session_id, activity_us=7, create=SessionCreate(session_id=session_id))

    for order in ListingOrder:
        pages, cursor = [], None
        for _ in range(3):
            page = store.sessions.list(order=order, limit=1, cursor=cursor)
            pages += [line.session_id for line in page.sessions]
            cursor = page.next_cursor
        assert pages == ["a", "b", "c"]
        assert cursor is None


def test_labels_are_exchanged_up_to_the_limit_and_refused_as_a_whole_beyond(
    world: World, store: Any
) -> None:
    full = {f"n{number}": "v" for number in range(32)}
    create(store, labels=full)
    exchanged = {name: "v" for name in full if name != "n0"} | {"new": "v"}

    assert store.sessions.update_labels("s1", {"new": "v"}, ["n0"]) == exchanged
    assert store.sessions.load_meta("s1").labels == exchanged

    before = world.dump(store)
    with pytest.raises(InvalidArgument) as refused:
        store.sessions.update_labels("s1", {"one": "v", "more": "v"}, ["new"])
    assert (refused.value.field, refused.value.reason) == ("labels", "too_large")
    assert world.dump(store) == before


def test_what_is_set_wins_over_what_is_removed(world: World, store: Any) -> None:
    create(store, labels={"kept": "1", "both": "old", "gone": "1"})

    left = store.sessions.update_labels("s1", {"both": "new"}, ["both", "gone", "unknown"])

    assert left == store.sessions.load_meta("s1").labels == {"kept": "1", "both": "new"}
    assert store.sessions.update_labels("nobody", {"a": "b"}) is None
    assert world.sql(store, "SELECT count(*) FROM {session}") == [(1,)]
