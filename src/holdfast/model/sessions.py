"""A session's metadata, its listing, and what loading it returns."""

from __future__ import annotations

import enum
from typing import TypeAlias

import msgspec

from holdfast.model.checkpoints import HydratedCheckpoint
from holdfast.model.graph import Graph, Node
from holdfast.model.usage import TokenLedgerEntry
from holdfast.model.values import JsonValue, Payload


class Root(msgspec.Struct, frozen=True, tag="root", tag_field="kind"):
    """A session of its own."""

    @property
    def parent_session_id(self) -> str | None:
        """None: a root has no parent."""
        return None


class Child(msgspec.Struct, frozen=True, tag="child", tag_field="kind", omit_defaults=True):
    """A session made on behalf of another one."""

    parent_session_id: str
    caused_by: JsonValue | None = None


class Fork(msgspec.Struct, frozen=True, tag="fork", tag_field="kind"):
    """A session that began with the path of another one."""

    parent_session_id: str
    from_node_id: str | None
    from_head_revision: int


Relation: TypeAlias = Root | Child | Fork


class StartAt(msgspec.Struct, frozen=True):
    """Where a new session's path begins: a live node, of a named session or of any."""

    node_id: str
    session_id: str | None = None


class SessionCreate(msgspec.Struct, frozen=True, kw_only=True):
    """What a new session is made from; ignored where the session is known already."""

    session_id: str
    relation: Relation = Root()
    model: str = ""
    session_name: str | None = None
    cwd: str | None = None
    created_at_ms: int | None = None
    scope: tuple[str, ...] = ()
    labels: dict[str, str] = {}
    start_at: StartAt | None = None


class SessionMeta(msgspec.Struct, frozen=True, kw_only=True):
    """The stored description of a session."""

    session_id: str
    session_name: str
    created_at_ms: int
    updated_at_ms: int = 0
    model: str = ""
    cwd: str | None = None
    relation: Relation = Root()
    scope: tuple[str, ...] = ()
    labels: dict[str, str] = {}
    activity_us: int | None = None


class SessionListing(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a listing."""

    session_id: str
    session_name: str
    created_at_ms: int
    updated_at_ms: int
    activity_us: int
    cwd: str | None
    model: str
    relation: Relation
    scope: tuple[str, ...]
    labels: dict[str, str]
    head_revision: int
    node_count: int
    user_message_count: int
    first_user_message: str
    config: JsonValue | Payload | None = None


class ListingPage(msgspec.Struct, frozen=True):
    """A page of a listing; `next_cursor` is none on the last one."""

    sessions: list[SessionListing]
    next_cursor: str | None


class ListingOrder(enum.Enum):
    """How a listing is sorted; ties go by session id, ascending."""

    ACTIVITY_DESC = "activity_desc"
    ACTIVITY_ASC = "activity_asc"


class LoadScope(enum.Enum):
    """Which nodes a load returns."""

    ACTIVE_PATH = "active_path"
    FULL_GRAPH = "full_graph"


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """A committed session, read as one snapshot."""

    session_id: str
    head_revision: int
    head_tag: str | None
    config: JsonValue | Payload
    agent_frames: list[JsonValue]
    current_agent_frame_id: str
    graph: Graph
    leaf_missing: bool
    more: bool
    checkpoint_ref: str | None
    checkpoint: HydratedCheckpoint | None
    token_ledger: list[TokenLedgerEntry]


class NodePage(msgspec.Struct, frozen=True):
    """Live nodes by sequence; `more` says whether others follow."""

    nodes: list[Node]
    more: bool


class DeletionReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a deletion did."""

    deleted: bool
    #: How many sessions went, children included.
    session_count: int = 0
