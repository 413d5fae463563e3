"""Turn inputs: submit, list, cancel, claim, abandon, recover (INP-1 to INP-15)."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from holdfast.model.inputs import (
    Checkpoint,
    CheckpointWork,
    InputCancellation,
    InputTarget,
    PendingTurnInput,
    PendingTurnInputDraft,
    SourceKey,
    TurnInputClaim,
    TurnInputEntry,
    TurnInputState,
)
from holdfast.model.leases import Lease
from holdfast.operations import queue as work
from holdfast.operations.address import Address
from holdfast.operations.claiming import (
    abandoning,
    claim_of,
    claiming,
    fence_and_token,
    judge,
    taken_by,
)
from holdfast.operations.leases import fence
from holdfast.rules import checks, inputs
from holdfast.rules.claims import INPUTS
from holdfast.settings import Settings
from holdfast.transaction import (
    Call,
    Done,
    LostRace,
    Row,
    Steps,
    Transaction,
    autocommit,
    call,
    read,
    write,
)

MAX_SUFFIX = 10_000


@autocommit
def enqueue(env: Settings, at: Address, draft: PendingTurnInputDraft) -> Steps[PendingTurnInput]:
    """Submit an input; the same submission again is the record it made, as it stands now."""
    given = inputs.encode(draft, env)
    at.check_same(draft.session_id)

    async def steps(tx: Transaction) -> PendingTurnInput:
        columns = given._asdict()
        row = await tx.maybe("enqueue_input", session_id=at.session_id, bound_key=at.key, **columns)
        if row is not None:
            at.met(row)
            return inputs.stored(row, at.session_id)
        rows = await tx.all(
            "known_inputs",
            session_id=at.session_id,
            input_id=given.input_id,
            source_key=given.source_key,
        )
        at.met(rows[0] if rows else None)
        known = [row for row in rows if row["seq"] is not None]
        record = inputs.resubmitted(given, known, at.session_id)
        if record is None:
            raise LostRace(at.session_id)
        return record

    return steps


# --- list --------------------------------------------------------------------------------


@read
def list_pending(
    env: Settings, at: Address, limit: int = 100, after_seq: int = 0
) -> Steps[list[PendingTurnInput]]:
    """Inputs that wait for their turn and that no live claim holds, in order of submission."""
    listing = call("list_pending_inputs", session_id=at.session_id, **_page(limit, after_seq))
    if limit == 0:
        return Done([])

    async def steps(tx: Transaction) -> list[PendingTurnInput]:
        return [inputs.stored(row, at.session_id) for row in await _listed(tx, at, listing)]

    return steps


@read
def list_inputs(
    env: Settings,
    at: Address,
    states: Collection[TurnInputState] = inputs.STATES,
    limit: int = 100,
    after_seq: int = 0,
) -> Steps[list[TurnInputEntry]]:
    """Inputs in any of these states, each with who has it, in order of submission."""
    wanted = [checks.one_of(s, "states", inputs.STATES) for s in checks.listed(states, "states")]
    page = _page(limit, after_seq)
    listing = call("list_inputs", session_id=at.session_id, states=wanted, **page)
    if limit == 0 or not wanted:
        return Done([])

    async def steps(tx: Transaction) -> list[TurnInputEntry]:
        return [
            TurnInputEntry(inputs.stored(row, at.session_id), inputs.claim_info(row))
            for row in await _listed(tx, at, listing)
        ]

    return steps


def _page(limit: int, after_seq: int) -> dict[str, int]:
    return {"limit": checks.limit(limit), "after_seq": checks.count(after_seq, "after_seq")}


async def _listed(tx: Transaction, at: Address, listing: Call) -> list[Row]:
    sessions, rows = await tx.conclude(call("read_lease", session_id=at.session_id), listing)
    at.met(sessions[0] if sessions else None)
    return rows


# --- cancel ------------------------------------------------------------------------------


@write
def cancel(
    env: Settings, at: Address, targets: Collection[InputTarget]
) -> Steps[list[InputCancellation]]:
    """Cancel inputs by id or `SourceKey`; one outcome each, in order, a repeated one included."""
    wanted = inputs.targets(targets)
    if not wanted:
        return Done([])
    ids = [each for each in wanted if not isinstance(each, SourceKey)]
    keys = [each.key for each in wanted if isinstance(each, SourceKey)]
    taken = call(
        "cancel_inputs",
        session_id=at.session_id,
        bound_key=at.key,
        input_ids=ids,
        source_keys=keys,
        maximum=2 * checks.MAX_ITEMS,
    )

    async def steps(tx: Transaction) -> list[InputCancellation]:
        rows = await _cancelled(tx, at, taken)
        return inputs.cancellations(wanted, rows, at.session_id)

    return steps


@write
def cancel_suffix(
    env: Settings, at: Address, anchor: InputTarget
) -> Steps[list[InputCancellation]]:
    """Cancel an input and every later one of the session; one outcome each, in order."""
    first = inputs.target(anchor, "anchor")
    taken = call(
        "cancel_input_suffix",
        session_id=at.session_id,
        bound_key=at.key,
        input_id=None if isinstance(first, SourceKey) else first,
        source_key=first.key if isinstance(first, SourceKey) else None,
        maximum=MAX_SUFFIX,
    )

    async def steps(tx: Transaction) -> list[InputCancellation]:
        rows = await _cancelled(tx, at, taken)
        return inputs.suffix_cancellations(rows, at.session_id, MAX_SUFFIX)

    return steps


async def _cancelled(tx: Transaction, at: Address, taken: Call) -> list[Row]:
    entered, rows, _ = await tx.conclude(
        call("lock_section", session_id=at.session_id),
        taken,
        call("trim_readiness", session_id=at.session_id),
    )
    at.met(entered[0] if entered else None)
    return rows


# --- claims ------------------------------------------------------------------------------


@write
def claim_active(
    env: Settings,
    at: Address,
    lease: Lease,
    turn_id: str,
    checkpoint: Checkpoint,
    max_inputs: int = 100,
) -> Steps[TurnInputClaim | None]:
    """Accept the inputs of a turn that are admitted at this checkpoint of it."""
    checks.identifier(turn_id, "turn_id")
    inputs.check_checkpoint(checkpoint)
    if checks.limit(max_inputs, "max_inputs") == 0:
        return Done(None)
    taking = _turn_call(env, at, lease, turn_id, checkpoint, max_inputs)
    return claiming(at, lease, taking, _claimed)


@write
def claim_next(
    env: Settings, at: Address, lease: Lease, max_inputs: int = 100
) -> Steps[TurnInputClaim | None]:
    """Take the inputs that wait for the next turn."""
    if checks.limit(max_inputs, "max_inputs") == 0:
        return Done(None)
    asked = fence_and_token(env, at, lease)
    return claiming(at, lease, call("claim_next_inputs", **asked, max_inputs=max_inputs), _claimed)


def _turn_call(
    env: Settings,
    at: Address,
    lease: Lease,
    turn_id: str,
    checkpoint: Checkpoint,
    max_inputs: int,
) -> Call:
    """Claims a turn's inputs, behind the section's lock."""
    asked = {"turn_id": turn_id, "checkpoint": checkpoint, "max_inputs": max_inputs}
    return call("claim_turn_inputs", **fence_and_token(env, at, lease), **asked)


def _claimed(at: Address, lease: Lease, rows: list[Row], taking: Call) -> TurnInputClaim | None:
    taken = taken_by(rows)
    if not taken:
        return None
    return TurnInputClaim(
        **claim_of(at, lease, taken, taking),
        turn_id=taking.params.get("turn_id"),
        checkpoint=taking.params.get("checkpoint"),
        inputs=[inputs.stored(row, at.session_id) for row in taken],
    )


@write
def abandon(env: Settings, at: Address, claim: TurnInputClaim) -> Steps[int]:
    """Give a claim's inputs back; those it does not own any more stay as they are."""
    return abandoning("abandon_inputs", INPUTS, [claim], at)


