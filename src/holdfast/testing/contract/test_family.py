"""Extensions 2: deleting a session with its children (EXT-12)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from holdfast import Child, HeadRevisionConflict, Root, SessionBusy
from holdfast.testing.contract.samples import chain, create, lease_on, put
from holdfast.testing.world import World

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


def move_away(store: Any) -> None:
    """A child becomes a session of its own."""
    meta = store.sessions.load_meta("child-2")
    store.sessions.save_meta(msgspec.structs.replace(meta, relation=Root()))


def make_anew(store: Any) -> None:
    """A child is deleted, and its id taken by somebody else."""
    store.sessions.delete("child-2")
    create(store, "child-2")


def add_one(store: Any) -> None:
    """A session becomes a child."""
    meta = store.sessions.load_meta("stranger")
    store.sessions.save_meta(msgspec.structs.replace(meta, relation=Child("child-1")))


@pytest.mark.parametrize(
    ("change", "left"),
    [
        (move_away, {"child-2", "grandchild", "great-grandchild", "fork", "stranger"}),
        (make_anew, {"child-2", "grandchild", "great-grandchild", "fork", "stranger"}),
        (add_one, {"fork"}),
    ],
)
def test_a_family_that_changes_while_its_sections_are_waited_for_is_looked_up_again(
    world: World, family: Any, change: Callable[[Any], None], left: set[str]
) -> None:
    if not world.is_server:
        pytest.skip("an embedded store looks and deletes under one lock")
    other = world.real(world.open())
    looks: list[str] = []

    def meddle(name: str, when: str) -> None:
        if (name, when) == ("family", "after"):
            looks.append(name)
            if len(looks) == 1:
                change(other)

    world.backend(family).on_statement = meddle

    report = family.sessions.delete("parent", with_children=True)

    world.backend(family).on_statement = None
    assert report.deleted
    assert known(family) == left
