"""Small records that many contract tests begin with."""

from __future__ import annotations

from typing import Any

from holdfast import (
    ANY,
    Append,
    CheckpointDraft,
    Lease,
    LeaseOwner,
    Node,
    RuntimeCommit,
    SessionCreate,
    TokenLedgerEntry,
    TokenUsage,
    TurnStamp,
)

ALICE = LeaseOwner("alice", "alice-1")
BOB = LeaseOwner("bob", "bob-1")


#: What some bytes could be called.
AN_ID = "0" * 64
ANOTHER_ID = "f" * 64


def message(node_id: str, text: str = "hello", role: str = "user", **fields: Any) -> Node:
    """A message node; without a parent of its own it follows the one before it."""
    body = {"role": role, "parts": [{"type": "text", "text": text}]}
    return Node(node_id=node_id, body=body, **fields)


def chain(*node_ids: str) -> Append:
    """Messages under the current leaf, one behind the other."""
    return Append([message(node_id, text=node_id) for node_id in node_ids])


def lease_on(store: Any, session_id: str, owner: LeaseOwner = ALICE, ttl_ms: int = 30_000) -> Lease:
    """A live lease, acquired."""
    lease: Lease = store.sessions.claim_lease(session_id, owner, ttl_ms).lease
    return lease


def commit(session_id: str, **fields: Any) -> RuntimeCommit:
    """A commit that checks nothing of the head unless told to."""
    given: dict[str, Any] = {"session_id": session_id, "expected_head_revision": ANY}
    return RuntimeCommit(**given | fields)


def put(store: Any, session_id: str, **fields: Any) -> Any:
    """Commit without owning a lease."""
    return store.sessions.commit_with_fresh_lease(commit(session_id, **fields))


def create(store: Any, session_id: str = "s1", **fields: Any) -> Any:
    """Make a session known; its bound view."""
    return store.sessions.create(SessionCreate(session_id=session_id, **fields))


def path_ids(store: Any, session_id: str = "s1", **options: Any) -> list[str]:
    """The node ids of the active path, root first."""
    loaded = store.sessions.load(session_id, **options)
    return [node.node_id for node in loaded.graph.nodes]


def full_ids(store: Any, session_id: str = "s1") -> list[str]:
    """The node ids of the whole graph, by sequence."""
    return path_ids(store, session_id, scope="full_graph")


def turn(turn_id: str, session_id: str = "s1", **fields: Any) -> TurnStamp:
    """A stamp; its hash is computed unless it is given."""
    return TurnStamp(session_id, turn_id, **fields)


def checkpoint(turn_index: int = 1, **components: Any) -> CheckpointDraft:
    """A checkpoint of a turn with components by role: bytes, or a `Component`."""
    return CheckpointDraft(turn_state={"turn_index": turn_index}, components=components)


def spent(source: str, model: str = "m", *counters: int) -> TokenLedgerEntry:
    """Usage of a pair: input, output, cache read, cache write, reasoning; one input token."""
    return TokenLedgerEntry(source, model, TokenUsage(*(counters or (1,))))
