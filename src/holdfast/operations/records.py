"""Stored rows to model records and back; a row that cannot be read is `CorruptRecord`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from holdfast.errors import CorruptRecord
from holdfast.model.graph import Node
from holdfast.model.sessions import Child, Fork, Relation, Root, SessionListing, SessionMeta
from holdfast.model.values import JsonValue, Payload
from holdfast.rules import canonical, scopes

_relation = msgspec.json.Decoder(Root | Child | Fork)
_labels = msgspec.json.Decoder(dict[str, str])


def decode_relation(stored: str | bytes, session_id: str) -> Relation:
    """A stored relation; it never degrades to root (MET-2)."""
    try:
        relation: Relation = _relation.decode(stored)
    except (ValueError, TypeError) as error:
        raise CorruptRecord("session_meta", session_id, "relation") from error
    return relation


def node(row: tuple[Any, ...]) -> Node:
    """A node from the columns `node_columns` lists, behind ordinal and floor."""
    node_id = row[3]
    caused_by = row[9]
    return Node(
        node_id=node_id,
        body=canonical.decode_value(row[6], row[7], row[8], "session_node", node_id),
        parent_node_id=row[4],
        kind=row[5],
        caused_by=None if caused_by is None else _json(caused_by, "session_node", node_id),
        agent_frame_id=row[10],
        role=row[11],
        preview=row[12],
        at_us=row[13],
        sequence=row[2],
    )


def config(row: Mapping[str, Any], session_id: str) -> JsonValue | Payload:
    """The persisted config; `{}` where none was ever given."""
    if row["config"] is None:
        return {}
    return canonical.decode_value(
        row["config_enc"], row["config_tag"], row["config"], "session_config", session_id
    )


def frames(row: Mapping[str, Any], execution_ref: str | None) -> list[JsonValue]:
    """The frames; the current one refers to the checkpoint's execution state (CHK-7)."""
    if row["frames"] is None:
        return []
    stored = _json(row["frames"], "agent_frames", row["id"])
    try:
        for frame in stored:
            if frame["frame_id"] == row["current_frame_id"]:
                frame["execution_state_ref"] = execution_ref
        return list(stored)
    except (TypeError, KeyError) as error:
        raise CorruptRecord("agent_frames", row["id"], "unparsable") from error


def meta(row: Mapping[str, Any]) -> SessionMeta:
    """A session's metadata."""
    return SessionMeta(**_described(row))


def labels(row: Mapping[str, Any]) -> dict[str, str]:
    """A session's labels."""
    stored = row["labels"]
    return {} if stored is None else _labels.decode(stored)


def listing(row: Mapping[str, Any]) -> SessionListing:
    """One line of a listing."""
    return SessionListing(
        **_described(row),
        head_revision=row["head_revision"],
        node_count=row["node_count"],
        user_message_count=row["user_message_count"],
        first_user_message=row["first_user_message"],
        config=config(row, row["id"]) if row["configured"] else None,
    )


def _described(row: Mapping[str, Any]) -> dict[str, Any]:
    """What metadata and a line of a listing both say."""
    return {
        "session_id": row["id"],
        "session_name": row["session_name"],
        "created_at_ms": row["created_at_ms"],
        "updated_at_ms": row["updated_at_ms"],
        "activity_us": row["activity_us"],
        "cwd": row["cwd"],
        "model": row["model"],
        "relation": decode_relation(row["relation"], row["id"]),
        "scope": scopes.decode_scope(row["scope"], row["id"]),
        "labels": labels(row),
    }


def _json(stored: str | bytes, record_kind: str, key: str) -> Any:
    data = stored.encode() if isinstance(stored, str) else stored
    try:
        return canonical.parse(data)
    except ValueError as error:
        raise CorruptRecord(record_kind, key, "unparsable") from error
