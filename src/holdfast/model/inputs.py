"""Turn inputs: user text that was admitted, and what became of it."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from holdfast.model.claims import Claim, Completion
from holdfast.model.queue import QueuedWorkClaim
from holdfast.model.values import JsonValue

Checkpoint: TypeAlias = Literal["after_work", "before_completion"]
TurnInputState: TypeAlias = Literal[
    "pending_active", "deferred_next_turn", "accepted", "cancelled", "completed"
]
CancelResult: TypeAlias = Literal[
    "cancelled",
    "already_cancelled",
    "already_completed",
    "already_claimed",
    "not_found",
    "anchor_not_found",
]


class ActiveTurn(msgspec.Struct, frozen=True, tag="active_turn", tag_field="kind"):
    """For a turn under way, from a checkpoint of it on."""

    turn_id: str
    min_boundary: Checkpoint = "after_work"


class NextTurn(msgspec.Struct, frozen=True, tag="next_turn", tag_field="kind"):
    """For the turn that comes next."""


Ingress: TypeAlias = ActiveTurn | NextTurn


class PendingTurnInputDraft(msgspec.Struct, frozen=True, kw_only=True):
    """An input to submit. An edited text is a new submission, under a new key.

    >>> from holdfast import NextTurn, PendingTurnInputDraft
    >>> PendingTurnInputDraft(session_id="chat-1", ingress=NextTurn(), input={"text": "Hi"}).ingress
    NextTurn()
    """

    session_id: str
    ingress: Ingress
    input: JsonValue
    input_id: str | None = None
    source_key: str | None = None


class PendingTurnInput(msgspec.Struct, frozen=True, kw_only=True):
    """A stored input: what was submitted, and where it stands now."""

    session_id: str
    input_id: str
    enqueue_seq: int
    source_key: str | None
    ingress: Ingress
    submitted_ingress: Ingress
    state: TurnInputState
    enqueued_at_ms: int
    input: JsonValue


class TurnInputClaimInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Who has an input, as everybody may see it; no claim has a `claim_count` of 0 or more."""

    state: TurnInputState
    claim_id: str | None
    claim_owner: str | None
    claim_session_lease_generation: int | None
    claim_count: int
    claim_live: bool


class TurnInputEntry(msgspec.Struct, frozen=True):
    """One line of a listing over any states."""

    record: PendingTurnInput
    claim: TurnInputClaimInfo


class InputCancellation(msgspec.Struct, frozen=True, kw_only=True):
    """What came of cancelling one input; a claimed one also says by whom."""

    outcome: CancelResult
    record: PendingTurnInput | None = None
    claim: TurnInputClaimInfo | None = None


class SourceKey(msgspec.Struct, frozen=True):
    """Names an input by the key it was submitted under; plain text names it by its id."""

    key: str


InputTarget: TypeAlias = str | SourceKey


class TurnInputCompletion(Completion, frozen=True, kw_only=True):
    """What a commit needs to settle a claim; the claim itself may be given for it."""

    input_ids: list[str] | tuple[str, ...]


class TurnInputClaim(Claim, frozen=True, kw_only=True):
    """The right to the claimed inputs: of a turn at a checkpoint, or (none) for the next turn."""

    turn_id: str | None
    checkpoint: Checkpoint | None
    inputs: list[PendingTurnInput]

    @property
    def input_ids(self) -> list[str]:
        """The ids of the claimed inputs, in the order of their submission."""
        return [each.input_id for each in self.inputs]


class CheckpointWork(msgspec.Struct, frozen=True):
    """What was claimed at a checkpoint of a turn, of either family."""

    inputs: TurnInputClaim | None = None
    work: QueuedWorkClaim | None = None
