"""Section 2: identifiers, immutability, zero limits, the durability tier."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from holdfast import (
    CheckpointDraft,
    Component,
    Durability,
    InvalidArgument,
    LeaseOwner,
    SessionCreate,
    TurnStamp,
    Unchanged,
)
from holdfast.attachment_area import Attachments
from holdfast.face import Descriptor
from holdfast.store import Artifacts, Blobs, Inputs, Maintenance, Queue, Sessions
from holdfast.testing.contract.catalogue import ABOUT_A_SESSION, EVERY
from holdfast.testing.contract.samples import chain, commit, create, message, path_ids, put
from holdfast.testing.world import World

#: What is no identifier, and the reason that is told.
WRONG = {
    "": "empty",
    " \t\n": "empty",
    "a\0b": "nul",
    "x" * 513: "too_large",
    "é" * 257: "too_large",
    "\ud800": "lone_surrogate",
}
AREAS = {
    "sessions": Sessions,
    "blobs": Blobs,
    "artifacts": Artifacts,
    "maintenance": Maintenance,
    "attachments": Attachments,
    "queue": Queue,
    "inputs": Inputs,
}


def test_the_catalogue_of_operations_is_complete() -> None:
    listed = {
        f"{area}.{name}"
        for area, owner in AREAS.items()
        for base in owner.__mro__
        for name, value in vars(base).items()
        if isinstance(value, Descriptor)
    }

    assert listed == set(EVERY)


@pytest.mark.scenario("GEN-T1")
def test_no_operation_takes_a_session_id_that_is_no_identifier(world: World, store: Any) -> None:
    create(store)
    before = world.dump(store)

    for name, operation in ABOUT_A_SESSION.items():
        for wrong, reason in WRONG.items():
            with pytest.raises(InvalidArgument) as refused:
                operation(store, wrong)
            field = refused.value.field.rpartition(".")[2]
            assert field in ("session_id", "parent_session_id"), name
            assert refused.value.reason == reason, name

    assert world.dump(store) == before


@pytest.mark.scenario("GEN-T1")
def test_no_view_is_made_of_what_is_no_identifier(store: Any) -> None:
    for wrong in WRONG:
        with pytest.raises(InvalidArgument):
            store.session(wrong)


def _wrong_ids() -> dict[str, Any]:
    """Calls in which another identifier or key than the session's is wrong, by its field."""
    stamp = TurnStamp("s1", "\0")
    draft = CheckpointDraft(turn_state={}, components={"": Component(body=b"")})
    return {
        "owner_id": lambda at: at.claim_lease("s1", LeaseOwner("", "i")),
        "incarnation_id": lambda at: at.claim_lease("s1", LeaseOwner("o", " ")),
        "node_id": lambda at: at.load_node("s1", "x" * 513),
        "node_ids": lambda at: at.tombstone("s1", ["a", ""]),
        "turn_id": lambda at: at.load_turn_commit("s1", ""),
        "leaf": lambda at: at.load("s1", leaf="\0"),
        "graph.nodes[1].node_id": lambda at: _put(at, graph=chain("a", "\0")),
        "graph.leaf": lambda at: _put(at, graph=Unchanged("")),
        "turn_commit.turn_id": lambda at: _put(at, turn_commit=stamp),
        "checkpoint.components": lambda at: _put(at, checkpoint=draft),
        "agent_frames[0].frame_id": lambda at: _put(
            at, agent_frames=[{"frame_id": ""}], current_agent_frame_id=""
        ),
    }


def _put(at: Any, **fields: Any) -> Any:
    return at.commit_with_fresh_lease(commit("s1", **fields))


@pytest.mark.scenario("GEN-T1")
def test_every_other_identifier_is_checked_too(world: World, store: Any) -> None:
    create(store)
    before = world.dump(store)

    for field, call in _wrong_ids().items():
        with pytest.raises(InvalidArgument) as refused:
            call(store.sessions)
        assert refused.value.field == field
    for name in ("", "x" * 1025, "\0"):
        with pytest.raises(InvalidArgument) as refused:
            store.artifacts.put("space", name, b"")
        assert refused.value.field == "name"

    assert world.dump(store) == before


def test_identifiers_are_kept_exactly_as_given(store: Any) -> None:
    ids = ["é" * 256, "e\u0301", "\u00e9", " padded ", "a/b?c#d%e", "'; --", "💥", "x" * 512]
    for id in ids:
        put(store, id, graph=chain(id))

    assert {line.session_id for line in store.sessions.list().sessions} == set(ids)
    assert [path_ids(store, id) for id in ids] == [[id] for id in ids]


def test_a_nul_inside_a_json_string_comes_back(store: Any) -> None:
    put(store, "s1", graph=chain("a"), config={"a\0b": ["\0"]})

    assert store.sessions.load("s1").config == {"a\0b": ["\0"]}


def test_changing_a_returned_record_changes_nothing_stored(store: Any) -> None:
    create(store, labels={"name": "value"})
    put(store, "s1", graph=chain("a"), config={"model": "m"})

    loaded = store.sessions.load("s1")
    loaded.config["model"] = "other"
    loaded.graph.nodes[0].body["role"] = "other"
    loaded.graph.nodes.clear()
    store.sessions.load_meta("s1").labels.clear()

    again = store.sessions.load("s1")
    assert again.config == {"model": "m"}
    assert again.graph.nodes[0].body == message("a", "a").body
    assert store.sessions.load_meta("s1").labels == {"name": "value"}


def test_a_limit_of_zero_asks_the_database_nothing(world: World, store: Any) -> None:
    put(store, "s1", graph=chain("a"))
    store.artifacts.put("space", "name", b"content")
    world.backend(store).counts.clear()

    assert store.sessions.list(limit=0).sessions == []
    assert store.sessions.list_nodes("s1", limit=0).nodes == []
    assert store.artifacts.list("space", limit=0) == []
    assert store.sessions.vacuum("s1", limit=0).removed_node_count == 0
    assert store.sessions.prune_turn_commits("s1", 0, limit=0) == 0
    assert store.maintenance.vacuum(limit=0).removed_node_count == 0
    assert store.maintenance.prune_turn_commits(0, limit=0) == 0
    assert store.maintenance.collect_garbage(limit=0).deleted_blob_count == 0
    assert not +world.backend(store).counts


def test_a_negative_count_is_refused(store: Any) -> None:
    calls: list[Callable[[], Any]] = [
        lambda: store.sessions.list(limit=-1),
        lambda: store.sessions.list_nodes("s1", limit=-1),
        lambda: store.sessions.load("s1", last=-1),
        lambda: store.artifacts.list("space", limit=-1),
        lambda: store.sessions.claim_lease("s1", LeaseOwner("o", "i"), -1),
        lambda: store.maintenance.vacuum(limit=-1),
    ]
    for call in calls:
        with pytest.raises(InvalidArgument):
            call()


@pytest.mark.scenario("GEN-T6")
def test_store_and_view_report_the_tier_of_what_was_wired(world: World, store: Any) -> None:
    declared = Durability.DURABLE if world.is_durable else Durability.INLINE

    assert store.durability_tier is declared
    assert store.session("s1").durability_tier is declared
    assert store.sessions.create(SessionCreate(session_id="s1")).durability_tier is declared