@write
def abandon_many(env: Settings, claims: Collection[TurnInputClaim]) -> Steps[int]:
    """Give several claims back, of any sessions, in one transaction."""
    return abandoning("abandon_inputs", INPUTS, checks.listed(claims, "claims"), None)


@write
def recover_orphaned(
    env: Settings, at: Address, lease: Lease, turn_id: str | None = None
) -> Steps[list[PendingTurnInput]]:
    """Take back what a dead owner had accepted: for its turn if it is named, else for the next.

    Only its host knows that the turn will not be replayed, so nothing ever calls this by itself.
    """
    if turn_id is not None:
        checks.identifier(turn_id, "turn_id")
    taking = call("recover_inputs", **fence(at, lease), turn_id=turn_id)

    async def steps(tx: Transaction) -> list[PendingTurnInput]:
        _, rows, _ = await tx.conclude(
            call("lock_section", session_id=at.session_id),
            taking,
            call("refresh_readiness", session_id=at.session_id),
        )
        judge(at, lease, rows)
        return [inputs.stored(row, at.session_id) for row in taken_by(rows)]

    return steps


# --- both families at a checkpoint -------------------------------------------------------


class _AtCheckpoint:
    """The steps of a checkpoint's claim, and the look that comes before them (INP-15)."""

    def __init__(self, at: Address, lease: Lease, probe: Call, takings: list[Call]) -> None:
        self._at = at
        self._lease = lease
        self._probe = probe
        self._takings = takings

    async def probe(self, tx: Transaction) -> Done | None:
        """An answer already where nothing could be claimed; the lease is not judged for that."""
        row = await tx.maybe(self._probe.name, **self._probe.params)
        self._at.met(row)
        if row is not None and (row["has_inputs"] or row["has_work"]):
            return None
        return Done(CheckpointWork())

    async def __call__(self, tx: Transaction) -> CheckpointWork:
        at, lease = self._at, self._lease
        locked = call("lock_section", session_id=at.session_id)
        _, *answers = await tx.conclude(locked, *self._takings)
        # Judged once, by the first of them: a lease that ends between the two claims is lost to
        # the second one only, and that finds nothing.
        judge(at, lease, answers[0])
        claims = {
            taking.name: _CLAIMED[taking.name](at, lease, rows, taking)
            for taking, rows in zip(self._takings, answers, strict=True)
        }
        return CheckpointWork(claims.get("claim_turn_inputs"), claims.get("claim_work"))


