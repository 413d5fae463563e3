"""Every operation of the face, with arguments it accepts: for what holds for all of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from holdfast import (
    Lease,
    LeaseHolder,
    QueuedWorkClaim,
    SessionCreate,
    SessionMeta,
    TurnInputClaim,
)
from holdfast.testing.contract.lanes import said, work
from holdfast.testing.contract.samples import ALICE, AN_ID, BOB, chain, commit

#: An operation on a store, about the session of this id where it is about one.
Operation = Callable[[Any, str], Any]

_CONTENT = b"some bytes"


def a_lease(session_id: str) -> Lease:
    """A lease that nobody ever handed out."""
    return Lease(session_id, ALICE, "no such token", 1, 0, 1)


def a_holder(session_id: str) -> LeaseHolder:
    """A holder that nobody ever was."""
    return LeaseHolder(session_id, BOB, 1, 0, 1, live=True)


def a_meta(session_id: str) -> SessionMeta:
    """A record to save."""
    return SessionMeta(session_id=session_id, session_name="named", created_at_ms=1)


def a_commit(session_id: str) -> Any:
    """A commit of one node, under a lease that nobody handed out."""
    return commit(session_id, graph=chain("n"), session_execution_lease=a_lease(session_id))


def a_work_claim(session_id: str) -> QueuedWorkClaim:
    """A claim of queued work that nobody was ever granted."""
    return QueuedWorkClaim(
        session_id=session_id,
        claim_id="qwc:1:1",
        owner=ALICE,
        claim_token="no such token",
        claim_count=1,
        session_lease_generation=1,
        batches=[],
    )


def an_input_claim(session_id: str) -> TurnInputClaim:
    """A claim of turn inputs that nobody was ever granted."""
    return TurnInputClaim(
        session_id=session_id,
        claim_id="tic:1:1",
        owner=ALICE,
        claim_token="no such token",
        claim_count=1,
        session_lease_generation=1,
        turn_id=None,
        checkpoint=None,
        inputs=[],
    )


def _within(area: str, operations: dict[str, Operation]) -> dict[str, Operation]:
    """Operations by their place on the store."""
    return {f"{area}.{name}": each for name, each in operations.items()}


#: Operations that take the session's id, or a record that says it, given the area they are in:
#: one of the store, or what a bound view has of it.
BY_ID: dict[str, Operation] = (
    _within(
        "sessions",
        {
            "load": lambda at, id: at.load(id),
            "load_node": lambda at, id: at.load_node(id, "n"),
            "list_nodes": lambda at, id: at.list_nodes(id),
            "load_turn_commit": lambda at, id: at.load_turn_commit(id, "t1"),
            "load_meta": lambda at, id: at.load_meta(id),
            "picker_info": lambda at, id: at.picker_info(id),
            "lease": lambda at, id: at.lease(id),
            "update_labels": lambda at, id: at.update_labels(id, {"name": "value"}),
            "tombstone": lambda at, id: at.tombstone(id, ["n"]),
            "claim_lease": lambda at, id: at.claim_lease(id, ALICE),
            "vacuum": lambda at, id: at.vacuum(id),
            "prune_turn_commits": lambda at, id: at.prune_turn_commits(id, 0),
            "fork": lambda at, id: at.fork(id, SessionCreate(session_id=f"{id}-fork")),
            "prune_settled_source_keys": lambda at, id: at.prune_settled_source_keys(id, 0),
            "delete": lambda at, id: at.delete(id),
        },
    )
    | _within(
        "queue",
        {
            "list": lambda at, id: at.list(id),
            "list_pending": lambda at, id: at.list_pending(id),
            "cancel": lambda at, id: at.cancel(id, "qwb:none"),
        },
    )
    | _within(
        "inputs",
        {
            "list": lambda at, id: at.list(id),
            "list_pending": lambda at, id: at.list_pending(id),
            "cancel": lambda at, id: at.cancel(id, ["i1"]),
            "cancel_suffix": lambda at, id: at.cancel_suffix(id, "i1"),
        },
    )
)
BY_RECORD: dict[str, Operation] = (
    _within(
        "sessions",
        {
            "commit": lambda at, id: at.commit(a_commit(id)),
            "commit_with_fresh_lease": lambda at, id: at.commit_with_fresh_lease(
                commit(id, graph=chain("n"))
            ),
            "save_meta": lambda at, id: at.save_meta(a_meta(id)),
            "reclaim_lease": lambda at, id: at.reclaim_lease(a_holder(id), ALICE),
            "renew_lease": lambda at, id: at.renew_lease(a_lease(id)),
            "release_lease": lambda at, id: at.release_lease(a_lease(id)),
        },
    )
    | _within(
        "queue",
        {
            "enqueue": lambda at, id: at.enqueue(work(session_id=id)),
            "claim": lambda at, id: at.claim(a_lease(id)),
            "claim_command": lambda at, id: at.claim_command(a_lease(id)),
            "claim_exactly": lambda at, id: at.claim_exactly(a_lease(id), "idle", ["qwb:none"]),
            "claim_at_checkpoint": lambda at, id: at.claim_at_checkpoint(
                a_lease(id), "t1", "after_work"
            ),
            "abandon": lambda at, id: at.abandon(a_work_claim(id)),
        },
    )
    | _within(
        "inputs",
        {
            "enqueue": lambda at, id: at.enqueue(said(session_id=id)),
            "claim_active": lambda at, id: at.claim_active(a_lease(id), "t1", "after_work"),
            "claim_next": lambda at, id: at.claim_next(a_lease(id)),
            "abandon": lambda at, id: at.abandon(an_input_claim(id)),
            "recover_orphaned": lambda at, id: at.recover_orphaned(a_lease(id)),
        },
    )
)
#: What the bound view does not have.
OF_THE_STORE: dict[str, Operation] = (
    _within(
        "sessions",
        {
            "create": lambda at, id: at.create(SessionCreate(session_id=id)),
            "open": lambda at, id: at.open(id),
        },
    )
    | _within(
        "queue",
        {
            "enqueue_many": lambda at, id: at.enqueue_many([work(session_id=id)]),
            "abandon_many": lambda at, id: at.abandon_many([a_work_claim(id)]),
        },
    )
    | _within(
        "inputs",
        {
            "abandon_many": lambda at, id: at.abandon_many([an_input_claim(id)]),
        },
    )
)
ABOUT_NO_SESSION: dict[str, Operation] = {
    "sessions.list": lambda store, _: store.sessions.list(),
    "sessions.find_path": lambda store, _: store.sessions.find_path("n"),
    "queue.ready_sessions": lambda store, _: store.queue.ready_sessions(),
    "queue.next_ready_at_ms": lambda store, _: store.queue.next_ready_at_ms(),
    "blobs.put": lambda store, _: store.blobs.put(_CONTENT),
    "blobs.get": lambda store, _: store.blobs.get("no such ref"),
    "blobs.has": lambda store, _: store.blobs.has("no such ref"),
    "artifacts.put": lambda store, _: store.artifacts.put("space", "name", _CONTENT),
    "artifacts.get": lambda store, _: store.artifacts.get("space", "name"),
    "artifacts.delete": lambda store, _: store.artifacts.delete("space", "name"),
    "artifacts.list": lambda store, _: store.artifacts.list("space"),
    "maintenance.collect_garbage": lambda store, _: store.maintenance.collect_garbage(),
    "maintenance.vacuum": lambda store, _: store.maintenance.vacuum(),
    "maintenance.prune_turn_commits": lambda store, _: store.maintenance.prune_turn_commits(0),
    "maintenance.prune_settled_source_keys": lambda store, _: (
        store.maintenance.prune_settled_source_keys(0)
    ),
    "maintenance.forget_aged_intents": lambda store, _: store.maintenance.forget_aged_intents(0),
    "maintenance.reclaim_attachments": lambda store, _: store.maintenance.reclaim_attachments(0),
    "attachments.list_uncommitted": lambda store, _: store.attachments.list_uncommitted(0),
    "attachments.list_refs": lambda store, _: store.attachments.list_refs(),
    "attachments.is_live": lambda store, _: store.attachments.is_live(AN_ID, 0),
    "attachments.live_refs": lambda store, _: store.attachments.live_refs([AN_ID], 0),
}
#: What is on `store.attachments` and, without the id, on a view's.
ATTACHMENTS: dict[str, Operation] = {
    "put": lambda at, id: at.put(id, _CONTENT),
    "get": lambda at, id: at.get(id, AN_ID),
    "stream": lambda at, id: list(at.stream(id, AN_ID)),
    "delete": lambda at, id: at.delete(id, AN_ID),
    "holds": lambda at, id: at.holds(id, AN_ID),
    "record_intent": lambda at, id: at.record_intent(id, AN_ID),
    "commit_refs": lambda at, id: at.commit_refs(id, [AN_ID]),
}


def _on_store(name: str, operation: Operation) -> Operation:
    return lambda store, id: operation(getattr(store, name.partition(".")[0]), id)


#: Operations about one session, by their place on the store.
ABOUT_A_SESSION: dict[str, Operation] = {
    name: _on_store(name, each)
    for name, each in (
        BY_ID | BY_RECORD | OF_THE_STORE | _within("attachments", ATTACHMENTS)
    ).items()
}
EVERY: dict[str, Operation] = ABOUT_A_SESSION | ABOUT_NO_SESSION

#: Everything else may write.
_READS = frozenset(
    {"load", "load_node", "list_nodes", "load_turn_commit", "load_meta", "picker_info", "lease"}
    | {"open", "list", "find_path", "get", "has"}
    | {"list_pending", "ready_sessions", "next_ready_at_ms"}
    | {"stream", "holds", "list_uncommitted", "list_refs", "is_live", "live_refs"}
)


def writes(name: str) -> bool:
    """Whether an operation may write."""
    return name.rpartition(".")[2] not in _READS


def area_of(view: Any, name: str) -> Any:
    """Where on a bound view an operation is: its sessions' verbs are its own."""
    area = name.partition(".")[0]
    return view if area == "sessions" else getattr(view, area)


def on_view(view: Any, name: str) -> Any:
    """Call an operation on a bound view."""
    at = area_of(view, name)
    if name in BY_ID:
        return BY_ID[name](Unnamed(at), "")
    return BY_RECORD[name](at, view.session_id)


class Unnamed:
    """A bound view, or an area of it, that is told a session id all the same, and leaves it out."""

    def __init__(self, at: Any) -> None:
        self._at = at

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._at, name)
        return lambda _, *args: method(*args)
