"""The commit: everything one turn settles, in one record."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from holdfast.model.checkpoints import CheckpointDraft
from holdfast.model.graph import GraphDelta, Node, Unchanged
from holdfast.model.inputs import TurnInputClaim, TurnInputCompletion
from holdfast.model.leases import Lease
from holdfast.model.queue import (
    EnqueueOutcome,
    QueuedWorkBatchDraft,
    QueuedWorkClaim,
    QueuedWorkCompletion,
)
from holdfast.model.sessions import SessionCreate
from holdfast.model.usage import TokenLedgerEntry
from holdfast.model.values import KEEP, Any_, JsonValue, Keep, Payload, Tag

Expectation: TypeAlias = int | Any_ | Tag
#: What settles a claim of queued work, or of turn inputs: the claim, or what is left of it.
WorkSettled: TypeAlias = QueuedWorkClaim | QueuedWorkCompletion
InputsSettled: TypeAlias = TurnInputClaim | TurnInputCompletion


class TurnStamp(msgspec.Struct, frozen=True):
    """Makes a commit repeatable: the same turn with the same content applies once."""

    session_id: str
    turn_id: str
    turn_commit_hash: str | None = None


class RuntimeCommit(msgspec.Struct, frozen=True, kw_only=True):
    """A change of a session's settled state. What is left out stays as it is."""

    session_id: str
    expected_head_revision: Expectation
    session_execution_lease: Lease | None = None
    release_session_execution_lease: bool = False
    create: SessionCreate | None = None
    config: JsonValue | Payload | Keep = KEEP
    agent_frames: list[JsonValue] | Keep = KEEP
    current_agent_frame_id: str | Keep = KEEP
    graph: GraphDelta = Unchanged()
    checkpoint: CheckpointDraft | Keep = KEEP
    usage_deltas: tuple[TokenLedgerEntry, ...] | list[TokenLedgerEntry] = ()
    turn_commit: TurnStamp | None = None
    completed_queue_claims: tuple[WorkSettled, ...] | list[WorkSettled] = ()
    completed_turn_input_claims: tuple[InputsSettled, ...] | list[InputsSettled] = ()
    #: Claims whose content this commit contains: it has to complete them.
    originating_claims: (
        tuple[WorkSettled | InputsSettled, ...] | list[WorkSettled | InputsSettled]
    ) = ()
    #: Follow-up work, enqueued with the commit or not at all.
    enqueued_queue_batches: tuple[QueuedWorkBatchDraft, ...] | list[QueuedWorkBatchDraft] = ()
    #: The turn that ends with this commit, however it does: what it left over waits for the next.
    interrupted_turn_input_turn_id: str | None = None
    committed_attachment_ids: tuple[str, ...] | list[str] = ()
    head_tag: str | None | Keep = KEEP
    activity_us: int | None = None


class RuntimeCommitResult(msgspec.Struct, frozen=True, kw_only=True):
    """What a commit did; all a stamp stores besides its hash and time."""

    head_revision: int
    checkpoint_ref: str | None = None
    component_refs: dict[str, str] = {}
    #: What came of each draft of the outbox, in order; without the batches.
    enqueued_queue_batches: list[EnqueueOutcome] = []
    replayed: bool = False
    #: What a `Splice` removed, leaf last: 1,000 nodes or 16 MiB of them; not kept by a stamp.
    removed_nodes: list[Node] = []


class TurnCommit(msgspec.Struct, frozen=True, kw_only=True):
    """A stored stamp."""

    session_id: str
    turn_id: str
    turn_commit_hash: str
    result: RuntimeCommitResult
    committed_at_ms: int
