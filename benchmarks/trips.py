"""PostgreSQL round trips of every operation, counted on the wire, against the budget of BAK-5."""

from __future__ import annotations

import itertools
from typing import Any

import msgspec

from benchmarks import samples, trips_queue
from benchmarks.databases import Bench
from benchmarks.measure import tell
from benchmarks.table import print_table
from benchmarks.trips_kit import MANY, OWNER, Operation
from holdfast import (
    ANY,
    Append,
    Component,
    LeaseOwner,
    Node,
    ReplaceFull,
    RuntimeCommit,
    SessionCreate,
    Splice,
    TurnStamp,
)
from holdfast.testing.wire import CountingProxy

_ids = itertools.count()


def run(*, quick: bool) -> None:
    """Count and print."""
    repeats = 3 if quick else 12  # a statement is prepared on the wire after some repeats
    rows = []
    with Bench() as bench:
        place = bench.database("postgres")
        proxy = bench.enter_context(CountingProxy(place.url))
        store = bench.open(place._replace(url=proxy.url))
        tell("counting round trips")
        for operation in (
            *_commits(store),
            *_leases(store),
            *_others(store),
            *trips_queue.operations(store),
        ):
            trips = max(_count(proxy, operation) for _ in range(repeats))
            verdict = "ok" if trips <= operation.budget else "OVER"
            rows.append((operation.name, trips, operation.budget, verdict))
    print_table(
        "PostgreSQL round trips (BAK-5), counted on the wire",
        ("operation", "trips", "budget", ""),
        rows,
    )


def _count(proxy: CountingProxy, operation: Operation) -> int:
    prepared = operation.before()
    turns = proxy.turns
    operation.call(prepared)
    return proxy.turns - turns


def _nodes(count: int) -> list[Node]:
    return [Node(node_id=f"n{next(_ids)}", body=samples.SMALL) for _ in range(count)]


def _commit(**fields: Any) -> RuntimeCommit:
    return RuntimeCommit(session_id="s", expected_head_revision=ANY, **fields)


def _commits(store: Any) -> list[Operation]:
    """Every kind of commit; those a light commit may be, without a lease and with one."""
    view = store.session("s")
    free = view.commit_with_fresh_lease
    free(_commit(graph=Append(_nodes(MANY))))
    ref = store.blobs.put(b"stored before")

    def leased(commit: RuntimeCommit) -> tuple[RuntimeCommit]:
        lease = view.claim_lease(OWNER).lease
        return (msgspec.structs.replace(commit, session_execution_lease=lease),)

    def give_back(commit: tuple[RuntimeCommit]) -> None:
        view.commit(msgspec.structs.replace(commit[0], release_session_execution_lease=True))

    def stamped(number: int) -> TurnStamp:
        return TurnStamp("s", f"turn-{number}")

    def carrying() -> Any:
        turn: Any = samples.turn("s")
        kept = {"component": Component(ref=ref)}
        return msgspec.structs.replace(
            turn, checkpoint=msgspec.structs.replace(turn.checkpoint, components=kept)
        )

    return [
        Operation("light commit, 1 node", 1, lambda _: free(samples.small("s"))),
        Operation(
            f"light commit, {MANY} nodes", 1, lambda _: free(_commit(graph=Append(_nodes(MANY))))
        ),
        Operation(
            "light commit, config and tag",
            1,
            lambda _: free(_commit(config={"model": "m"}, head_tag="tag")),
        ),
        Operation(
            "light commit, last node replaced",
            1,
            lambda _: free(_commit(graph=Splice(-1, _nodes(1)))),
        ),
        Operation(
            "light commit that creates",
            1,
            lambda name: store.sessions.commit_with_fresh_lease(
                RuntimeCommit(
                    session_id=name,
                    expected_head_revision=0,
                    create=SessionCreate(session_id=name),
                    graph=Append(_nodes(1)),
                )
            ),
            lambda: f"created-{next(_ids)}",
        ),
        Operation(
            "light commit under a lease, released",
            1,
            give_back,
            lambda: leased(samples.small("s")),
        ),
        Operation("turn commit", 2, lambda _: free(samples.turn("s"))),
        Operation(
            "turn commit under a lease, released", 2, give_back, lambda: leased(samples.turn("s"))
        ),
        Operation("turn commit, carried component", 2, free, carrying),
        Operation(
            f"turn commit, {MANY} nodes",
            2,
            free,
            lambda: _commit(graph=Append(_nodes(MANY)), turn_commit=stamped(next(_ids))),
        ),
        Operation(
            f"turn commit, graph replaced by {MANY} nodes",
            2,
            free,
            lambda: _commit(graph=ReplaceFull(_nodes(MANY)), turn_commit=stamped(next(_ids))),
        ),
    ]


