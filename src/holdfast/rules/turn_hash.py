"""The hash that makes a turn repeatable: equal for equal content, whoever sends it and when.

What is volatile is neutralised only where it is known to be: node ids become positions, and a
message's own ids are dropped. Nothing inside any other JSON is touched.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import msgspec

from holdfast.errors import InvalidArgument
from holdfast.model.checkpoints import CheckpointDraft, Component
from holdfast.model.commits import RuntimeCommit
from holdfast.model.graph import Append, GraphDelta, Node, ReplaceFull, Splice, Unchanged
from holdfast.model.queue import QueuedWorkBatchDraft
from holdfast.model.sessions import SessionCreate
from holdfast.model.usage import TokenLedgerEntry
from holdfast.model.values import CURRENT_LEAF, KEEP, CurrentLeaf, JsonValue, Keep, Payload
from holdfast.rules import checks, claims, queue
from holdfast.rules.attachments import attachment_ids
from holdfast.rules.blobs import check_blob
from holdfast.rules.canonical import digest, encode_value, identity, sha256_hex
from holdfast.rules.metadata import check_create
from holdfast.rules.parents import check_delta, parents
from holdfast.rules.state import components
from holdfast.rules.usage import check_deltas
from holdfast.settings import MAX_BLOB_BYTES

_Object: TypeAlias = dict[str, Any]

_KEPT = "keep"
_WELL_KNOWN = ("tool_state", "plugin_snapshot", "execution_state")


def turn_commit_hash(commit: RuntimeCommit) -> str:
    """The hash of what a commit means (COM-10 to COM-12).

    Expectation, lease, release, stamp, claim ids and tokens, head tag and activity are no part of
    it; `create` is, where given.
    """
    checks.record(commit, RuntimeCommit, "commit")
    meaning: _Object = {
        "session_id": commit.session_id,
        "graph": _graph(commit.graph),
        "checkpoint": _checkpoint(commit.checkpoint),
        "usage_deltas": _usage(commit.usage_deltas),
        "completed_batches": _ids(claims.WORK, commit),
        "completed_inputs": _ids(claims.INPUTS, commit),
        "attachments": attachment_ids(commit.committed_attachment_ids, "committed_attachment_ids"),
        "outbox": _outbox(commit.enqueued_queue_batches),
    }
    if commit.interrupted_turn_input_turn_id is not None:
        meaning["interrupted_turn_input_turn_id"] = commit.interrupted_turn_input_turn_id
    meaning |= _content("config", _KEPT if commit.config is KEEP else commit.config)
    meaning |= _frames(commit.agent_frames, commit.current_agent_frame_id)
    if commit.create is not None:
        meaning["create"] = _create(commit.create, commit.session_id)
    return digest("holdfast.turn-commit", meaning)


def _ids(family: claims.Family, commit: RuntimeCommit) -> list[str]:
    """The ids of all that is settled; whether claims overlap is not the hash's to judge."""
    found: set[str] = set()
    for index, settled in enumerate(checks.listed(getattr(commit, family.field), family.field)):
        field = f"{family.field}[{index}]"
        if not family.has(settled):
            raise InvalidArgument(field, "not a claim or completion")
        ids = checks.listed(getattr(settled, family.ids), f"{field}.{family.ids}")
        found.update(checks.identifier(each, f"{field}.{family.ids}") for each in ids)
    return sorted(found)


def _outbox(drafts: Any) -> list[_Object]:
    field = "enqueued_queue_batches"
    return [
        queue.wire(checks.record(draft, QueuedWorkBatchDraft, f"{field}[{index}]"))
        for index, draft in enumerate(checks.listed(drafts, field))
    ]


def _content(name: str, value: JsonValue | Payload) -> _Object:
    """A value under its name, a payload under a name of its own, so that they never meet."""
    if isinstance(value, Payload):
        return {f"{name}_payload": list(identity(*encode_value(value, name)))}
    return {name: value}


def _frames(frames: list[JsonValue] | Keep, current: str | Keep) -> _Object:
    if isinstance(frames, Keep):
        return {"agent_frames": _KEPT}
    listed = [_without(frame, "created_at") for frame in checks.listed(frames, "agent_frames")]
    return {"agent_frames": listed} | (
        {} if isinstance(current, Keep) else {"current_agent_frame_id": current}
    )


