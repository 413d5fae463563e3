"""The manifest of attachments: who refers to which, and what may be forgotten (ATT-5 to ATT-16)."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from holdfast.model.attachments import AttachmentIntent
from holdfast.operations.address import Address
from holdfast.operations.levers import BATCH, Run, _look, _until_done
from holdfast.rules import attachments, checks
from holdfast.settings import Settings
from holdfast.transaction import Call, Done, Steps, Transaction, call, read, small_read, write

#: What comes before every intent.
_FIRST: Final = AttachmentIntent(
    session_id="", attachment_id="", intent_at_ms=-checks.MAX_INTEGER, intent_revision=0
)


@write
def record_intent(
    env: Settings,
    at: Address,
    attachment_id: str,
    *,
    owner_kind: str | None = None,
    owner_id: str | None = None,
    intent_at_ms: int | None = None,
) -> Steps[None]:
    """Say that the session is about to refer to an attachment; again, say it anew."""
    row = {
        "attachment_id": attachments.attachment_id(attachment_id),
        "intent_at_ms": None
        if intent_at_ms is None
        else checks.instant(intent_at_ms, "intent_at_ms"),
    }
    owner = attachments.owner(owner_kind, owner_id)

    async def steps(tx: Transaction) -> None:
        intent = call(
            "record_intent",
            session_id=at.session_id,
            bound_key=at.key,
            owner_kind=owner.kind,
            owner_id=owner.id,
            **row,
        )
        await _in_section(tx, at, intent, create=at.may_create)

    return steps


@write
def commit_refs(env: Settings, at: Address, attachment_ids: Collection[str]) -> Steps[None]:
    """Confirm what the session intended; the first time counts, and no row is made."""
    ids = attachments.attachment_ids(attachment_ids, "attachment_ids")
    if not ids:
        return Done(None)

    async def steps(tx: Transaction) -> None:
        stamped = call(
            "stamp_attachments",
            session_id=at.session_id,
            bound_key=at.key,
            attachment_ids=ids,
            turn_id=None,
        )
        await _in_section(tx, at, stamped, create=False)

    return steps


@write
def forget(env: Settings, at: Address, attachment_id: str) -> Steps[None]:
    """Drop the session's reference, committed or not. The bytes are left to the sweep."""
    id = attachments.attachment_id(attachment_id)

    async def steps(tx: Transaction) -> None:
        gone = call(
            "forget_attachment", session_id=at.session_id, bound_key=at.key, attachment_id=id
        )
        await _in_section(tx, at, gone, create=False)

    return steps


async def _in_section(tx: Transaction, at: Address, change: Call, *, create: bool) -> None:
    """One trip: enter, change, commit. A view whose session is gone has changed nothing."""
    entered, _ = await tx.conclude(
        call("enter_section", session_id=at.session_id, create=create), change
    )
    row = entered[0] if entered else None
    if create:
        at.must_have_met(row)
    else:
        at.met(row)


@small_read
def holds(env: Settings, at: Address, attachment_id: str) -> Steps[bool]:
    """Whether the session refers to an attachment, committed or not."""
    id = attachments.attachment_id(attachment_id)

    async def steps(tx: Transaction) -> bool:
        row = await tx.maybe("holds_attachment", session_id=at.session_id, attachment_id=id)
        at.met(row)
        return row is not None and bool(row["held"])

    return steps


# --- the store as a whole ----------------------------------------------------------------


@read
def list_uncommitted(
    env: Settings, older_than_ms: int, limit: int = 100, after: AttachmentIntent | None = None
) -> Steps[list[AttachmentIntent]]:
    """Intents up to an instant that nothing confirmed, by time, session and id."""
    checks.instant(older_than_ms, "older_than_ms")
    if checks.limit(limit) == 0:
        return Done([])
    seen = _FIRST if after is None else checks.record(after, AttachmentIntent, "after")

    async def steps(tx: Transaction) -> list[AttachmentIntent]:
        page = call(
            "list_intents",
            older_than_ms=older_than_ms,
            after_at_ms=seen.intent_at_ms,
            after_session=seen.session_id,
            after=seen.attachment_id,
            limit=limit,
        )
        (rows,) = await tx.conclude(page)
        return [AttachmentIntent(**row) for row in rows]

    return steps


@read
def list_refs(env: Settings, limit: int = 100, after: str = "") -> Steps[list[str]]:
    """Ids that some session refers to, sorted, each once."""
    if after:
        attachments.attachment_id(after, "after")
    if checks.limit(limit) == 0:
        return Done([])

    async def steps(tx: Transaction) -> list[str]:
        (rows,) = await tx.conclude(call("list_refs", after=after, limit=limit))
        return [row["attachment_id"] for row in rows]

    return steps


@read
def live_refs(env: Settings, attachment_ids: Collection[str], cutoff_ms: int) -> Steps[set[str]]:
    """Those of up to 10,000 ids that some row keeps which may not be forgotten."""
    ids = attachments.attachment_ids(attachment_ids, "attachment_ids")
    checks.instant(cutoff_ms, "cutoff_ms")
    if not ids:
        return Done(set())

    async def steps(tx: Transaction) -> set[str]:
        return await _live(tx, ids, cutoff_ms)

    return steps


@read
def is_live(env: Settings, attachment_id: str, cutoff_ms: int) -> Steps[bool]:
    """Whether some row of this id, in any session, may not be forgotten."""
    id = attachments.attachment_id(attachment_id)
    checks.instant(cutoff_ms, "cutoff_ms")

    async def steps(tx: Transaction) -> bool:
        return bool(await _live(tx, [id], cutoff_ms))

    return steps


async def _live(tx: Transaction, ids: list[str], cutoff_ms: int) -> set[str]:
    probe = call("live_attachments", attachment_ids=ids, cutoff_ms=cutoff_ms)
    (rows,) = await tx.conclude(probe)
    return {row["attachment_id"] for row in rows}


@small_read
def now(env: Settings) -> Steps[int]:
    """The store's clock, by which intents are judged."""

    async def steps(tx: Transaction) -> int:
        (rows,) = await tx.conclude(call("read_clock"))
        instant: int = rows[0]["now_ms"]
        return instant

    return steps


@write
def store_name(env: Settings) -> Steps[str]:
    """What this store is called in byte backends that it may share, 32 hexadecimal digits."""

    async def steps(tx: Transaction) -> str:
        (rows,) = await tx.conclude(call("name_store"))
        name: str = rows[0]["id"]
        return name

    return steps


def forget_aged_intents(run: Run, env: Settings, cutoff_ms: int, limit: int = BATCH) -> int:
    """Forget uncommitted intents up to an instant whose owners are dead; how many there were."""
    checks.instant(cutoff_ms, "cutoff_ms")
    size = checks.limit(limit)
    forgotten = 0
    while found := _look(run, "dead_intents", cutoff_ms=cutoff_ms, limit=size):
        for row in found:
            # One section at a time: nobody waits for more than a batch of one session.
            entered = call("enter_section", session_id=row["id"], create=False)
            forgotten += _until_done(
                run,
                "forget_dead_intents",
                entered,
                session_id=row["id"],
                cutoff_ms=cutoff_ms,
                limit=size,
            )
    return forgotten
