"""Everything the library raises: refusals, and faults.

Two families, because callers do two different things. A `Refused` is an answer: the store is
healthy, nothing was written, and repeating the same call gives the same answer until something
changes. A `Fault` is the absence of a trustworthy answer: an outage, contention, damaged data.

Facts are fields, never only text; `code` is stable and is the class's name in snake case.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, ClassVar, Literal

if TYPE_CHECKING:
    from holdfast.model.leases import LeaseHolder

LossReason = Literal["missing", "wrong_session", "expired", "released", "superseded"]


class HoldfastError(Exception):
    """The root of everything this library raises."""

    code: ClassVar[str] = "holdfast_error"
    fields: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.code = re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()

    def __init__(self, *args: Any) -> None:
        """Keep each fact under its name; `fields` says which, in order."""
        super().__init__(*args)
        for name, value in zip(self.fields, args, strict=True):
            setattr(self, name, value)

    def __str__(self) -> str:
        facts = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.fields)
        meaning = (type(self).__doc__ or "").partition("\n")[0]
        return f"{meaning} [{facts}]" if facts else meaning


class Refused(HoldfastError):
    """The store is healthy and the answer is no. Nothing was written."""


class Fault(HoldfastError):
    """The store gave no trustworthy answer."""

    #: Whether the same call may simply be made again.
    retryable: bool = False
    #: Whether the write may have happened although no answer came.
    maybe_written: bool = False


class InvalidArgument(Refused, ValueError):
    """An argument is not valid. Correct the named field; nothing was read or written."""

    fields = ("field", "reason")
    field: str
    reason: str

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(field, reason)


class SessionBindingMismatch(Refused):
    """A bound view, or a commit, was given a record of another session."""

    fields = ("bound_session_id", "attempted_session_id")
    bound_session_id: str
    attempted_session_id: str

    def __init__(self, bound_session_id: str, attempted_session_id: str) -> None:
        super().__init__(bound_session_id, attempted_session_id)


class SessionDeleted(Refused):
    """The session this view was bound to is gone. Make a new view to go on under the id."""

    fields = ("session_id",)
    session_id: str

    def __init__(self, session_id: str) -> None:
        super().__init__(session_id)


class StoreClosed(Refused):
    """The store was closed, or belongs to the parent of this forked process. Open another."""

    fields = ("reason",)
    reason: Literal["closed", "forked"]

    def __init__(self, reason: Literal["closed", "forked"]) -> None:
        super().__init__(reason)


class NotAStore(Refused):
    """What the URL names is no store of ours, or is absent and may not be created."""

    fields = ("target", "reason")
    target: str
    reason: str

    def __init__(self, target: str, reason: str) -> None:
        super().__init__(target, reason)


class ReadOnlyStore(Refused):
    """The store was opened read-only. Open it without `read_only` to write."""

    fields = ("operation",)
    operation: str

    def __init__(self, operation: str) -> None:
        super().__init__(operation)


class HeadRevisionConflict(Refused):
    """The head is not where the caller expected it. Reload, decide again, retry."""

    fields = ("session_id", "expected", "actual", "actual_tag")
    session_id: str
    expected: Any
    actual: int
    actual_tag: str | None

    def __init__(
        self, session_id: str, expected: Any, actual: int, actual_tag: str | None = None
    ) -> None:
        super().__init__(session_id, expected, actual, actual_tag)


class RuntimeTurnCommitConflict(Refused):
    """This turn was committed with other content. Do not repeat it under the same id."""

    fields = ("session_id", "turn_id", "stored_hash", "attempted_hash")
    session_id: str
    turn_id: str
    stored_hash: str | None
    attempted_hash: str

    def __init__(
        self, session_id: str, turn_id: str, stored_hash: str | None, attempted_hash: str
    ) -> None:
        super().__init__(session_id, turn_id, stored_hash, attempted_hash)


class LeaseLost(Refused):
    """The lease is not live. Stop the work, write nothing more, claim again."""

    fields = ("guards", "key", "reason", "presented_generation", "current_generation")
    guards: str
    key: str
    reason: LossReason
    presented_generation: int | None
    current_generation: int | None

    def __init__(
        self,
        guards: str,
        key: str,
        reason: LossReason,
        presented_generation: int | None,
        current_generation: int | None,
    ) -> None:
        super().__init__(guards, key, reason, presented_generation, current_generation)


class SessionBusy(Refused):
    """Somebody holds the session's lease. Wait for its end, or ask the holder."""

    fields = ("session_id", "holder")
    session_id: str
    holder: LeaseHolder

    def __init__(self, session_id: str, holder: LeaseHolder) -> None:
        super().__init__(session_id, holder)


class QueuedWorkClaimSuperseded(Refused):
    """The claim does not own these batches any more. Drop it; whoever took them settles them."""

    fields = ("session_id", "claim_id", "unowned_batch_ids")
    session_id: str
    claim_id: str
    unowned_batch_ids: list[str]

    def __init__(self, session_id: str, claim_id: str, unowned_batch_ids: list[str]) -> None:
        super().__init__(session_id, claim_id, unowned_batch_ids)


class TurnInputClaimSuperseded(Refused):
    """The claim does not own these inputs any more. Drop it; whoever took them settles them."""

    fields = ("session_id", "claim_id", "unowned_input_ids")
    session_id: str
    claim_id: str
    unowned_input_ids: list[str]

    def __init__(self, session_id: str, claim_id: str, unowned_input_ids: list[str]) -> None:
        super().__init__(session_id, claim_id, unowned_input_ids)


class UnsettledQueuedWorkClaim(Refused):
    """The commit contains work of this claim and does not complete it. Add the completion."""

    fields = ("session_id", "claim_id")
    session_id: str
    claim_id: str

    def __init__(self, session_id: str, claim_id: str) -> None:
        super().__init__(session_id, claim_id)


