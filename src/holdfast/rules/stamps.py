"""Turn stamps as stored documents: what they keep, and how an unreadable one is told."""

from __future__ import annotations

import msgspec

from holdfast.errors import CorruptRecord, UnsupportedRecordVersion
from holdfast.model.commits import RuntimeCommitResult
from holdfast.model.queue import EnqueueOutcome
from holdfast.rules.canonical import canonical, parse

STAMP_VERSION = 1


class _Enqueued(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one draft of the outbox."""

    batch_id: str
    created: bool
    content_matches: bool
    settled: bool


class _Kept(msgspec.Struct, frozen=True, kw_only=True):
    """What a stamp keeps of a result."""

    head_revision: int
    checkpoint_ref: str | None
    component_refs: dict[str, str]
    enqueued_queue_batches: list[_Enqueued] = []


def decode_result(stored: str, turn_id: str) -> RuntimeCommitResult:
    """The result a stamp keeps; damaged or newer ones raise."""
    try:
        document = parse(stored.encode())
        version = document.pop("schema_version")
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise CorruptRecord("turn_commit", turn_id, "unparsable") from error
    if not isinstance(version, int) or isinstance(version, bool):
        raise CorruptRecord("turn_commit", turn_id, "schema_version")
    if version > STAMP_VERSION:
        raise UnsupportedRecordVersion("turn_commit", turn_id, version, STAMP_VERSION)
    try:
        kept = msgspec.convert(document, _Kept)
    except msgspec.ValidationError as error:
        raise CorruptRecord("turn_commit", turn_id, "unparsable") from error
    outbox = [
        EnqueueOutcome(**msgspec.structs.asdict(each)) for each in kept.enqueued_queue_batches
    ]
    found = msgspec.structs.asdict(kept) | {"enqueued_queue_batches": outbox}
    return RuntimeCommitResult(**found)


def encode_result(result: RuntimeCommitResult) -> str:
    """The result as a stamp keeps it."""
    return canonical(
        {
            "schema_version": STAMP_VERSION,
            "head_revision": result.head_revision,
            "checkpoint_ref": result.checkpoint_ref,
            "component_refs": result.component_refs,
            "enqueued_queue_batches": [_enqueued(each) for each in result.enqueued_queue_batches],
        }
    ).decode()


def _enqueued(outcome: EnqueueOutcome) -> dict[str, object]:
    """An outcome without its batch: stamps stay small."""
    return {name: getattr(outcome, name) for name in _Enqueued.__struct_fields__}