_CLAIMED: dict[str, Callable[..., Any]] = {
    "claim_turn_inputs": _claimed,
    "claim_work": work.claimed,
}


@write
def claim_at_checkpoint(
    env: Settings,
    at: Address,
    lease: Lease,
    turn_id: str,
    checkpoint: Checkpoint,
    max_inputs: int = 100,
    max_batches: int = 1,
) -> Steps[CheckpointWork]:
    """Claim a turn's inputs and the queue's work at a checkpoint of it, in one transaction."""
    checks.identifier(turn_id, "turn_id")
    inputs.check_checkpoint(checkpoint)
    takings: list[Call] = []
    if checks.limit(max_inputs, "max_inputs"):
        takings.append(_turn_call(env, at, lease, turn_id, checkpoint, max_inputs))
    if checks.limit(max_batches, "max_batches"):
        takings.append(work.claim_call(env, at, lease, "active_turn_checkpoint", max_batches))
    if not takings:
        return Done(CheckpointWork())
    probe = call(
        "probe_checkpoint",
        session_id=at.session_id,
        generation=lease.generation,
        turn_id=turn_id,
        checkpoint=checkpoint,
        wants_inputs=bool(max_inputs),
        wants_work=bool(max_batches),
    )
    return _AtCheckpoint(at, lease, probe, takings)
