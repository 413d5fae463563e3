"""Queued work: which drafts are valid, how batches are stored, what a draft comes to.

Which rows a claim takes (QUE-11 to QUE-14) is not here: a claim is one trip, so that rule stands
in the statement, under one name and alike in both dialects.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple, get_args

import msgspec

from holdfast.errors import CorruptRecord, InvalidArgument
from holdfast.model.queue import (
    Boundary,
    Dedupe,
    DeliveryPolicy,
    EnqueueOutcome,
    Group,
    MergeKey,
    QueuedWorkBatch,
    QueuedWorkBatchDraft,
    QueuedWorkItem,
    SlotPolicy,
    WorkClass,
)
from holdfast.rules import checks
from holdfast.rules.canonical import canonical, parse, sha256_hex
from holdfast.settings import Settings

MAX_PAYLOADS: Final = 1_000
#: Everything that one call enqueues; its drafts travel as one value.
MAX_ENQUEUED_BYTES: Final = 128 * 1024 * 1024
COMMAND: Final = "session_command"

_MERGE_KEYS: Final = ("never", "payload_default")
#: The words that may stand in a column.
_WORDS: Final = {
    "class": get_args(WorkClass),
    "delivery": get_args(DeliveryPolicy),
    "slot": get_args(SlotPolicy),
    "dedupe": get_args(Dedupe),
}


class Batch(NamedTuple):
    """A draft as it is stored, under the columns' names; `place` is where its caller put it."""

    place: int
    session_id: str
    batch_id: str
    #: `class` is a word of the language.
    work_class: WorkClass
    delivery: str
    slot: str
    merge_key: str
    source_key: str | None
    dedupe: str
    available_at_ms: int
    digest: str
    payloads: str
    #: Of the payloads, in bytes.
    size: int

    def columns(self) -> dict[str, Any]:
        """The columns by their names in the database."""
        found = self._asdict()
        del found["size"]
        return {"class": found.pop("work_class"), **found}


def encode(draft: QueuedWorkBatchDraft, env: Settings, listed: str = "", place: int = 0) -> Batch:
    """A valid draft in its stored form, under a new batch id (QUE-2); `listed` is where it was."""
    checks.record(draft, QueuedWorkBatchDraft, listed or "draft")
    within = f"{listed}." if listed else ""
    stored, work_class = _payloads(draft.payloads, f"{within}payloads", env)
    payloads = stored.decode()
    policy = draft.delivery_policy
    delivery = checks.one_of(policy, f"{within}delivery_policy", get_args(DeliveryPolicy))
    slot = checks.one_of(draft.slot_policy, f"{within}slot_policy", get_args(SlotPolicy))
    merge_key = merge_key_text(draft.merge_key, f"{within}merge_key")
    available_at_ms = checks.count(draft.available_at_ms, f"{within}available_at_ms")
    source_key = draft.source_key
    return Batch(
        place=place,
        session_id=checks.identifier(draft.session_id, f"{within}session_id"),
        batch_id=f"qwb:{env.ids.token()}",
        work_class=work_class,
        delivery=delivery,
        slot=slot,
        merge_key=merge_key,
        source_key=None if source_key is None else checks.key(source_key, f"{within}source_key"),
        dedupe=checks.one_of(draft.dedupe, f"{within}dedupe", get_args(Dedupe)),
        available_at_ms=available_at_ms,
        digest=digest(work_class, delivery, slot, merge_key, available_at_ms, payloads),
        payloads=payloads,
        size=len(stored),
    )


def encode_all(drafts: Any, field: str, maximum: int, env: Settings) -> list[Batch]:
    """Valid drafts in their stored form, in order."""
    listed = checks.listed(drafts, field, maximum)
    batches = [encode(draft, env, f"{field}[{i}]", i) for i, draft in enumerate(listed)]
    checks.at_most(sum(batch.size for batch in batches), MAX_ENQUEUED_BYTES, field)
    return batches


def _payloads(payloads: Any, field: str, env: Settings) -> tuple[bytes, WorkClass]:
    listed = checks.listed(payloads, field, MAX_PAYLOADS)
    if not listed:
        raise InvalidArgument(field, "empty")
    classes = {_class_of(each, f"{field}[{i}]") for i, each in enumerate(listed)}
    if len(classes) > 1:
        raise InvalidArgument(field, "of more than one class")
    spelled = [
        canonical(each, f"{field}[{i}]", env.max_value_bytes) for i, each in enumerate(listed)
    ]
    # With the brackets and the commas between them.
    checks.at_most(sum(map(len, spelled)) + len(spelled) + 1, MAX_ENQUEUED_BYTES, field)
    return b"[" + b",".join(spelled) + b"]", classes.pop()


def _class_of(payload: Any, field: str) -> WorkClass:
    """QUE-1."""
    if not isinstance(payload, dict) or not isinstance(payload.get("type"), str):
        raise InvalidArgument(field, "not an object with a text type")
    return "session_command" if payload["type"] == COMMAND else "turn_work"


def digest(*content: str | int | None) -> str:
    """The hash of stored parts, so that one text can be held against another, or against itself.

    The statements that claim compute it too, to leave alone what is damaged.
    """
    return sha256_hex("\n".join(str(part) for part in content if part is not None).encode())