def _leases(store: Any) -> list[Operation]:
    view = store.session("leased")
    held = view.claim_lease(OWNER).lease

    def fresh() -> Any:
        return store.session(f"leased-{next(_ids)}")

    def stale() -> Any:
        session = fresh()
        session.claim_lease(LeaseOwner("other", "other-1"), 0)
        return session.lease()

    def view_of(holder: Any) -> Any:
        return store.session(holder.session_id)

    return [
        Operation("claim a lease", 1, lambda session: session.claim_lease(OWNER), fresh),
        Operation("claim one's own lease again", 1, lambda _: view.claim_lease(OWNER)),
        Operation(
            "take over a lease", 1, lambda seen: view_of(seen).reclaim_lease(seen, OWNER), stale
        ),
        Operation("renew a lease", 1, lambda _: view.renew_lease(held)),
        Operation("read a lease", 1, lambda _: view.lease()),
        Operation(
            "release a lease",
            1,
            store.sessions.release_lease,
            lambda: fresh().claim_lease(OWNER).lease,
        ),
    ]


def _others(store: Any) -> list[Operation]:
    sessions, view = store.sessions, store.session("t")
    view.commit_with_fresh_lease(
        msgspec.structs.replace(
            samples.turn("t"), session_id="t", turn_commit=TurnStamp("t", "turn-1")
        )
    )
    node = view.load().graph.nodes[0].node_id
    meta = view.load_meta()
    content = store.blobs.put(b"content")

    def doomed() -> list[str]:
        nodes = _nodes(MANY)
        view.commit_with_fresh_lease(
            RuntimeCommit(session_id="t", expected_head_revision=ANY, graph=ReplaceFull(nodes))
        )
        return [each.node_id for each in nodes]

    return [
        Operation("load a session", 1, lambda _: view.load()),
        Operation("load its last 10 nodes", 1, lambda _: view.load(last=10)),
        Operation("load the full graph", 1, lambda _: view.load("full_graph")),
        Operation("load a node", 1, lambda _: view.load_node(node)),
        Operation("list nodes", 1, lambda _: view.list_nodes()),
        Operation("find a path", 1, lambda _: sessions.find_path(node)),
        Operation("load a turn's stamp", 1, lambda _: view.load_turn_commit("turn-1")),
        Operation(
            "create a session",
            1,
            lambda name: sessions.create(SessionCreate(session_id=name)),
            lambda: f"created-{next(_ids)}",
        ),
        Operation("save metadata", 1, lambda _: view.save_meta(meta)),
        Operation("load metadata", 1, lambda _: view.load_meta()),
        Operation("update labels", 1, lambda _: view.update_labels({"colour": "green"})),
        Operation("a line of the listing", 1, lambda _: view.picker_info()),
        Operation("list sessions", 1, lambda _: sessions.list()),
        Operation(f"tombstone {MANY} nodes", 1, view.tombstone, doomed),
        Operation("read a blob", 1, lambda _: store.blobs.get(content)),
        Operation("look for a blob", 1, lambda _: store.blobs.has(content)),
        Operation("read an artifact", 1, lambda _: store.artifacts.get("space", "name")),
        Operation("list artifacts", 1, lambda _: store.artifacts.list("space")),
    ]
