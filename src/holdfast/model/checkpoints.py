"""Checkpoints, their components, and the blobs that hold them."""

from __future__ import annotations

import enum
from collections.abc import Mapping

import msgspec

from holdfast.model.values import JsonValue


class Component(msgspec.Struct, frozen=True, kw_only=True):
    """One part of a checkpoint: its bytes, or the ref of bytes stored before.

    Where both are given the bytes win.
    """

    body: bytes | None = None
    ref: str | None = None


class CheckpointDraft(msgspec.Struct, frozen=True, kw_only=True):
    """A checkpoint to store: the turn's state and up to 64 components by role."""

    turn_state: JsonValue
    components: Mapping[str, Component | bytes] = {}
    plugin_snapshot_revision: int | None = None


class HydratedCheckpoint(msgspec.Struct, frozen=True, kw_only=True):
    """A checkpoint as read: every component's ref, and the bodies that were asked for."""

    turn_state: JsonValue
    component_refs: dict[str, str]
    components: dict[str, bytes]
    plugin_snapshot_revision: int | None = None


class BlobKind(enum.Enum):
    """What a blob is; decides whether it is compressed by default."""

    GENERIC = "generic_blob"
    CHECKPOINT_MANIFEST = "checkpoint_manifest"
    TOOL_STATE = "tool_state"
    PLUGIN_SNAPSHOT = "plugin_session_snapshot"
    EXECUTION_STATE = "execution_state_snapshot"
    COMPONENT = "component"
    MODULE_ARTIFACT = "module_artifact"
    PROCESS_ENV = "process_execution_env"


class BlobDescriptor(msgspec.Struct, frozen=True):
    """How to store bytes; `compressible` none means the kind's own default."""

    kind: BlobKind = BlobKind.GENERIC
    compressible: bool | None = None


class Compression(enum.Enum):
    """From which size compressible content is compressed."""

    LOW_LATENCY = "low_latency"
    BALANCED = "balanced"
    COMPACT = "compact"


class GcReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a collection found and freed."""

    root_count: int
    retained_blob_count: int
    deleted_blob_count: int
    freed_bytes: int
    missing_root_count: int


class VacuumReport(msgspec.Struct, frozen=True, kw_only=True):
    """Rows a vacuum removed for good."""

    removed_node_count: int
    removed_turn_input_count: int = 0
    #: Rows of deleted sessions and replaced graphs that nobody could reach any more.
    removed_unreachable_count: int = 0


class Artifact(msgspec.Struct, frozen=True):
    """A name in a namespace, and the blob it points at."""

    name: str
    ref: str
