"""Extensions 2: deleting a session with its children (EXT-12)."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast import Child, HeadRevisionConflict, SessionBusy
from holdfast.testing.contract.samples import chain, create, lease_on, put

FAMILY = ["parent", "child-1", "child-2", "grandchild", "great-grandchild"]


@pytest.fixture
def family(store: Any) -> Any:
    """Three generations below one session, beside a fork of it and a stranger."""
    create(store, "parent")
    put(store, "parent", graph=chain("a"))
    for session_id, parent in (
        ("child-1", "parent"),
        ("child-2", "parent"),
        ("grandchild", "child-2"),
        ("great-grandchild", "grandchild"),
    ):
        create(store, session_id, relation=Child(parent))
    store.sessions.fork("parent", _request("fork"))
    create(store, "stranger")
    return store


def _request(session_id: str) -> Any:
    from holdfast import SessionCreate

    return SessionCreate(session_id=session_id)


def known(store: Any) -> set[str]:
    """The ids of all sessions."""
    return {line.session_id for line in store.sessions.list().sessions}


@pytest.mark.scenario("EXT-T13")
@pytest.mark.parametrize("busy", FAMILY)
def test_a_family_of_which_one_is_busy_stays(family: Any, busy: str) -> None:
    lease_on(family, busy)

    with pytest.raises(SessionBusy) as refused:
        family.sessions.delete("parent", with_children=True)

    assert refused.value.session_id == busy
    assert known(family) == {*FAMILY, "fork", "stranger"}


@pytest.mark.scenario("EXT-T13")
def test_force_deletes_a_busy_family(family: Any) -> None:
    lease_on(family, "grandchild")

    report = family.sessions.delete("parent", with_children=True, force=True)

    assert (report.deleted, report.session_count) == (True, len(FAMILY))
    assert known(family) == {"fork", "stranger"}
    assert [node.node_id for node in family.sessions.load("fork").graph.nodes] == ["a"]


def test_an_idle_family_needs_no_force(family: Any) -> None:
    assert family.sessions.delete("parent", with_children=True).session_count == len(FAMILY)


def test_children_stay_unless_they_are_named(family: Any) -> None:
    family.sessions.delete("parent")

    assert known(family) == {*FAMILY, "fork", "stranger"} - {"parent"}


def test_a_family_may_be_deleted_only_where_its_head_is_expected(family: Any) -> None:
    with pytest.raises(HeadRevisionConflict):
        family.sessions.delete("parent", with_children=True, expect=0)
    assert known(family) == {*FAMILY, "fork", "stranger"}

    assert family.sessions.delete("parent", with_children=True, expect=1).deleted
