"""From what the section's reads found to what a commit's delta changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from holdfast.model.graph import Append, ReplaceFull, Unchanged
from holdfast.rules import placing, replacing, splicing
from holdfast.rules.commits import Prepared
from holdfast.rules.graph import Known, Plan, Position, Segment, Stock
from holdfast.transaction import Row


def plan_of(
    prepared: Prepared,
    found_head: Mapping[str, Any],
    rows: Mapping[str, list[Row]],
    *,
    repeatable: bool,
) -> Plan:
    """The plan of a commit's delta; `repeatable` says whether it may be a replay (EXT-5)."""
    session_id, delta, drafts = prepared.commit.session_id, prepared.commit.graph, prepared.drafts
    head = Position(found_head["branch"], found_head["length"], found_head["leaf_id"])
    stock = _stock(rows.get("known_nodes", ()))
    branch_ids = [row["id"] for row in rows.get("reserve_branches", ())]
    if isinstance(delta, Unchanged):
        return placing.plan_unchanged(session_id, delta, head, stock)
    if isinstance(delta, Append):
        return placing.plan_append(
            session_id, delta, drafts, head, stock, branch_ids, repeatable=repeatable
        )
    if isinstance(delta, ReplaceFull):
        return replacing.plan_replace(session_id, delta, drafts, branch_ids)
    path = rows["path_segments"]
    return splicing.plan_splice(
        session_id,
        delta,
        drafts,
        [_segment(row) for row in path],
        path[0]["cut"] if path else 0,
        path[0]["kept_leaf_id"] if path else None,
        head,
        stock,
        branch_ids,
    )


def _stock(rows: Iterable[Mapping[str, Any]]) -> Stock:
    nodes: dict[str, Known] = {}
    gone: dict[str, frozenset[int]] = {}
    for row in rows:
        node_id = row["node_id"]
        if row["gone"]:
            gone[node_id] = gone.get(node_id, frozenset()) | {row["branch"]}
        elif node_id not in nodes or row["compared"]:
            nodes[node_id] = _known(row)
    return Stock(nodes, gone)


def _known(row: Mapping[str, Any]) -> Known:
    identity = (row["kind"], row["tag"], row["body"], row["caused_by"], row["agent_frame_id"])
    return Known(
        node_id=row["node_id"],
        branch=row["branch"],
        ordinal=row["ordinal"],
        tombstoned=bool(row["tombstoned"]),
        extendable=bool(row["extendable"]),
        parent_id=row["parent_id"],
        identity=identity if row["compared"] else None,
        user_text=row["user_text"],
    )


def _segment(row: Mapping[str, Any]) -> Segment:
    return Segment(
        branch=row["branch"],
        base=row["base"],
        upto=row["upto"],
        owned=bool(row["owned"]),
        shared_upto=row["shared_upto"],
        other_base=row["other_base"],
        beyond=bool(row["beyond"]),
    )
