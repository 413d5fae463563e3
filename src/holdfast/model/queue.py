"""Queued work: what reaches a session besides user text, and the right to take it."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from holdfast.model.claims import Claim, Completion
from holdfast.model.values import JsonValue

DeliveryPolicy: TypeAlias = Literal["earliest_safe_boundary", "after_current_turn_commit"]
SlotPolicy: TypeAlias = Literal["join", "exclusive"]
Dedupe: TypeAlias = Literal["once", "pending"]
Boundary: TypeAlias = Literal["active_turn_checkpoint", "idle"]
WorkClass: TypeAlias = Literal["session_command", "turn_work"]


class Group(msgspec.Struct, frozen=True):
    """A merge key of the caller's: batches that join and have it equal are taken together."""

    group: str


MergeKey: TypeAlias = Literal["never", "payload_default"] | Group


class QueuedWorkBatchDraft(msgspec.Struct, frozen=True, kw_only=True):
    """Work to enqueue: payloads of one class, each a JSON object with a text `type`.

    >>> from holdfast import QueuedWorkBatchDraft
    >>> QueuedWorkBatchDraft(session_id="chat-1", payloads=[{"type": "tick"}]).slot_policy
    'exclusive'
    """

    session_id: str
    payloads: list[JsonValue] | tuple[JsonValue, ...]
    delivery_policy: DeliveryPolicy = "after_current_turn_commit"
    slot_policy: SlotPolicy = "exclusive"
    merge_key: MergeKey = "never"
    source_key: str | None = None
    available_at_ms: int = 0
    dedupe: Dedupe = "once"


class QueuedWorkItem(msgspec.Struct, frozen=True):
    """One payload of a stored batch."""

    item_id: str
    payload: JsonValue


class QueuedWorkBatch(msgspec.Struct, frozen=True, kw_only=True):
    """A stored batch. Its place in the session's queue is `enqueue_seq`."""

    session_id: str
    batch_id: str
    enqueue_seq: int
    enqueued_at_ms: int
    work_class: WorkClass
    items: list[QueuedWorkItem]
    delivery_policy: DeliveryPolicy
    slot_policy: SlotPolicy
    merge_key: MergeKey
    source_key: str | None
    available_at_ms: int
    dedupe: Dedupe


class EnqueueOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a draft: a new batch, or the one its source key has already.

    `settled` says that the work was done before; then, and in a commit's result, there is no
    `batch`.
    """

    batch_id: str
    created: bool
    content_matches: bool = True
    settled: bool = False
    batch: QueuedWorkBatch | None = None


class QueuedWorkCompletion(Completion, frozen=True, kw_only=True):
    """What a commit needs to settle a claim; the claim itself may be given for it."""

    batch_ids: list[str] | tuple[str, ...]


class QueuedWorkClaim(Claim, frozen=True, kw_only=True):
    """The right to the claimed batches, for as long as the lease keeps its generation."""

    batches: list[QueuedWorkBatch]

    @property
    def batch_ids(self) -> list[str]:
        """The ids of the claimed batches, in the order of the queue."""
        return [batch.batch_id for batch in self.batches]


class ReadySession(msgspec.Struct, frozen=True):
    """A session that nobody runs and that has something to do, and since when."""

    session_id: str
    ready_since_ms: int