def _graph(delta: GraphDelta) -> _Object:
    check_delta(delta)
    if isinstance(delta, Unchanged):
        return {"kind": "unchanged", "nodes": [], "leaf": _leaf(delta.leaf, {}, "current_leaf")}
    index = {node.node_id: position for position, node in enumerate(delta.nodes)}
    nodes = [
        _node(node, parent, index) for node, parent in zip(delta.nodes, parents(delta), strict=True)
    ]
    if isinstance(delta, Splice):
        return {"kind": "splice", "keep": delta.keep, "nodes": nodes}
    return {
        "kind": "append" if isinstance(delta, Append) else "replace_full",
        "nodes": nodes,
        "leaf": _leaf(delta.leaf, index, _default_leaf(delta)),
    }


def _default_leaf(delta: Append | ReplaceFull) -> JsonValue:
    if delta.nodes:
        return len(delta.nodes) - 1
    return "current_leaf" if isinstance(delta, Append) else None


def _leaf(leaf: str | Keep | None, index: Mapping[str, int], default: JsonValue) -> JsonValue:
    return default if isinstance(leaf, Keep) else _place(leaf, index)


def _place(node_id: str | CurrentLeaf | None, index: Mapping[str, int]) -> JsonValue:
    if node_id is None:
        return None
    if isinstance(node_id, CurrentLeaf):
        return CURRENT_LEAF.value
    return index.get(node_id, "external")


def _node(node: Node, parent: str | CurrentLeaf | None, index: Mapping[str, int]) -> _Object:
    body = _message(node.body) if node.kind == "message" else node.body
    found = {"parent": _place(parent, index), "kind": node.kind} | _content("body", body)
    if node.caused_by is not None:
        found["caused_by"] = node.caused_by
    if node.agent_frame_id is not None:
        found["agent_frame_id"] = node.agent_frame_id
    return found


def _message(body: JsonValue | Payload) -> JsonValue | Payload:
    bare = _without(body, "id")
    if isinstance(bare, dict) and isinstance(bare.get("parts"), (list, tuple)):
        return bare | {"parts": [_without(part, "id") for part in bare["parts"]]}
    return bare


def _without(value: Any, name: str) -> Any:
    if isinstance(value, dict) and name in value:
        return {key: member for key, member in value.items() if key != name}
    return value


def _checkpoint(draft: CheckpointDraft | Keep) -> JsonValue:
    if isinstance(draft, Keep):
        return _KEPT
    refs = {role: _ref(role, component) for role, component in components(draft).items()}
    found: _Object = {"turn_state": draft.turn_state}
    present = {role: ref for role, ref in refs.items() if ref is not None}
    found |= {role: ref for role, ref in present.items() if role in _WELL_KNOWN}
    if others := {role: ref for role, ref in present.items() if role not in _WELL_KNOWN}:
        found["components"] = others
    if draft.plugin_snapshot_revision is not None:
        found["plugin_snapshot_revision"] = draft.plugin_snapshot_revision
    return found


def _ref(role: str, component: Component) -> str | None:
    if component.body is None:
        return component.ref
    return sha256_hex(check_blob(component.body, MAX_BLOB_BYTES, f"checkpoint.components.{role}"))


def _usage(deltas: list[TokenLedgerEntry] | tuple[TokenLedgerEntry, ...]) -> list[_Object]:
    check_deltas(deltas)
    return [
        {
            "source": entry.source,
            "model": entry.model,
            "usage": msgspec.structs.asdict(entry.usage),
        }
        for entry in deltas
    ]


def _create(create: SessionCreate, session_id: str) -> _Object:
    check_create(create, session_id)
    relation = {"kind": type(create.relation).__struct_config__.tag} | _given(create.relation)
    found = _given(create) | {"relation": relation}
    if create.start_at is not None:
        found["start_at"] = _given(create.start_at)
    return found


def _given(record: msgspec.Struct) -> _Object:
    """The fields of a record with their defaults; an optional one that is absent is left out."""
    return {
        name: value for name, value in msgspec.structs.asdict(record).items() if value is not None
    }
