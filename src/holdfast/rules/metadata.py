"""Session metadata as it is stored: what is legal, and the columns it becomes (section 4)."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.errors import InvalidArgument, SessionBindingMismatch
from holdfast.model.sessions import (
    Child,
    Fork,
    Relation,
    Root,
    SessionCreate,
    SessionMeta,
    StartAt,
)
from holdfast.rules import canonical, checks, scopes


def check_create(create: SessionCreate, session_id: str) -> None:
    """What a commit may bring to make its session with (EXT-11)."""
    checks.record(create, SessionCreate, "create")
    if create.session_id != session_id:
        raise SessionBindingMismatch(session_id, create.session_id)
    new_meta(create)
    if create.start_at is not None:
        start = checks.record(create.start_at, StartAt, "create.start_at")
        checks.identifier(start.node_id, "create.start_at.node_id")
        if start.session_id is not None:
            checks.identifier(start.session_id, "create.start_at.session_id")


def new_meta(create: SessionCreate) -> dict[str, Any]:
    """The columns of a new session's metadata, checked."""
    given = create.session_name
    return described(create) | {
        "session_name": name(create.session_id if given is None else given),
        "created_at_ms": optional_instant(create.created_at_ms, "created_at_ms"),
        "activity_us": None,
    }


def described(record: SessionCreate | SessionMeta) -> dict[str, Any]:
    """The columns that a new record and a saved one have in common, checked."""
    labels = scopes.check_labels(record.labels)
    cwd = record.cwd
    return {
        "session_id": checks.identifier(record.session_id, "session_id"),
        "model": checks.text(record.model, "model", checks.TEXT_BYTES),
        "cwd": None if cwd is None else checks.text(cwd, "cwd", checks.TEXT_BYTES),
        **_related(record.relation),
        "scope": scopes.encode_scope(record.scope),
        "label_names": list(labels),
        "label_values": list(labels.values()),
    }


def _related(relation: Relation) -> dict[str, Any]:
    if not isinstance(relation, Root | Child | Fork):
        raise InvalidArgument("relation", "wrong_type")
    parent = relation.parent_session_id
    if not isinstance(relation, Root):
        checks.identifier(parent, "relation.parent_session_id")
    if isinstance(relation, Fork):
        checks.count(relation.from_head_revision, "relation.from_head_revision")
        if relation.from_node_id is not None:
            checks.identifier(relation.from_node_id, "relation.from_node_id")
    return {
        "relation": _encode_relation(relation),
        "relation_kind": type(relation).__name__.lower(),
        "parent_session_id": parent,
    }


def name(given: str) -> str:
    """What a session is called."""
    return checks.text(given, "session_name", checks.TEXT_BYTES)


def optional_instant(value: int | None, field: str) -> int | None:
    """A point in time, or none."""
    return None if value is None else checks.instant(value, field)


def _encode_relation(relation: Relation) -> str:
    kind = type(relation).__name__.lower()
    given = {
        name: value
        for name, value in msgspec.structs.asdict(relation).items()
        if name != "caused_by" or value is not None
    }
    return canonical.canonical({"kind": kind} | given, "relation").decode()
