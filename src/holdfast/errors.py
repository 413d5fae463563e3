"""Everything the library raises: refusals, and faults.

Two families, because callers do two different things. A `Refused` is an answer: the store is
healthy, nothing was written, and repeating the same call gives the same answer until something
changes. A `Fault` is the absence of a trustworthy answer: an outage, contention, damaged data.

Facts are fields, never only text; `code` is stable and is the class's name in snake case.
"""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

if TYPE_CHECKING:
    from holdfast.model.leases import LeaseHolder

LossReason = Literal["missing", "wrong_session", "expired", "released", "superseded"]


class HoldfastError(Exception):
    """The root of everything this library raises."""

    code: ClassVar[str] = "holdfast_error"
    #: The names of the facts, in order.
    fields: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.code = re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()
        cls.fields = (*cls.fields, *inspect.get_annotations(cls))

    def __post_init__(self) -> None:
        # What an exception is copied and sent to other processes by.
        self.args = tuple(getattr(self, name) for name in self.fields)

    def __str__(self) -> str:
        facts = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.fields)
        meaning = (type(self).__doc__ or "").partition("\n")[0]
        return f"{meaning} [{facts}]" if facts else meaning


class Refused(HoldfastError):
    """The store is healthy and the answer is no. Nothing was written."""


class Fault(HoldfastError):
    """The store gave no trustworthy answer."""

    #: Whether the same call may simply be made again.
    retryable = False
    #: Whether the write may have happened although no answer came.
    maybe_written = False


@dataclass(eq=False, repr=False)
class InvalidArgument(Refused, ValueError):
    """An argument is not valid. Correct the named field; nothing was read or written."""

    field: str
    reason: str


@dataclass(eq=False, repr=False)
class SessionBindingMismatch(Refused):
    """A bound view, or a commit, was given a record of another session."""

    bound_session_id: str
    attempted_session_id: str


@dataclass(eq=False, repr=False)
class SessionDeleted(Refused):
    """The session this view was bound to is gone. Make a new view to go on under the id."""

    session_id: str


@dataclass(eq=False, repr=False)
class StoreClosed(Refused):
    """The store was closed, or belongs to the parent of this forked process. Open another."""

    reason: Literal["closed", "forked"]


@dataclass(eq=False, repr=False)
class NotAStore(Refused):
    """What the URL names is no store of ours, or is absent and may not be created."""

    target: str
    reason: str


@dataclass(eq=False, repr=False)
class ReadOnlyStore(Refused):
    """The store was opened read-only. Open it without `read_only` to write."""

    operation: str


@dataclass(eq=False, repr=False)
class HeadRevisionConflict(Refused):
    """The head is not where the caller expected it. Reload, decide again, retry."""

    session_id: str
    expected: Any
    actual: int
    actual_tag: str | None = None


@dataclass(eq=False, repr=False)
class RuntimeTurnCommitConflict(Refused):
    """This turn was committed with other content. Do not repeat it under the same id."""

    session_id: str
    turn_id: str
    stored_hash: str | None
    attempted_hash: str


@dataclass(eq=False, repr=False)
class LeaseLost(Refused):
    """The lease is not live. Stop the work, write nothing more, claim again."""

    guards: str
    key: str
    reason: LossReason
    presented_generation: int | None
    current_generation: int | None


@dataclass(eq=False, repr=False)
class SessionBusy(Refused):
    """Somebody holds the session's lease. Wait for its end, or ask the holder."""

    session_id: str
    holder: LeaseHolder


@dataclass(eq=False, repr=False)
class QueuedWorkClaimSuperseded(Refused):
    """The claim does not own these batches any more. Drop it; whoever took them settles them."""

    session_id: str
    claim_id: str
    unowned_batch_ids: list[str]


@dataclass(eq=False, repr=False)
class TurnInputClaimSuperseded(Refused):
    """The claim does not own these inputs any more. Drop it; whoever took them settles them."""

    session_id: str
    claim_id: str
    unowned_input_ids: list[str]