def merge_key_text(key: MergeKey, field: str = "merge_key") -> str:
    """A merge key as it is stored: its wire value as canonical JSON."""
    if isinstance(key, Group):
        return canonical({"group": checks.key(key.group, f"{field}.group")}).decode()
    return canonical(checks.one_of(key, field, _MERGE_KEYS)).decode()


def wire(draft: QueuedWorkBatchDraft) -> dict[str, Any]:
    """A draft for the hash of a turn: defaults filled in, without its session (COM-10)."""
    given = msgspec.structs.asdict(draft)
    del given["session_id"]
    key = given["merge_key"]
    given["merge_key"] = {"group": key.group} if isinstance(key, Group) else key
    return {name: value for name, value in given.items() if value is not None}


# --- stored rows -------------------------------------------------------------------------


def batch(row: Mapping[str, Any], session_id: str) -> QueuedWorkBatch:
    """A stored batch; one that is not what was enqueued is corrupt (QUE-18)."""
    batch_id = row["batch_id"]
    content = (row["class"], row["delivery"], row["slot"], row["merge_key"])
    if row["digest"] != digest(*content, row["available_at_ms"], row["payloads"]):
        raise CorruptRecord("queued_work", batch_id, "digest")
    for column, words in _WORDS.items():
        if row[column] not in words:
            raise CorruptRecord("queued_work", batch_id, column)
    try:
        payloads = parse(row["payloads"].encode())
        return _batch(row, session_id, _merge_key(row["merge_key"]), list(payloads))
    except (ValueError, TypeError, KeyError) as error:
        raise CorruptRecord("queued_work", batch_id, "unparsable") from error


def removed_batch(row: Mapping[str, Any], session_id: str) -> QueuedWorkBatch:
    """As `batch`; of a damaged one, the raw text stands for payload and merge key."""
    try:
        return batch(row, session_id)
    except CorruptRecord:
        return _batch(row, session_id, row["merge_key"], [row["payloads"]])


def _merge_key(stored: str) -> MergeKey:
    key = parse(stored.encode())
    if isinstance(key, dict):
        return Group(key["group"])
    if key not in _MERGE_KEYS:
        raise ValueError(key)
    found: MergeKey = key
    return found


def _batch(
    row: Mapping[str, Any], session_id: str, merge_key: MergeKey, payloads: Sequence[Any]
) -> QueuedWorkBatch:
    batch_id = row["batch_id"]
    return QueuedWorkBatch(
        session_id=session_id,
        batch_id=batch_id,
        enqueue_seq=row["seq"],
        enqueued_at_ms=row["enqueued_at_ms"],
        work_class=row["class"],
        items=[QueuedWorkItem(f"{batch_id}:item:{i}", each) for i, each in enumerate(payloads)],
        delivery_policy=row["delivery"],
        slot_policy=row["slot"],
        merge_key=merge_key,
        source_key=row["source_key"],
        available_at_ms=row["available_at_ms"],
        dedupe=row["dedupe"],
    )


# --- what a draft comes to ---------------------------------------------------------------


def created(draft: Batch, row: Mapping[str, Any]) -> EnqueueOutcome:
    """The outcome of a draft that was stored as `row` says."""
    stored = {**draft.columns(), **row}
    return EnqueueOutcome(
        batch_id=draft.batch_id, created=True, batch=batch(stored, draft.session_id)
    )


def known(draft: Batch, row: Mapping[str, Any]) -> EnqueueOutcome:
    """The outcome of a draft whose source key is taken: what is stored wins (QUE-4, QUE-5)."""
    settled = row["settled_at_ms"] is not None
    return EnqueueOutcome(
        batch_id=row["batch_id"],
        created=False,
        content_matches=row["digest"] == draft.digest,
        settled=settled,
        batch=None if settled else batch(row, draft.session_id),
    )


def outbox_outcomes(
    drafts: Sequence[Batch], stored: Mapping[str, Mapping[str, Any]], completed: Collection[str]
) -> list[EnqueueOutcome]:
    """The outcomes of an outbox, by the rows under its source keys and what the commit completes.

    Told before anything is written, since the turn's stamp keeps them.
    """
    taken = {
        key: row
        for key, row in stored.items()
        if row["batch_id"] not in completed or row["dedupe"] != "pending"
    }
    outcomes = []
    for draft in drafts:
        key = draft.source_key
        row = taken.get(key) if key is not None else None
        if row is None:
            outcomes.append(EnqueueOutcome(batch_id=draft.batch_id, created=True))
            if key is not None:
                taken[key] = {**draft.columns(), "settled_at_ms": None}
        else:
            outcomes.append(_outbox_known(draft, row, completed))
    return outcomes


def _outbox_known(
    draft: Batch, row: Mapping[str, Any], completed: Collection[str]
) -> EnqueueOutcome:
    return EnqueueOutcome(
        batch_id=row["batch_id"],
        created=False,
        content_matches=row["digest"] == draft.digest,
        settled=row["settled_at_ms"] is not None or row["batch_id"] in completed,
    )


def check_boundary(boundary: Any) -> Boundary:
    """One of the two boundaries at which work is delivered."""
    found: Boundary = checks.one_of(boundary, "boundary", get_args(Boundary))
    return found
