"""Whatever stands where an argument belongs is refused before anything is asked of the database."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

import holdfast
from holdfast import (
    ANY,
    Append,
    BlobDescriptor,
    CheckpointDraft,
    Child,
    Component,
    Fork,
    InvalidArgument,
    Payload,
    ReplaceFull,
    SessionCreate,
    Splice,
    StartAt,
    Tag,
    TokenLedgerEntry,
    TokenUsage,
    Unchanged,
    local_process,
    turn_commit_hash,
)
from holdfast.testing.contract.catalogue import a_holder, a_lease, a_meta
from holdfast.testing.contract.lanes import work
from holdfast.testing.contract.samples import (
    ALICE,
    chain,
    checkpoint,
    commit,
    message,
    put,
    spent,
    turn,
)
from tests.unit.bad_input import Case, cases, offer

STARTING = SessionCreate(session_id="new", start_at=StartAt("a"))
WHOLE = commit(
    "s1",
    config={"model": "m"},
    agent_frames=[{"frame_id": "f"}],
    current_agent_frame_id="f",
    graph=chain("n"),
    checkpoint=checkpoint(1, tool_state=b"x"),
    usage_deltas=[spent("chat")],
    turn_commit=turn("t"),
    create=SessionCreate(session_id="s1"),
    activity_us=5,
    head_tag="x",
)
ME = local_process("me")


def whole(store: Any, **fields: Any) -> Any:
    """A commit of everything, but for these fields."""
    changed = {"turn_commit": None} | fields
    return store.sessions.commit_with_fresh_lease(msgspec.structs.replace(WHOLE, **changed))


def hashed(**fields: Any) -> Any:
    """The hash of a commit of everything, but for these fields."""
    return turn_commit_hash(msgspec.structs.replace(WHOLE, **fields))


def draft(components: Any) -> CheckpointDraft:
    return CheckpointDraft(turn_state={}, components=components)


#: Records of ours, and an operation that is given them.
RECORDS: dict[str, tuple[Any, Case]] = {
    "commit": (WHOLE, lambda store, it: store.sessions.commit_with_fresh_lease(it)),
    "leased": (
        commit("s1", session_execution_lease=a_lease("s1")),
        lambda store, it: store.sessions.commit(it),
    ),
    "append": (chain("n"), lambda store, it: whole(store, graph=it)),
    "splice": (Splice(0, [message("n")]), lambda store, it: whole(store, graph=it)),
    "replace": (ReplaceFull([message("n")]), lambda store, it: whole(store, graph=it)),
    "unchanged": (Unchanged("a"), lambda store, it: whole(store, graph=it)),
    "node": (message("n"), lambda store, it: whole(store, graph=ReplaceFull([it]))),
    "listed node": (message("n"), lambda store, it: whole(store, graph=Append([message("m"), it]))),
    "hashed": (WHOLE, lambda store, it: turn_commit_hash(it)),
    "hashed append": (chain("n"), lambda store, it: hashed(graph=it)),
    "hashed splice": (Splice(0, [message("n")]), lambda store, it: hashed(graph=it)),
    "hashed replace": (ReplaceFull([message("n")]), lambda store, it: hashed(graph=it)),
    "hashed unchanged": (Unchanged("a"), lambda store, it: hashed(graph=it)),
    "hashed node": (message("n"), lambda store, it: hashed(graph=ReplaceFull([it]))),
    "hashed checkpoint": (checkpoint(1, tool_state=b"x"), lambda store, it: hashed(checkpoint=it)),
    "hashed component": (
        Component(body=b"x"),
        lambda store, it: hashed(checkpoint=draft({"a": it})),
    ),
    "hashed usage": (spent("chat"), lambda store, it: hashed(usage_deltas=[it])),
    "hashed batch": (work("n"), lambda store, it: hashed(enqueued_queue_batches=[it])),
    "hashed created": (STARTING, lambda store, it: hashed(create=it)),
    "hashed start": (
        StartAt("a"),
        lambda store, it: hashed(create=msgspec.structs.replace(STARTING, start_at=it)),
    ),
    "payload": (Payload(b"x", "t"), lambda store, it: whole(store, config=it)),
    "stamp": (turn("t"), lambda store, it: whole(store, turn_commit=it)),
    "tag": (Tag("x"), lambda store, it: whole(store, expected_head_revision=it)),
    "created": (SessionCreate(session_id="s1"), lambda store, it: whole(store, create=it)),
    "start": (
        StartAt("a"),
        lambda store, it: put(store, "new", create=SessionCreate(session_id="new", start_at=it)),
    ),
    "checkpoint": (checkpoint(1, tool_state=b"x"), lambda store, it: whole(store, checkpoint=it)),
    "component": (
        Component(body=b"x"),
        lambda store, it: whole(store, checkpoint=draft({"a": it})),
    ),
    "usage": (spent("chat"), lambda store, it: whole(store, usage_deltas=[it])),
    "counters": (
        TokenUsage(1),
        lambda store, it: whole(store, usage_deltas=[TokenLedgerEntry("chat", "m", it)]),
    ),
    "create": (SessionCreate(session_id="new"), lambda store, it: store.sessions.create(it)),
    "fork": (SessionCreate(session_id="new"), lambda store, it: store.sessions.fork("s1", it)),
    "meta": (a_meta("s1"), lambda store, it: store.sessions.save_meta(it)),
    "child": (
        Child("p", caused_by={}),
        lambda store, it: store.sessions.create(SessionCreate(session_id="new", relation=it)),
    ),
    "fork relation": (
        Fork("p", "n", 1),
        lambda store, it: store.sessions.create(SessionCreate(session_id="new", relation=it)),
    ),
    "renewed": (a_lease("s1"), lambda store, it: store.sessions.renew_lease(it)),
    "released": (a_lease("s1"), lambda store, it: store.sessions.release_lease(it)),
    "holder": (a_holder("s1"), lambda store, it: store.sessions.reclaim_lease(it, ALICE, 0)),
    "owner": (ALICE, lambda store, it: store.sessions.claim_lease("s1", it, 0)),
    "liveness": (
        ME.liveness,
        lambda store, it: store.sessions.claim_lease(
            "s1", msgspec.structs.replace(ME, liveness=it), 0
        ),
    ),
    "descriptor": (BlobDescriptor(), lambda store, it: store.blobs.put(b"x", it)),
}

#: Arguments that are no records.
ARGUMENTS: dict[str, Case] = {
    "load scope": lambda store, it: store.sessions.load("s1", scope=it),
    "load leaf": lambda store, it: store.sessions.load("s1", leaf=it),
    "load last": lambda store, it: store.sessions.load("s1", last=it),
    "load hydrate": lambda store, it: store.sessions.load("s1", hydrate=it),
    "load after": lambda store, it: store.sessions.load("s1", after_us=it),
    "list_nodes late": lambda store, it: store.sessions.list_nodes("s1", after_us=it),
    "list_nodes after": lambda store, it: store.sessions.list_nodes("s1", it),
    "list_nodes limit": lambda store, it: store.sessions.list_nodes("s1", 0, it),
    "load_node": lambda store, it: store.sessions.load_node("s1", it),
    "find_path": lambda store, it: store.sessions.find_path(it),
    "find_path last": lambda store, it: store.sessions.find_path("a", it),
    "stamp": lambda store, it: store.sessions.load_turn_commit("s1", it),
    "labels": lambda store, it: store.sessions.update_labels("s1", it),
    "labels removed": lambda store, it: store.sessions.update_labels("s1", remove=it),
    "tombstone": lambda store, it: store.sessions.tombstone("s1", it),
    "claim ttl": lambda store, it: store.sessions.claim_lease("s1", ALICE, it),
    "renew ttl": lambda store, it: store.sessions.renew_lease(a_lease("s1"), it),
    "delete force": lambda store, it: store.sessions.delete("none", force=it),
    "delete children": lambda store, it: store.sessions.delete("none", with_children=it),
    "delete expect": lambda store, it: store.sessions.delete("none", expect=it),
    "fork leaf": lambda store, it: store.sessions.fork("s1", SessionCreate(session_id="n"), it),
    "list": lambda store, it: store.sessions.list(parent_session_id=it),
    "list kind": lambda store, it: store.sessions.list(relation_kind=it),
    "list cwd": lambda store, it: store.sessions.list(cwd=it),
    "list since": lambda store, it: store.sessions.list(updated_since_ms=it),
    "list scope": lambda store, it: store.sessions.list(scope=it),
    "list prefix": lambda store, it: store.sessions.list(scope_prefix=it),
    "list labels": lambda store, it: store.sessions.list(labels=it),
    "list order": lambda store, it: store.sessions.list(order=it),
    "list config": lambda store, it: store.sessions.list(with_config=it),
    "list limit": lambda store, it: store.sessions.list(limit=it),
    "list cursor": lambda store, it: store.sessions.list(cursor=it),
    "component": lambda store, it: whole(store, checkpoint=draft({"a": it})),
    "frame": lambda store, it: whole(store, agent_frames=[it], current_agent_frame_id=""),
    "put": lambda store, it: store.blobs.put(it),
    "has": lambda store, it: store.blobs.has(it),
    "space": lambda store, it: store.artifacts.put(it, "name", b"x"),
    "name": lambda store, it: store.artifacts.get("space", it),
    "artifacts after": lambda store, it: store.artifacts.list("space", 5, it),
    "grace": lambda store, it: store.maintenance.collect_garbage(it),
    "vacuum": lambda store, it: store.maintenance.vacuum(it),
    "prune": lambda store, it: store.maintenance.prune_turn_commits(it),
    "keep": lambda store, it: store.maintenance.prune_turn_commits(0, it),
    "guard": lambda store, it: store.session("s1").guard(it),
}


@pytest.fixture(scope="module")
def store() -> Iterator[Any]:
    with holdfast.open("sqlite://") as opened:
        put(opened, "s1", graph=chain("a"))
        yield opened


@pytest.mark.parametrize("case", list(cases(RECORDS, ARGUMENTS)))
def test_junk_is_taken_or_refused_before_any_statement(store: Any, case: Case) -> None:
    offer(store, case)

    assert store.sessions.load("s1") is not None  # what was taken can be read back
    assert store.sessions.load_meta("s1") is not None
    assert store.sessions.list(limit=1000, with_config=True).sessions


def test_what_a_created_session_is_made_from_is_checked_also_where_it_is_known(store: Any) -> None:
    wrong = SessionCreate(session_id="s1", labels={"": "no name"})
    lease = a_lease("s1")
    for fields in ({}, {"expected_head_revision": 99}, {"session_execution_lease": lease}):
        given = commit("s1", **{"expected_head_revision": ANY, "create": wrong} | fields)
        with pytest.raises(InvalidArgument):
            store.sessions.commit(given)


@pytest.mark.parametrize("parent", [5, True, b"n", ["n"], {}, (), object()])
@pytest.mark.parametrize("delta", [Append, ReplaceFull, lambda nodes: Splice(0, nodes)])
def test_a_parent_is_a_node_id_or_a_word_for_one(store: Any, delta: Any, parent: Any) -> None:
    wrong = message("n", parent_node_id=parent)

    with pytest.raises(InvalidArgument, match="parent_node_id"):
        put(store, "s1", graph=delta([wrong]))


@pytest.mark.parametrize("delta", [Append, ReplaceFull, lambda nodes: Splice(0, nodes)])
def test_the_nodes_of_a_delta_are_a_list_or_a_tuple(store: Any, delta: Any) -> None:
    nodes = {"a": message("a"), "b": message("b")}

    for given in (nodes.values(), iter(nodes.values())):
        with pytest.raises(InvalidArgument, match=r"graph\.nodes"):
            put(store, "s1", graph=delta(given))
