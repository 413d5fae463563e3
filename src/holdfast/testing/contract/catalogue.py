"""Every operation of the face, with arguments it accepts: for what holds for all of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from holdfast import (
    Lease,
    LeaseHolder,
    SessionCreate,
    SessionMeta,
)
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


#: Operations that take the session's id, or a record that says it; also on the bound view.
BY_ID: dict[str, Operation] = {
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
    "delete": lambda at, id: at.delete(id),
}
BY_RECORD: dict[str, Operation] = {
    "commit": lambda at, id: at.commit(a_commit(id)),
    "commit_with_fresh_lease": lambda at, id: at.commit_with_fresh_lease(
        commit(id, graph=chain("n"))
    ),
    "save_meta": lambda at, id: at.save_meta(a_meta(id)),
    "reclaim_lease": lambda at, id: at.reclaim_lease(a_holder(id), ALICE),
    "renew_lease": lambda at, id: at.renew_lease(a_lease(id)),
    "release_lease": lambda at, id: at.release_lease(a_lease(id)),
}
#: What the bound view does not have.
OF_THE_STORE: dict[str, Operation] = {
    "create": lambda at, id: at.create(SessionCreate(session_id=id)),
    "open": lambda at, id: at.open(id),
}
ABOUT_NO_SESSION: dict[str, Operation] = {
    "sessions.list": lambda store, _: store.sessions.list(),
    "sessions.find_path": lambda store, _: store.sessions.find_path("n"),
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


def _on_sessions(name: str, operation: Operation) -> tuple[str, Operation]:
    return f"sessions.{name}", lambda store, id: operation(store.sessions, id)


def _on_attachments(name: str, operation: Operation) -> tuple[str, Operation]:
    return f"attachments.{name}", lambda store, id: operation(store.attachments, id)


#: Operations about one session, by their place on the store.
ABOUT_A_SESSION: dict[str, Operation] = dict(
    _on_sessions(name, each) for name, each in (BY_ID | BY_RECORD | OF_THE_STORE).items()
)
ABOUT_A_SESSION |= dict(_on_attachments(name, each) for name, each in ATTACHMENTS.items())
EVERY: dict[str, Operation] = ABOUT_A_SESSION | ABOUT_NO_SESSION

#: Everything else may write.
_READS = frozenset(
    {"load", "load_node", "list_nodes", "load_turn_commit", "load_meta", "picker_info", "lease"}
    | {"open", "list", "find_path", "get", "has"}
    | {"stream", "holds", "list_uncommitted", "list_refs", "is_live", "live_refs"}
)


def writes(name: str) -> bool:
    """Whether an operation may write."""
    return name.rpartition(".")[2] not in _READS and name != "artifacts.list"


def on_view(view: Any, name: str) -> Any:
    """Call an operation on a bound view."""
    if name in BY_ID:
        return BY_ID[name](_Unnamed(view), "")
    return BY_RECORD[name](view, view.session_id)


class _Unnamed:
    """A bound view that is told a session id all the same, and leaves it out."""

    def __init__(self, view: Any) -> None:
        self._view = view

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._view, name)
        return lambda _, *args: method(*args)
