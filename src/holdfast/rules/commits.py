"""The static part of a commit: checked, encoded, hashed and compressed before any I/O (COM-1, 1).

What comes out holds only what the database is given; nothing in it depends on what is stored.
"""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.errors import InvalidArgument, RuntimeTurnCommitConflict, SessionBindingMismatch
from holdfast.model.commits import RuntimeCommit, TurnStamp
from holdfast.model.graph import GraphDelta, Node, Unchanged
from holdfast.model.usage import TokenLedgerEntry
from holdfast.model.values import Keep
from holdfast.rules import (
    attachments,
    checks,
    claims,
    heads,
    leases,
    messages,
    metadata,
    parents,
    queue,
    state,
    usage,
)
from holdfast.rules.canonical import Encoded, canonical, encode_value, sha256_hex
from holdfast.rules.graph import Draft
from holdfast.rules.state import Checkpoint, Frames
from holdfast.rules.turn_hash import turn_commit_hash
from holdfast.settings import Settings

MAX_COMMIT_BYTES = 512 * 1024 * 1024
MAX_DRAFTS = 1_000
PREVIEW_CHARACTERS = messages.PREVIEW_CHARACTERS


class Prepared(msgspec.Struct, frozen=True, kw_only=True):
    """A commit ready for its transaction."""

    commit: RuntimeCommit
    drafts: list[Draft]
    node_ids: list[str]
    branch_count: int
    config: Encoded | None
    model: str
    frames: Frames | None
    checkpoint: Checkpoint | None
    usage: list[tuple[str, TokenLedgerEntry]]
    #: What is settled, by family of claims.
    completed: dict[claims.Family, list[claims.Completion]]
    outbox: list[queue.Batch]
    attachment_ids: list[str]
    hash: str | None

    @property
    def carries_only_nodes(self) -> bool:
        """Whether nothing would be lost if the nodes turn out to be known already (EXT-5)."""
        return self.config is None and self.carries_only_head

    @property
    def carries_only_head(self) -> bool:
        """Whether it changes nothing but the head, its config and the graph (EXT-7)."""
        parts = (self.frames, self.checkpoint, self.commit.turn_commit)
        return not any(part is not None for part in parts) and not (
            self.usage or self.settles or self.outbox or self.attachment_ids
        )

    @property
    def settles(self) -> bool:
        """Whether it completes claims or defers inputs."""
        deferred = self.commit.interrupted_turn_input_turn_id
        return deferred is not None or any(self.completed.values())


def prepare(commit: RuntimeCommit, env: Settings, *, momentary: bool) -> Prepared:
    """Check a commit as COM-1 (1) says and encode what it carries."""
    _check_envelope(commit, momentary=momentary)
    spent = usage.check_deltas(commit.usage_deltas)
    outbox = _outbox(commit, env)
    _check_stamp(commit)
    completed = _completed(commit)
    _check_release(commit)
    drafts = _drafts(commit.graph, env)
    config = state.config(commit.config, env)
    frames = state.frames(commit.agent_frames, commit.current_agent_frame_id, env)
    checkpoint = state.checkpoint(commit.checkpoint, env)
    prepared = Prepared(
        commit=commit,
        drafts=drafts,
        node_ids=parents.ids_to_look_up(commit.graph),
        branch_count=parents.branches_needed(commit.graph),
        config=config,
        model=state.model_named(commit.config),
        frames=frames,
        checkpoint=checkpoint,
        usage=_merged(spent),
        completed=completed,
        outbox=outbox,
        attachment_ids=attachments.attachment_ids(
            commit.committed_attachment_ids, "committed_attachment_ids"
        ),
        hash=None if commit.turn_commit is None else _hash(commit, commit.turn_commit),
    )
    checks.at_most(_size(prepared), MAX_COMMIT_BYTES, "commit")
    return prepared


def _check_envelope(commit: RuntimeCommit, *, momentary: bool) -> None:
    checks.identifier(checks.record(commit, RuntimeCommit, "commit").session_id, "session_id")
    heads.check_expectation(commit.expected_head_revision)
    if commit.head_tag is not None and not isinstance(commit.head_tag, Keep):
        checks.text(commit.head_tag, "head_tag", heads.TAG_BYTES)
    if commit.activity_us is not None:
        checks.instant(commit.activity_us, "activity_us")
    _check_lease(commit, momentary=momentary)
    if commit.create is not None:
        metadata.check_create(commit.create, commit.session_id)


def _check_lease(commit: RuntimeCommit, *, momentary: bool) -> None:
    lease, release = commit.session_execution_lease, commit.release_session_execution_lease
    checks.flag(release, "release_session_execution_lease")
    if momentary:
        _refuse(lease is not None, "session_execution_lease")
        _refuse(release, "release_session_execution_lease")
    elif lease is not None:
        leases.check_lease(lease, "session_execution_lease")