class UnsettledTurnInputClaim(Refused):
    """The commit contains inputs of this claim and does not complete it. Add the completion."""

    fields = ("session_id", "claim_id")
    session_id: str
    claim_id: str

    def __init__(self, session_id: str, claim_id: str) -> None:
        super().__init__(session_id, claim_id)


class PendingTurnInputSourceKeyConflict(Refused):
    """The source key was used for another input. Submit an edited text under a new key."""

    fields = ("session_id", "source_key", "existing_input_id")
    session_id: str
    source_key: str
    existing_input_id: str

    def __init__(self, session_id: str, source_key: str, existing_input_id: str) -> None:
        super().__init__(session_id, source_key, existing_input_id)


class PendingTurnInputIdConflict(Refused):
    """The input id was used for another input. Leave the id out, or give a new one."""

    fields = ("session_id", "input_id")
    session_id: str
    input_id: str

    def __init__(self, session_id: str, input_id: str) -> None:
        super().__init__(session_id, input_id)


class GraphNodeConflict(Refused):
    """A node id is already used for other content."""

    fields = ("session_id", "node_id")
    session_id: str
    node_id: str

    def __init__(self, session_id: str, node_id: str) -> None:
        super().__init__(session_id, node_id)


class GraphIntegrity(Refused):
    """The delta, or a stored graph, has a broken parent, leaf or cycle."""

    fields = ("session_id", "node_id", "reason")
    session_id: str
    node_id: str
    reason: str

    def __init__(self, session_id: str, node_id: str, reason: str) -> None:
        super().__init__(session_id, node_id, reason)


class GraphNodeNotFound(Refused):
    """The node that was asked for is not live in this session."""

    fields = ("session_id", "node_id")
    session_id: str | None
    node_id: str

    def __init__(self, session_id: str | None, node_id: str) -> None:
        super().__init__(session_id, node_id)


class AmbiguousNode(Refused):
    """Unrelated sessions use this node id for different nodes. Name the session."""

    fields = ("node_id", "session_ids")
    node_id: str
    session_ids: list[str]

    def __init__(self, node_id: str, session_ids: list[str]) -> None:
        super().__init__(node_id, session_ids)


class MissingBlob(Refused, Fault):
    """A reference has no stored bytes. Refused at commit; a fault where stored data is read."""

    fields = ("ref", "role", "session_id")
    ref: str
    role: str | None
    session_id: str | None

    def __init__(self, ref: str, role: str | None = None, session_id: str | None = None) -> None:
        super().__init__(ref, role, session_id)


class BlobCorrupt(Fault):
    """Stored bytes fail their length, decoding or hash check. Restore them from a copy."""

    fields = ("ref", "reason")
    ref: str
    reason: str

    def __init__(self, ref: str, reason: str) -> None:
        super().__init__(ref, reason)


class CorruptRecord(Fault):
    """A stored record cannot be read. It is never taken for an absent one."""

    fields = ("record_kind", "key", "reason")
    record_kind: str
    key: str
    reason: str

    def __init__(self, record_kind: str, key: str, reason: str) -> None:
        super().__init__(record_kind, key, reason)


class UnsupportedRecordVersion(Fault):
    """A stored record was written by a newer library. Upgrade this one."""

    fields = ("record_kind", "key", "found", "supported_max")
    record_kind: str
    key: str
    found: int
    supported_max: int

    def __init__(self, record_kind: str, key: str, found: int, supported_max: int) -> None:
        super().__init__(record_kind, key, found, supported_max)


class UnsupportedStoreVersion(Refused):
    """The database, or its server, is of a version this library cannot work with."""

    fields = ("component", "found", "supported_min", "supported_max")
    component: str
    found: int
    supported_min: int
    supported_max: int | None

    def __init__(
        self, component: str, found: int, supported_min: int, supported_max: int | None
    ) -> None:
        super().__init__(component, found, supported_min, supported_max)


class GcAborted(Fault):
    """A live root cannot be read, so nothing was collected. Repair or delete its session."""

    fields = ("ref", "reason")
    ref: str
    reason: str

    def __init__(self, ref: str, reason: str) -> None:
        super().__init__(ref, reason)


class AttachmentNotFound(Refused):
    """This session refers to no such attachment, or its bytes are gone. Put it again."""

    fields = ("attachment_id",)
    attachment_id: str

    def __init__(self, attachment_id: str) -> None:
        super().__init__(attachment_id)


class AttachmentManifestWriteFailed(Fault):
    """The reference could not be written down, so no bytes can be read. Put it again."""

    retryable = True
    fields = ("attachment_id", "cause")
    attachment_id: str
    cause: str

    def __init__(self, attachment_id: str, cause: str) -> None:
        super().__init__(attachment_id, cause)


class DurableStoreRequired(Refused):
    """Durability was required and this facet does not survive the process."""

    fields = ("facet",)
    facet: str

    def __init__(self, facet: str) -> None:
        super().__init__(facet)


class Contention(Fault):
    """Others kept the rows locked for longer than `wait_ms`. Nothing was written; try again."""

    retryable = True
    fields = ("operation", "attempts")
    operation: str
    attempts: int

    def __init__(self, operation: str, attempts: int) -> None:
        super().__init__(operation, attempts)


class StoreUnavailable(Fault):
    """The database did not answer as it should. `retryable` and `maybe_written` say what next."""

    fields = ("operation", "cause", "retryable", "maybe_written")
    operation: str
    cause: str

    def __init__(
        self, operation: str, cause: str, retryable: bool = False, maybe_written: bool = False
    ) -> None:
        super().__init__(operation, cause, retryable, maybe_written)