@dataclass(eq=False, repr=False)
class UnsettledQueuedWorkClaim(Refused):
    """The commit contains work of this claim and does not complete it. Add the completion."""

    session_id: str
    claim_id: str


@dataclass(eq=False, repr=False)
class UnsettledTurnInputClaim(Refused):
    """The commit contains inputs of this claim and does not complete it. Add the completion."""

    session_id: str
    claim_id: str


@dataclass(eq=False, repr=False)
class PendingTurnInputSourceKeyConflict(Refused):
    """The source key was used for another input. Submit an edited text under a new key."""

    session_id: str
    source_key: str
    existing_input_id: str


@dataclass(eq=False, repr=False)
class PendingTurnInputIdConflict(Refused):
    """The input id was used for another input. Leave the id out, or give a new one."""

    session_id: str
    input_id: str


@dataclass(eq=False, repr=False)
class GraphNodeConflict(Refused):
    """A node id is already used for other content."""

    session_id: str
    node_id: str


@dataclass(eq=False, repr=False)
class GraphIntegrity(Refused):
    """The delta, or a stored graph, has a broken parent, leaf or cycle."""

    session_id: str
    node_id: str
    reason: str


@dataclass(eq=False, repr=False)
class GraphNodeNotFound(Refused):
    """The node that was asked for is not live in this session."""

    session_id: str | None
    node_id: str


@dataclass(eq=False, repr=False)
class AmbiguousNode(Refused):
    """Unrelated sessions use this node id for different nodes. Name the session."""

    node_id: str
    session_ids: list[str]


@dataclass(eq=False, repr=False)
class MissingBlob(Refused, Fault):
    """A reference has no stored bytes. Refused at commit; a fault where stored data is read."""

    ref: str
    role: str | None = None
    session_id: str | None = None


@dataclass(eq=False, repr=False)
class BlobCorrupt(Fault):
    """Stored bytes fail their length, decoding or hash check. Restore them from a copy."""

    ref: str
    reason: str


@dataclass(eq=False, repr=False)
class CorruptRecord(Fault):
    """A stored record cannot be read. It is never taken for an absent one."""

    record_kind: str
    key: str
    reason: str


@dataclass(eq=False, repr=False)
class UnsupportedRecordVersion(Fault):
    """A stored record was written by a newer library. Upgrade this one."""

    record_kind: str
    key: str
    found: int
    supported_max: int


@dataclass(eq=False, repr=False)
class UnsupportedStoreVersion(Refused):
    """The database, or its server, is of a version this library cannot work with."""

    component: str
    found: int
    supported_min: int
    supported_max: int | None


@dataclass(eq=False, repr=False)
class GcAborted(Fault):
    """A live root cannot be read, so nothing was collected. Repair or delete its session."""

    ref: str
    reason: str


@dataclass(eq=False, repr=False)
class AttachmentNotFound(Refused):
    """This session refers to no such attachment, or its bytes are gone. Put it again."""

    attachment_id: str


@dataclass(eq=False, repr=False)
class AttachmentManifestWriteFailed(Fault):
    """The reference could not be written down, so no bytes can be read. Put it again."""

    retryable = True
    attachment_id: str
    cause: str


@dataclass(eq=False, repr=False)
class DurableStoreRequired(Refused):
    """Durability was required and this facet does not survive the process."""

    facet: str


@dataclass(eq=False, repr=False)
class Contention(Fault):
    """Others kept the rows locked for longer than `wait_ms`. Nothing was written; try again."""

    retryable = True
    operation: str
    attempts: int


@dataclass(eq=False, repr=False)
class StoreUnavailable(Fault):
    """The database did not answer as it should. `retryable` and `maybe_written` say what next."""

    operation: str
    cause: str
    retryable: bool = False
    maybe_written: bool = False
