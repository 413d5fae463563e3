"""Section 4, listing: pages and filters of the sessions of a store, and what a line says."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from holdfast import (
    Child,
    InvalidArgument,
    Payload,
    Root,
    SessionCreate,
    SessionDeleted,
    SessionListing,
)
from holdfast.testing.clock import ManualClock
from holdfast.testing.contract.samples import ALICE, chain, create, lease_on, put
from holdfast.testing.world import World


def listed(store: Any, **options: Any) -> list[str]:
    """The ids of one page, in its order."""
    return [line.session_id for line in store.sessions.list(**options).sessions]


def pages(store: Any, **options: Any) -> list[list[str]]:
    """The ids of every page."""
    found, cursor = [], None
    while True:
        page = store.sessions.list(cursor=cursor, **options)
        found.append([line.session_id for line in page.sessions])
        cursor = page.next_cursor
        if cursor is None:
            return found


def created(store: Any, clock: ManualClock, count: int) -> list[str]:
    """Sessions made one after the other; their ids, the latest first."""
    ids = [f"s{number:03d}" for number in range(count)]
    for session_id in ids:
        clock.advance(1)
        create(store, session_id)
    return ids[::-1]


def _cursor(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode()


@pytest.mark.scenario("MET-T7")
def test_a_hundred_and_twenty_sessions_make_three_pages(store: Any, clock: ManualClock) -> None:
    latest_first = created(store, clock, 120)

    found = pages(store, limit=50)

    assert [len(page) for page in found] == [50, 50, 20]
    assert [each for page in found for each in page] == latest_first


def test_pages_that_end_with_the_last_session_have_no_successor(
    store: Any, clock: ManualClock
) -> None:
    latest_first = created(store, clock, 4)

    assert pages(store, limit=2) == [latest_first[:2], latest_first[2:]]
    assert pages(store, limit=4) == [latest_first]


@pytest.mark.invariant("INV-10")
def test_a_page_has_fifty_lines_unless_told_otherwise(store: Any, clock: ManualClock) -> None:
    created(store, clock, 51)

    assert len(listed(store)) == 50


def test_a_cursor_stays_valid_while_sessions_change(store: Any, clock: ManualClock) -> None:
    created(store, clock, 6)
    cursor = store.sessions.list(limit=2).next_cursor
    store.sessions.delete("s004")
    put(store, "s000", graph=chain("a"))

    assert listed(store, limit=10, cursor=cursor) == ["s003", "s002", "s001"]


FOREIGN_CURSORS = [
    "",
    "?",
    "é",
    _cursor("not json"),
    _cursor("[1, 2]"),
    _cursor('[9223372036854775808, "a"]'),
    _cursor('[1, "a\\u0000"]'),
]


def test_a_cursor_of_somebody_else_is_refused(store: Any) -> None:
    for cursor in FOREIGN_CURSORS:
        with pytest.raises(InvalidArgument) as refused:
            store.sessions.list(cursor=cursor)
        assert refused.value.field == "cursor"


def test_the_ends_of_time_are_listed_in_either_order(store: Any) -> None:
    for session_id, activity_us in (("first", -(2**63)), ("last", 2**63 - 1)):
        put(store, session_id, activity_us=activity_us)

    assert pages(store, limit=1, order="activity_asc") == [["first"], ["last"]]
    assert pages(store, limit=1, order="activity_desc") == [["last"], ["first"]]


def test_a_filter_that_means_nothing_is_refused(store: Any) -> None:
    create(store)

    for bad in ({"relation_kind": "cousin"}, {"order": "name"}, {"parent_session_id": ""}):
        with pytest.raises(InvalidArgument) as refused:
            store.sessions.list(**bad)
        assert refused.value.field in bad


@pytest.mark.scenario("MET-T4")
def test_children_of_a_deleted_parent_are_still_listed(store: Any) -> None:
    create(store, "parent")
    create(store, "child", relation=Child("parent", caused_by={"call": 1}))
    create(store, "other", relation=Child("somebody else"))

    store.sessions.delete("parent")

    (line,) = store.sessions.list(parent_session_id="parent").sessions
    assert line.session_id == "child"
    assert line.relation == Child("parent", caused_by={"call": 1})


def test_filters_combine(store: Any, clock: ManualClock) -> None:
    create(store, "1", cwd="/a", relation=Child("p"))
    clock.advance(10)
    later = clock.now_ms()
    create(store, "2", cwd="/a", relation=Child("p"))
    create(store, "3", cwd="/b", relation=Child("p"))
    create(store, "4", cwd="/a")
    put(store, "4", graph=chain("x"))
    store.sessions.fork("4", SessionCreate(session_id="5", cwd="/a"))

    assert listed(store, cwd="/a", relation_kind="child") == ["2", "1"]
    assert listed(store, cwd="/a", relation_kind="root") == ["4"]
    assert listed(store, relation_kind="fork") == ["5"]
    assert listed(store, parent_session_id="4") == ["5"]
    assert listed(store, cwd="/a", updated_since_ms=later) == ["2", "4", "5"]
    assert listed(store, parent_session_id="p", updated_since_ms=later) == ["2", "3"]
    assert listed(store, updated_since_ms=later + 1) == []
    assert listed(store, cwd="") == []


def test_a_session_that_is_only_present_is_not_listed(store: Any) -> None:
    lease_on(store, "s1")

    assert listed(store) == []


def test_a_line_says_what_a_picker_shows(store: Any, clock: ManualClock) -> None:
    create(
        store,
        session_name="First",
        cwd="/a",
        model="m",
        created_at_ms=5,
        scope=("t",),
        labels={"colour": "red"},
    )
    put(store, "s1", graph=chain("hello", "there"), config={"model": "m"})

    expected = SessionListing(
        session_id="s1",
        session_name="First",
        created_at_ms=5,
        updated_at_ms=clock.now_ms(),
        activity_us=clock.now_ms() * 1_000,
        cwd="/a",
        model="m",
        relation=Root(),
        scope=("t",),
        labels={"colour": "red"},
        head_revision=1,
        node_count=2,
        user_message_count=2,
        first_user_message="hello",
    )
    assert store.sessions.list().sessions == [expected]
    assert store.session("s1").picker_info() == expected


def test_a_view_of_a_present_session_without_metadata_has_no_line(store: Any) -> None:
    view = store.session("s1")
    view.claim_lease(ALICE, 30_000)

    assert view.picker_info() is None

    store.sessions.delete("s1", force=True)
    with pytest.raises(SessionDeleted):
        view.picker_info()


def test_configs_are_listed_where_they_are_asked_for(store: Any) -> None:
    put(store, "1", config={"model": "m"}, activity_us=3)
    put(store, "2", config=Payload(b"\xff", tag="t"), activity_us=2)
    put(store, "3", graph=chain("a"), activity_us=1)

    lines = store.sessions.list(with_config=True).sessions

    assert [line.config for line in lines[:2]] == [{"model": "m"}, Payload(b"\xff", tag="t")]
    assert [line.config for line in store.sessions.list().sessions] == [None, None, None]


def test_a_page_takes_one_statement_however_many_lines(
    world: World, store: Any, clock: ManualClock
) -> None:
    created(store, clock, 20)
    put(store, "s001", graph=chain("a", "b"))
    counts = world.backend(store).counts
    counts.clear()

    assert len(listed(store, limit=10)) == 10

    del counts["transactions"], counts["trips"]
    assert +counts == {"list_by_all_newest": 1}
