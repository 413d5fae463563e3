"""Reading a session: whole, by path, by pages, by node (GRA-10 to GRA-19, EXT-4)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Literal, TypeAlias

from holdfast.errors import (
    AmbiguousNode,
    CorruptRecord,
    GraphNodeNotFound,
    InvalidArgument,
    MissingBlob,
)
from holdfast.model.checkpoints import HydratedCheckpoint
from holdfast.model.graph import Graph, Node, Path
from holdfast.model.sessions import LoadScope, NodePage, Session
from holdfast.model.usage import TokenLedgerEntry, TokenUsage
from holdfast.operations import records
from holdfast.operations.address import Address
from holdfast.rules import blobs, checks
from holdfast.settings import Settings
from holdfast.transaction import Call, Done, Row, Steps, Transaction, call, read, small_read

Hydrate: TypeAlias = Literal["all", "none"] | Collection[str]

EVERYTHING = checks.MAX_INTEGER
COMPONENT = "component:"


@read
def load(
    env: Settings,
    at: Address,
    scope: LoadScope | str = LoadScope.ACTIVE_PATH,
    leaf: str | None = None,
    last: int | None = None,
    hydrate: Hydrate = "all",
    after_us: int | None = None,
) -> Steps[Session | None]:
    """The session as one snapshot, or none if it was never committed.

    Of its nodes, only those that say they are later than `after_us`, where that is given.
    """
    scope = _scope(scope)
    _check_after(after_us)
    calls = [
        call("read_head", session_id=at.session_id),
        _nodes_call(at, scope, leaf, last),
        call("read_checkpoint", session_id=at.session_id, **_roles(hydrate)),
        call("read_usage", session_id=at.session_id),
    ]
    if leaf is not None:
        calls.append(
            call("locate_leaf", session_id=at.session_id, leaf=checks.identifier(leaf, "leaf"))
        )

    async def steps(tx: Transaction) -> Session | None:
        heads, nodes, parts, usage, *located = await tx.conclude(*calls)
        head = heads[0] if heads else None
        at.met(head)
        if head is None or not head["head_revision"]:
            return None
        if located and not located[0]:
            raise GraphNodeNotFound(at.session_id, str(leaf))
        graph, missing, more = _graph(head, nodes, scope, leaf, last)
        if after_us is not None:
            graph = Graph(
                [node for node in graph.nodes if _is_after(node, after_us)], graph.leaf_node_id
            )
        checkpoint = _checkpoint(at.session_id, head, parts)
        return _session(head, graph, missing, more, checkpoint, usage)

    return steps


def _check_after(after_us: int | None) -> None:
    if after_us is not None:
        checks.instant(after_us, "after_us")


def _is_after(node: Node, after_us: int) -> bool:
    return node.at_us is not None and node.at_us > after_us


def _scope(scope: LoadScope | str) -> LoadScope:
    try:
        return LoadScope(scope)
    except ValueError:
        raise InvalidArgument("scope", "active_path or full_graph") from None


def _nodes_call(at: Address, scope: LoadScope, leaf: str | None, last: int | None) -> Call:
    if scope is LoadScope.ACTIVE_PATH:
        if leaf is None:
            return call("read_path", session_id=at.session_id, last=_to_read(last))
        return call("read_path_to", session_id=at.session_id, leaf=leaf, last=_to_read(last))
    if leaf is not None or last is not None:
        raise InvalidArgument("scope", "leaf and last belong to the active path")
    everything = {"after_sequence": 0, "after_us": None, "limit": EVERYTHING}
    return call("list_nodes", session_id=at.session_id, **everything)


def _to_read(last: int | None) -> int | None:
    """How many nodes to read: none is asked for with one, which tells whether there are any."""
    return None if last is None else max(checks.count(last, "last"), 1)


def _nearest(rows: list[Row], last: int | None) -> tuple[list[Row], bool]:
    """What was asked for, and whether older nodes exist: the ordinal is above the floor."""
    if last == 0:
        return [], bool(rows)
    return rows, bool(rows) and rows[0][0] > rows[0][1]


def _roles(hydrate: Hydrate) -> dict[str, Any]:
    if isinstance(hydrate, str):
        if hydrate not in ("all", "none"):
            raise InvalidArgument("hydrate", "all, none or a collection of roles")
        return {"all_roles": hydrate == "all", "roles": []}
    roles = [checks.identifier(role, "hydrate") for role in checks.listed(hydrate, "hydrate")]
    return {"all_roles": False, "roles": roles}


def _graph(
    head: Mapping[str, Any],
    rows: list[Row],
    scope: LoadScope,
    leaf: str | None,
    last: int | None,
) -> tuple[Graph, bool, bool]:
    """The graph, whether its leaf cannot be seen (GRA-12), and whether older nodes exist."""
    nearest, more = _nearest(rows, last)
    nodes = [records.node(row) for row in nearest]
    leaf_id = head["leaf_id"] if leaf is None else leaf
    if scope is LoadScope.FULL_GRAPH:
        missing = leaf_id is not None and all(node.node_id != leaf_id for node in nodes)
        return Graph(nodes, leaf_id), missing, False
    missing = leaf is None and leaf_id is not None and not rows and head["length"] > 0
    return Graph(nodes, leaf_id), missing, more


def _checkpoint(
    session_id: str, head: Mapping[str, Any], parts: list[Row]
) -> HydratedCheckpoint | None:
    if head["checkpoint_ref"] is None:
        return None
    by_slot = {part["slot"]: part for part in parts}
    stored = by_slot.pop("checkpoint", None)
    if stored is None or not stored["present"]:
        raise MissingBlob(head["checkpoint_ref"], "checkpoint_manifest", session_id)
    manifest = blobs.parse_manifest(stored["ref"], _bytes(stored))
    by_role = {slot.removeprefix(COMPONENT): part for slot, part in by_slot.items()}
    # A collection goes by the rows: what the manifest names and they do not is about to be lost.
    referred = {role: part["ref"] for role, part in by_role.items()}
    if stored["ref"] != head["checkpoint_ref"] or referred != manifest.refs:
        raise CorruptRecord("checkpoint_manifest", head["checkpoint_ref"], "references")
    bodies: dict[str, bytes] = {}
    for role, part in by_role.items():
        if not part["present"]:
            raise MissingBlob(part["ref"], role, session_id)
        if part["body"] is not None:
            bodies[role] = _bytes(part)
    return HydratedCheckpoint(
        turn_state=manifest.turn_state,
        component_refs=manifest.refs,
        components=bodies,
        plugin_snapshot_revision=manifest.plugin_snapshot_revision,
    )


def _bytes(part: Mapping[str, Any]) -> bytes:
    return blobs.decode_blob(part["ref"], part["codec"], part["raw_len"], part["body"])


def _session(
    head: Mapping[str, Any],
    graph: Graph,
    missing: bool,
    more: bool,
    checkpoint: HydratedCheckpoint | None,
    usage: list[Row],
) -> Session:
    refs = checkpoint.component_refs if checkpoint else {}
    return Session(
        session_id=head["id"],
        head_revision=head["head_revision"],
        head_tag=head["head_tag"],
        config=records.config(head, head["id"]),
        agent_frames=records.frames(head, refs.get("execution_state")),
        current_agent_frame_id=head["current_frame_id"] or "",
        graph=graph,
        leaf_missing=missing,
        more=more,
        checkpoint_ref=head["checkpoint_ref"],
        checkpoint=checkpoint,
        token_ledger=[_ledger_entry(row) for row in usage],
    )


def _ledger_entry(row: Mapping[str, Any]) -> TokenLedgerEntry:
    counters = {name: row[name] for name in TokenUsage.__struct_fields__}
    return TokenLedgerEntry(row["source"], row["model"], TokenUsage(**counters))


@read
def list_nodes(
    env: Settings,
    at: Address,
    after_sequence: int = 0,
    limit: int = 100,
    after_us: int | None = None,
) -> Steps[NodePage]:
    """A page of the live nodes of the whole graph, by sequence; `after_us` as in `load`."""
    checks.count(after_sequence, "after_sequence")
    _check_after(after_us)
    if checks.limit(limit) == 0:
        return Done(NodePage([], False))

    async def steps(tx: Transaction) -> NodePage:
        heads, rows = await tx.conclude(
            call("read_lease", session_id=at.session_id),
            call(
                "list_nodes",
                session_id=at.session_id,
                after_sequence=after_sequence,
                after_us=after_us,
                limit=limit + 1,
            ),
        )
        at.met(heads[0] if heads else None)
        nodes = [records.node(row) for row in rows[:limit]]
        return NodePage(nodes, len(rows) > limit)

    return steps


@small_read
def load_node(env: Settings, at: Address, node_id: str) -> Steps[Node | None]:
    """A live node of the session, or none."""
    checks.identifier(node_id, "node_id")

    async def steps(tx: Transaction) -> Node | None:
        row = await tx.maybe("read_node", session_id=at.session_id, node_id=node_id)
        if row is not None:
            at.met({"key": row[0]})
            return records.node(row)
        if at.bound:
            # Only a view has to know whether the node is gone or its session.
            at.met(await tx.maybe("read_lease", session_id=at.session_id))
        return None

    return steps


MAX_NAMED_SESSIONS = 10


@read
def find_path(env: Settings, node_id: str, last: int | None = None) -> Steps[Path | None]:
    """The path that ends in a live node, whichever session holds it; none without one."""
    checks.identifier(node_id, "node_id")
    to_read = _to_read(last)

    async def steps(tx: Transaction) -> Path | None:
        found, rows = await tx.conclude(
            call("find_nodes", node_id=node_id, limit=MAX_NAMED_SESSIONS + 1),
            call("find_path", node_id=node_id, last=to_read),
        )
        if holder(node_id, found) is None:
            return None
        nearest, more = _nearest(rows, last)
        return Path([records.node(row) for row in nearest], more)

    return steps


def holder(node_id: str, found: list[Row]) -> str | None:
    """The session that answers for a node id nobody else uses; none if no session does."""
    if len(found) > 1:
        raise AmbiguousNode(node_id, [row["id"] for row in found[:MAX_NAMED_SESSIONS]])
    return found[0]["id"] if found else None
