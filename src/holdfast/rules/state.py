"""What a commit carries beside its nodes: config, frames and checkpoint, ready to store."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from holdfast.errors import InvalidArgument
from holdfast.model.checkpoints import BlobDescriptor, BlobKind, CheckpointDraft, Component
from holdfast.model.values import Keep
from holdfast.rules import blobs, checks
from holdfast.rules.blobs import StoredBlob
from holdfast.rules.canonical import Encoded, canonical, encode_value
from holdfast.settings import Settings

MAX_FRAMES = 1_000
MAX_COMPONENTS = 64


class Checkpoint(msgspec.Struct, frozen=True):
    """A checkpoint ready to store."""

    ref: str
    component_refs: dict[str, str]
    #: Manifest and component bodies, in order of their refs.
    stored: list[StoredBlob]
    #: Refs without bytes, by role: they must be stored already.
    carried: dict[str, str]


class Frames(msgspec.Struct, frozen=True):
    """Frames ready to store, and the refs they hold by their place in the list."""

    body: str
    current_frame_id: str
    refs: dict[str, str]


# --- config and frames -------------------------------------------------------------------


def config(given: Any, env: Settings) -> Encoded | None:
    """The config of a commit, none where it stays; it is an object, or a payload."""
    if isinstance(given, Keep):
        return None
    encoded = encode_value(given, "config", env.max_value_bytes)
    if encoded.tag is None and not isinstance(given, dict):
        raise InvalidArgument("config", "not_an_object")
    return encoded


def model_named(given: Any) -> str:
    """The model a config names, for default metadata (FAC-6)."""
    model = given.get("model") if isinstance(given, dict) else None
    if isinstance(model, dict):
        model = model.get("id")
    if not isinstance(model, str):
        return ""
    return model.replace("\0", "\ufffd")[: checks.TEXT_BYTES // 4]


def frames(given: Any, current: Any, env: Settings) -> Frames | None:
    """The frames of a commit, none where they stay, and which of them is the current one."""
    if isinstance(given, Keep) and isinstance(current, Keep):
        return None
    if isinstance(given, Keep) or isinstance(current, Keep):
        raise InvalidArgument("current_agent_frame_id", "given together with agent_frames")
    listed = checks.listed(given, "agent_frames", MAX_FRAMES)
    seen: set[str] = set()
    for index, frame in enumerate(listed):
        seen.add(_frame_id(frame, f"agent_frames[{index}]", seen))
    if checks.text(current, "current_agent_frame_id") and current not in seen:
        raise InvalidArgument("current_agent_frame_id", "names no listed frame")
    # Each frame is a value of its own, with a limit of its own.
    spelled = [
        canonical(frame, f"agent_frames[{index}]", env.max_value_bytes).decode()
        for index, frame in enumerate(listed)
    ]
    return Frames(f"[{','.join(spelled)}]", current, _frame_refs(listed, current))


def _frame_refs(listed: list[Any], current: str) -> dict[str, str]:
    """What the frames refer to; the current one's ref is the manifest's, filled in by reads."""
    return {
        f"frame:{index}": frame["execution_state_ref"]
        for index, frame in enumerate(listed)
        if frame.get("execution_state_ref") is not None and frame["frame_id"] != current
    }


def _frame_id(frame: Any, field: str, seen: set[str]) -> str:
    if not isinstance(frame, dict):
        raise InvalidArgument(field, "not_an_object")
    frame_id = checks.identifier(frame.get("frame_id"), f"{field}.frame_id")
    if frame_id in seen:
        raise InvalidArgument(f"{field}.frame_id", "repeated")
    if frame.get("execution_state_snapshot") is not None:
        raise InvalidArgument(f"{field}.execution_state_snapshot", "frames hold refs, not bodies")
    if frame.get("execution_state_ref") is not None:
        checks.identifier(frame["execution_state_ref"], f"{field}.execution_state_ref")
    return frame_id


# --- checkpoint --------------------------------------------------------------------------


def checkpoint(draft: CheckpointDraft | Keep, env: Settings) -> Checkpoint | None:
    """The checkpoint of a commit, none where it stays."""
    if isinstance(draft, Keep):
        return None
    refs: dict[str, str] = {}
    carried: dict[str, str] = {}
    stored: dict[str, StoredBlob] = {}
    for role, component in components(draft).items():
        field = f"checkpoint.components.{role}"
        if component.body is not None:
            content = blobs.check_blob(component.body, env.max_blob_bytes, field)
            blob = _stored(content, blobs.component_kind(role), env)
            stored[blob.ref] = blob
            refs[role] = blob.ref
        elif component.ref is not None:
            refs[role] = carried[role] = checks.identifier(component.ref, field)
    content = blobs.manifest(
        draft.turn_state, refs, draft.plugin_snapshot_revision, env.max_value_bytes
    )
    manifest = _stored(content, BlobKind.CHECKPOINT_MANIFEST, env)
    stored[manifest.ref] = manifest
    in_order = [stored[ref] for ref in sorted(stored)]
    return Checkpoint(manifest.ref, refs, in_order, carried)


def components(draft: CheckpointDraft) -> dict[str, Component]:
    """The components of a draft by role, bare bytes as components too."""
    checks.record(draft, CheckpointDraft, "checkpoint")
    field = "checkpoint.components"
    if not isinstance(draft.components, Mapping):
        raise InvalidArgument(field, "not_a_mapping")
    checks.at_most(len(draft.components), MAX_COMPONENTS, field)
    return {
        checks.identifier(role, field): Component(body=given)
        if isinstance(given, bytes)
        else checks.record(given, Component, f"{field}.{role}")
        for role, given in draft.components.items()
    }


def _stored(content: bytes, kind: BlobKind, env: Settings) -> StoredBlob:
    return blobs.encode_blob(content, BlobDescriptor(kind), env.profile)