def _check_release(commit: RuntimeCommit) -> None:
    if commit.release_session_execution_lease and commit.session_execution_lease is None:
        raise InvalidArgument("release_session_execution_lease", "there is no lease to release")


def _refuse(given: bool, field: str) -> None:
    if given:
        raise InvalidArgument(field, "a commit with a fresh lease brings none")


def _completed(commit: RuntimeCommit) -> dict[claims.Family, list[claims.Completion]]:
    found = {
        family: claims.completions(family, getattr(commit, family.field), commit.session_id)
        for family in claims.FAMILIES
    }
    claims.must_be_settled(commit.originating_claims, commit.session_id, found)
    if commit.interrupted_turn_input_turn_id is not None:
        checks.identifier(commit.interrupted_turn_input_turn_id, "interrupted_turn_input_turn_id")
    return found


def _outbox(commit: RuntimeCommit, env: Settings) -> list[queue.Batch]:
    field = "enqueued_queue_batches"
    batches = queue.encode_all(commit.enqueued_queue_batches, field, MAX_DRAFTS, env)
    for batch in batches:
        if batch.session_id != commit.session_id:
            raise SessionBindingMismatch(commit.session_id, batch.session_id)
    return batches


def _check_stamp(commit: RuntimeCommit) -> None:
    stamp = commit.turn_commit
    if stamp is None:
        return
    checks.record(stamp, TurnStamp, "turn_commit")
    checks.identifier(stamp.turn_id, "turn_commit.turn_id")
    if stamp.session_id != commit.session_id:
        attempted = _hash(commit, stamp)
        raise RuntimeTurnCommitConflict(commit.session_id, stamp.turn_id, None, attempted)


def _hash(commit: RuntimeCommit, stamp: TurnStamp) -> str:
    given = stamp.turn_commit_hash
    attempted = turn_commit_hash(commit) if given is None else given
    field = "turn_commit.turn_commit_hash"
    return checks.text(attempted, field, checks.KEY_BYTES, allow_empty=False)


# --- nodes -------------------------------------------------------------------------------


def _drafts(delta: GraphDelta, env: Settings) -> list[Draft]:
    parents.check_delta(delta)
    if isinstance(delta, Unchanged):
        return []
    above = parents.parents(delta)
    return [
        _draft(node, parent, f"graph.nodes[{index}]", env)
        for index, (node, parent) in enumerate(zip(delta.nodes, above, strict=True))
    ]


def _draft(node: Node, parent: Any, field: str, env: Settings) -> Draft:
    kind = checks.kind(node.kind, f"{field}.kind")
    enc, tag, body = encode_value(node.body, f"{field}.body", env.max_value_bytes)
    caused_by = _optional_json(node.caused_by, f"{field}.caused_by", env)
    frame = _optional_text(node.agent_frame_id, f"{field}.agent_frame_id")
    role = _optional_text(node.role, f"{field}.role")
    if node.at_us is not None:
        checks.integer(node.at_us, f"{field}.at_us")
    preview = _preview(node.preview, f"{field}.preview", env)
    user_text = messages.user_text(kind, node.body, role, preview)
    return Draft(
        node=node,
        parent=parent,
        identity=(kind, tag, body, caused_by, frame),
        columns=(kind, enc, tag, body, caused_by, frame, role, preview, node.at_us, user_text),
        user_text=user_text,
        size=len(body) + len(caused_by or ""),
    )


def _optional_text(value: str | None, field: str) -> str | None:
    return None if value is None else checks.text(value, field, checks.TEXT_BYTES)


def _preview(value: str | None, field: str, env: Settings) -> str | None:
    """The beginning of what is given (EXT-3); no more of it is stored or counted."""
    if value is None:
        return None
    return checks.text(value, field, env.max_value_bytes)[:PREVIEW_CHARACTERS]


def _optional_json(value: Any, field: str, env: Settings) -> str | None:
    return None if value is None else canonical(value, field, env.max_value_bytes).decode()


# --- usage and size ----------------------------------------------------------------------


def _merged(deltas: list[TokenLedgerEntry]) -> list[tuple[str, TokenLedgerEntry]]:
    """One entry per pair, under the pair's hash, in order of first appearance."""
    found: dict[str, TokenLedgerEntry] = {}
    for entry in deltas:
        pair = sha256_hex(canonical([entry.source, entry.model]))[:32]
        before = found.get(pair)
        summed = entry.usage if before is None else usage.add(before.usage, entry.usage)
        found[pair] = TokenLedgerEntry(entry.source, entry.model, summed)
    return list(found.items())


def _size(prepared: Prepared) -> int:
    """The bytes a commit carries, as stored; an estimate that leaves out only small columns."""
    total = sum(draft.size for draft in prepared.drafts)
    total += len(prepared.config.body) if prepared.config else 0
    total += len(prepared.frames.body) if prepared.frames else 0
    total += sum(batch.size for batch in prepared.outbox)
    if prepared.checkpoint:
        total += sum(blob.raw_len for blob in prepared.checkpoint.stored)
    return total
