"""What the contract says about queued work, as plainly as it can be written down.

A session is a list of batches in the order of their enqueueing, a lease and the instants since
when inputs wait; who owns a batch, and what a claim takes, is looked up by walking over the list.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from holdfast import Lease, LeaseOwner, QueuedWorkBatchDraft, QueuedWorkClaim
from tests.unit.graph_model import Refusal


@dataclass(eq=False)
class Batch:
    """A stored batch, or the receipt of one."""

    batch_id: str
    draft: QueuedWorkBatchDraft
    enqueued_at_ms: int
    claim: QueuedWorkClaim | None = None
    claim_count: int = 0
    settled_at_ms: int | None = None
    damaged: bool = False

    @property
    def is_command(self) -> bool:
        return self.draft.payloads[0]["type"] == "session_command"  # type: ignore[index,call-overload]

    @property
    def ready_at_ms(self) -> int:
        return max(self.draft.available_at_ms, self.enqueued_at_ms)

    def says_the_same_as(self, draft: QueuedWorkBatchDraft) -> bool:
        return _content(self.draft) == _content(draft)

    def joins(self, first: Batch) -> bool:
        one, other = self.draft, first.draft
        return (
            not (self.is_command or first.is_command)
            and one.slot_policy == other.slot_policy == "join"
            and one.delivery_policy == other.delivery_policy
            and one.merge_key == other.merge_key != "never"
        )


def _content(draft: QueuedWorkBatchDraft) -> tuple[Any, ...]:
    return (
        *(draft.payloads, draft.delivery_policy, draft.slot_policy),
        *(draft.merge_key, draft.available_at_ms),
    )


@dataclass(frozen=True)
class Known:
    """The outcome of a draft."""

    created: bool
    content_matches: bool = True
    settled: bool = False
    #: None of a created one: the store draws the id.
    batch_id: str | None = None


@dataclass
class ModelQueue:
    """The queue and the lease of one session."""

    rows: list[Batch] = field(default_factory=list)
    #: Since when each input waits for the next turn, by its id.
    inputs: dict[str, int] = field(default_factory=dict)
    generation: int = 0
    holder: Lease | None = None

    # --- the lease ---------------------------------------------------------------------

    def live(self, now_ms: int) -> bool:
        return self.holder is not None and self.holder.expires_at_ms > now_ms

    def acquires(self, owner: LeaseOwner, now_ms: int) -> int | None:
        """The generation that an owner gets; none while somebody else has the session."""
        if not self.live(now_ms):
            return self.generation + 1
        assert self.holder is not None
        return self.generation if self.holder.owner == owner else None

    def acquired(self, lease: Lease) -> None:
        self.holder, self.generation = lease, lease.generation

    def releases(self, lease: Lease) -> bool:
        if self.holder is None or self.holder.token != lease.token:
            return False
        self.holder = None
        return True

    def judge(self, lease: Lease, now_ms: int) -> None:
        if self.holder is not None and self.holder.token == lease.token:
            if not self.live(now_ms):
                raise Refusal("lease_lost", "expired")
        elif self.holder is None and self.generation == lease.generation:
            raise Refusal("lease_lost", "released")
        else:
            raise Refusal("lease_lost", "superseded")

    # --- reads -------------------------------------------------------------------------

    @property
    def batches(self) -> list[Batch]:
        return [row for row in self.rows if row.settled_at_ms is None]

    def pending(self, now_ms: int) -> list[Batch]:
        return [row for row in self.batches if not self._is_held(row, now_ms)]

    def _is_held(self, row: Batch, now_ms: int) -> bool:
        """QUE-8."""
        if row.claim is None or not self.live(now_ms):
            return False
        return row.claim.session_lease_generation == self.generation

    def ready_since(self, now_ms: int) -> int | None:
        """QUE-23."""
        if self.live(now_ms):
            return None
        since = [row.ready_at_ms for row in self.batches] + list(self.inputs.values())
        return min((at_ms for at_ms in since if at_ms <= now_ms), default=None)

    # --- enqueue and cancel ------------------------------------------------------------

    def holder_of(self, key: str | None) -> Batch | None:
        return next((r for r in self.rows if key is not None and r.draft.source_key == key), None)

    def expects(self, draft: QueuedWorkBatchDraft, *, shown: bool = True) -> Known:
        """QUE-4, QUE-5; where the stored batch is shown, it has to be whole."""
        row = self.holder_of(draft.source_key)
        if row is None:
            return Known(created=True)
        settled = row.settled_at_ms is not None
        if shown and not settled:
            whole([row])
        return Known(False, row.says_the_same_as(draft), settled, row.batch_id)

    def cancel(self, batch_id: str, now_ms: int) -> Batch | None:
        for row in self.pending(now_ms):
            if row.batch_id == batch_id:
                self.rows.remove(row)
                return row
        return None

    # --- claims ------------------------------------------------------------------------

    def _candidates(self, lease: Lease, now_ms: int) -> list[Batch]:
        """QUE-10, QUE-11."""
        return [
            row
            for row in self.batches
            if row.draft.available_at_ms <= now_ms
            and (row.claim is None or row.claim.session_lease_generation != lease.generation)
        ]

    def command(self, lease: Lease, now_ms: int) -> list[Batch]:
        """QUE-12."""
        self.judge(lease, now_ms)
        first = self._candidates(lease, now_ms)[:1]
        return whole([row for row in first if row.is_command])

    def leading(self, lease: Lease, boundary: str, maximum: int, now_ms: int) -> list[Batch]:
        """QUE-13."""
        self.judge(lease, now_ms)
        return whole(_taken(self._candidates(lease, now_ms), boundary)[:maximum])

    def exactly(
        self, lease: Lease, boundary: str, batch_ids: Collection[str], now_ms: int
    ) -> list[Batch]:
        """QUE-14."""
        self.judge(lease, now_ms)
        asked = [row for row in self._candidates(lease, now_ms) if row.batch_id in batch_ids]
        taken = _taken(asked, boundary)
        return whole(taken) if len(taken) == len(batch_ids) else []

    def abandon(self, claim: QueuedWorkClaim) -> int:
        owned = self._owned(claim)
        for row in owned:
            row.claim = None
        return len(owned)

    def _owned(self, claim: QueuedWorkClaim) -> list[Batch]:
        return [
            row
            for row in self.rows
            if row.claim is not None and row.claim.claim_token == claim.claim_token
        ]

    # --- commits -----------------------------------------------------------------------

    def may_complete(self, claims: Iterable[QueuedWorkClaim], listed: Sequence[list[str]]) -> None:
        """QUE-19."""
        for claim, ids in zip(claims, listed, strict=True):
            has = {row.batch_id for row in self._owned(claim)}
            unowned = [each for each in ids if each not in has]
            if unowned:
                raise Refusal("queued_work_claim_superseded", str(unowned))
            if len(has) > len(ids):
                raise Refusal("invalid_argument", "partial completion")

    def complete(self, claims: Iterable[QueuedWorkClaim], now_ms: int) -> None:
        for claim in claims:
            for row in self._owned(claim):
                row.claim = None
                row.settled_at_ms = now_ms
                if row.draft.source_key is None or row.draft.dedupe == "pending":
                    self.rows.remove(row)

    def prune(self, older_than_ms: int) -> int:
        gone = [r for r in self.rows if (r.settled_at_ms or older_than_ms) < older_than_ms]
        self.rows = [row for row in self.rows if row not in gone]
        return len(gone)


def _taken(candidates: list[Batch], boundary: str) -> list[Batch]:
    if not candidates or candidates[0].is_command:
        return []
    first, *rest = candidates
    if boundary != "idle" and first.draft.delivery_policy != "earliest_safe_boundary":
        return []
    taken = [first]
    for row in rest:
        if not row.joins(first):
            break
        taken.append(row)
    return taken


def whole(rows: list[Batch]) -> list[Batch]:
    """The rows, none of which may be damaged (QUE-18)."""
    for row in rows:
        if row.damaged:
            raise Refusal("corrupt_record", row.batch_id)
    return rows
