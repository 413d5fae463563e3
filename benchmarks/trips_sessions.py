"""Operations on sessions whose round trips are counted: commits, leases, and the rest."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from benchmarks import samples
from benchmarks.trips_kit import MANY, OWNER, Given, Row, new
from holdfast import (
    ANY,
    Append,
    Component,
    Lease,
    LeaseOwner,
    Node,
    ReplaceFull,
    RuntimeCommit,
    SessionCreate,
    Splice,
    StartAt,
    TurnStamp,
)

FREE, UNDER_A_LEASE = "sessions.commit_with_fresh_lease", "sessions.commit"
#: The session that is written, and the one that only is read, with its first node and its turn.
WRITTEN, READ, NODE, TURN = "s", "read", "the first", "turn-1"


# --- commits ---------------------------------------------------------------------------------


def nodes(count: int) -> list[Node]:
    """So many new messages, one behind the other."""
    return [Node(node_id=new("n"), body=samples.SMALL) for _ in range(count)]


def appended(count: int) -> Append:
    """So many new messages, behind the others."""
    return Append(nodes(count))


def commit(session_id: str = WRITTEN, **fields: Any) -> RuntimeCommit:
    """A commit that checks nothing of the head."""
    return RuntimeCommit(session_id=session_id, expected_head_revision=ANY, **fields)


def stamped(**fields: Any) -> RuntimeCommit:
    """A commit of a turn."""
    return commit(turn_commit=TurnStamp(WRITTEN, new("turn")), **fields)


def created(**fields: Any) -> RuntimeCommit:
    """A commit of one message that makes its session."""
    name = new("created")
    create = SessionCreate(session_id=name, **fields)
    return commit(name, create=create, graph=appended(1))


def each(make: Callable[[], RuntimeCommit]) -> Given:
    """Another commit for every call, of a session that has nodes already."""

    def given(store: Any) -> tuple[RuntimeCommit]:
        if store.sessions.open(WRITTEN) is None:
            store.sessions.commit_with_fresh_lease(commit(graph=appended(MANY)))
        return (make(),)

    return given


def leased(make: Callable[[str], RuntimeCommit]) -> Given:
    """A commit under a lease that it gives back."""

    def given(store: Any) -> tuple[RuntimeCommit]:
        lease = store.sessions.claim_lease(WRITTEN, OWNER).lease
        fields = {"session_execution_lease": lease, "release_session_execution_lease": True}
        return (msgspec.structs.replace(make(WRITTEN), **fields),)

    return given


def carrying(store: Any) -> tuple[RuntimeCommit]:
    """A turn whose checkpoint refers to bytes stored before."""
    turn: Any = samples.turn(WRITTEN)
    components = {"component": Component(ref=store.blobs.put(b"stored before"))}
    checkpoint = msgspec.structs.replace(turn.checkpoint, components=components)
    return (msgspec.structs.replace(turn, checkpoint=checkpoint),)


def elsewhere(session_id: str | None) -> Given:
    """A commit whose new session begins at a node; whose that is may be left unsaid."""
    return with_read(lambda: (created(start_at=StartAt(NODE, session_id)),))


def with_read(make: Callable[[], tuple[Any, ...]]) -> Given:
    """Arguments about the session that only is read, which is made the first time."""

    def given(store: Any) -> tuple[Any, ...]:
        if store.sessions.open(READ) is None:
            graph = Append([Node(node_id=NODE, body=samples.SMALL), *nodes(MANY)])
            stamp = TurnStamp(READ, TURN)
            whole = msgspec.structs.replace(samples.turn(READ), graph=graph, turn_commit=stamp)
            store.sessions.commit_with_fresh_lease(whole)
        return make()

    return given


def reading(*arguments: Any) -> Given:
    """The same arguments each time, about the session that only is read."""
    return with_read(lambda: arguments)


COMMITS = (
    Row("light commit, 1 node", FREE, 1, each(lambda: commit(graph=appended(1)))),
    Row(f"light commit, {MANY} nodes", FREE, 1, each(lambda: commit(graph=appended(MANY)))),
    Row(
        "light commit, config and tag",
        FREE,
        1,
        each(lambda: commit(config={"model": "m"}, head_tag="tag")),
    ),
    Row(
        "light commit, last node replaced",
        FREE,
        1,
        each(lambda: commit(graph=Splice(-1, nodes(1)))),
    ),
    Row("light commit that creates", FREE, 1, each(created)),
    Row("light commit under a lease, released", UNDER_A_LEASE, 1, leased(samples.small)),
    Row("turn commit", FREE, 2, each(lambda: samples.turn(WRITTEN))),
    Row("turn commit under a lease, released", UNDER_A_LEASE, 2, leased(samples.turn)),
    Row("turn commit, carried component", FREE, 2, carrying),
    Row(f"turn commit, {MANY} nodes", FREE, 2, each(lambda: stamped(graph=appended(MANY)))),
    Row(
        f"turn commit, graph replaced by {MANY} nodes",
        FREE,
        2,
        each(lambda: stamped(graph=ReplaceFull(nodes(MANY)))),
    ),
    Row("turn commit that creates", FREE, 2, each(lambda: samples.turn(new("turned")))),
    Row("commit that begins elsewhere, in a named session", FREE, 4, elsewhere(READ)),
    Row("commit that begins elsewhere, wherever the node is", FREE, 5, elsewhere(None)),
)


# --- leases ----------------------------------------------------------------------------------


def free_session(_: Any) -> tuple[str, LeaseOwner]:
    """A session that nobody has."""
    return new("leased"), OWNER


def held(store: Any) -> tuple[Lease]:
    """A lease."""
    return (store.sessions.claim_lease(*free_session(store)).lease,)


def held_again(store: Any) -> tuple[str, LeaseOwner]:
    """A session that the claimant has already."""
    return held(store)[0].session_id, OWNER


def ended(store: Any) -> tuple[Any, LeaseOwner]:
    """A holder whose lease has ended."""
    session_id = new("leased")
    store.sessions.claim_lease(session_id, LeaseOwner("other", "other-1"), 0)
    return store.sessions.lease(session_id), OWNER


LEASES = (
    Row("claim a lease", "sessions.claim_lease", 1, free_session),
    Row("claim one's own lease again", "sessions.claim_lease", 1, held_again),
    Row("take over a lease", "sessions.reclaim_lease", 1, ended),
    Row("renew a lease", "sessions.renew_lease", 1, held),
    Row("read a lease", "sessions.lease", 1, lambda store: (held(store)[0].session_id,)),
    Row("release a lease", "sessions.release_lease", 1, held),
)


# --- sessions --------------------------------------------------------------------------------


def a_session(store: Any) -> str:
    """A session of its own, of MANY nodes, a checkpoint and a stamp."""
    name = new("session")
    turn = msgspec.structs.replace(samples.turn(name), graph=appended(MANY))
    store.sessions.commit_with_fresh_lease(turn)
    return name


def doomed(store: Any) -> tuple[str, list[str]]:
    """A session and all of its nodes."""
    name = a_session(store)
    return name, [node.node_id for node in store.sessions.load(name).graph.nodes]


def described(store: Any) -> tuple[Any]:
    """The metadata of a session."""
    return (store.sessions.load_meta(a_session(store)),)


SESSIONS = (
    Row("load a session", "sessions.load", 1, reading(READ)),
    Row("load its last 10 nodes", "sessions.load", 1, reading(READ, "active_path", None, 10)),
    Row("load the full graph", "sessions.load", 1, reading(READ, "full_graph")),
    Row("load a node", "sessions.load_node", 1, reading(READ, NODE)),
    Row("list nodes", "sessions.list_nodes", 1, reading(READ)),
    Row("find a path", "sessions.find_path", 1, reading(NODE)),
    Row("load a turn's stamp", "sessions.load_turn_commit", 1, reading(READ, TURN)),
    Row(
        "create a session",
        "sessions.create",
        1,
        lambda _: (SessionCreate(session_id=new("created")),),
    ),
    Row("look for a session", "sessions.open", 1, reading(READ)),
    Row("save metadata", "sessions.save_meta", 1, described),
    Row("load metadata", "sessions.load_meta", 1, reading(READ)),
    Row("update labels", "sessions.update_labels", 1, reading(READ, {"colour": "green"})),
    Row("a line of the listing", "sessions.picker_info", 1, reading(READ)),
    Row("list sessions", "sessions.list", 1, reading()),
    Row(f"tombstone {MANY} nodes", "sessions.tombstone", 1, doomed),
    Row(
        f"fork a session of {MANY} nodes",
        "sessions.fork",
        None,
        with_read(lambda: (READ, SessionCreate(session_id=new("fork")))),
    ),
    Row(
        f"delete a session of {MANY} nodes",
        "sessions.delete",
        None,
        lambda store: (a_session(store),),
    ),
)

ROWS = (*COMMITS, *LEASES, *SESSIONS)
