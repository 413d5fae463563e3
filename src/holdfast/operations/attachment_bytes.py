"""Attachment bytes that the database keeps: staged in chunks, published under their id.

A staging is open while it is written to. Whatever closes it, a publication or a sweep, locks its
row, so of the two only one happens. Chunks go only behind a closed staging, never behind an id:
where an id has chunks already, the new ones change places with them, for the old may be damaged.
"""

from __future__ import annotations

from typing import Final

from holdfast.errors import BlobCorrupt
from holdfast.model.attachments import ByteEntry
from holdfast.operations.levers import BATCH, Run, _batch, _look, _until_done
from holdfast.rules.attachments import staging_swept
from holdfast.settings import Settings
from holdfast.transaction import (
    Call,
    Done,
    Row,
    Steps,
    Transaction,
    autocommit,
    call,
    small_read,
    write,
)

#: All chunks of one id but the last have this size.
CHUNK_BYTES: Final = 1024 * 1024
#: Chunks removed in one transaction.
_CHUNKS: Final = 16


@autocommit
def stage(env: Settings) -> Steps[int]:
    """A new staging, open."""

    async def steps(tx: Transaction) -> int:
        (row,) = await tx.all("stage_bytes")
        key: int = row["key"]
        return key

    return steps


@write
def write_chunk(env: Settings, staging: int, number: int, body: bytes) -> Steps[None]:
    """The next chunk of a staging."""

    async def steps(tx: Transaction) -> None:
        (rows,) = await tx.conclude(call("write_chunk", staging=staging, number=number, body=body))
        _must_be_open(rows)

    return steps


@write
def publish(env: Settings, staging: int, id: str) -> Steps[int | None]:
    """Give a staging its id; the chunks it replaced, which have to go, or none."""

    async def steps(tx: Transaction) -> int | None:
        published, replaced, _ = await tx.conclude(*_publication(staging, id))
        _must_be_open(published)
        return replaced[0]["key"] if replaced else None

    return steps


@write
def store_small(env: Settings, id: str, body: bytes) -> Steps[None]:
    """Bytes of one chunk under their id, in one transaction."""

    async def steps(tx: Transaction) -> None:
        staged, known = await tx.trip(call("stage_bytes"), call("find_chunks", id=id))
        staging = staged[0]["key"]
        await tx.conclude(
            call("write_chunk", staging=staging, number=0, body=body),
            *_publication(staging, id),
            *(each for old in known for each in _removal(old["key"])),
        )

    return steps


def _publication(staging: int, id: str) -> tuple[Call, ...]:
    return (
        call("publish_bytes", staging=staging, id=id),
        call("replace_chunks", staging=staging, id=id),
        call("clear_staging", staging=staging),
    )


def _removal(staging: int) -> tuple[Call, ...]:
    return (
        call("drop_chunks", staging=staging, limit=_CHUNKS),
        call("drop_staging", staging=staging),
    )


def _must_be_open(rows: list[Row]) -> None:
    if not rows:
        raise staging_swept()


@small_read
def read_chunk(env: Settings, id: str, number: int) -> Steps[tuple[int, bytes] | None]:
    """The length of all bytes of an id, and one of their chunks; none without the id."""

    async def steps(tx: Transaction) -> tuple[int, bytes] | None:
        row = await tx.maybe("read_chunk", id=id, number=number)
        if row is None:
            return None
        if row["body"] is None and number * CHUNK_BYTES < row["byte_len"]:
            raise BlobCorrupt(id, f"chunk {number} is missing")
        return row["byte_len"], row["body"] or b""

    return steps


@small_read
def head(env: Settings, id: str) -> Steps[ByteEntry | None]:
    """What is known of stored bytes, or none."""

    async def steps(tx: Transaction) -> ByteEntry | None:
        row = await tx.maybe("head_bytes", id=id)
        return None if row is None else ByteEntry(**row)

    return steps


@small_read
def list_bytes(env: Settings, after: str, limit: int) -> Steps[list[ByteEntry]]:
    """Stored bytes, by id."""
    if not limit:
        return Done([])

    async def steps(tx: Transaction) -> list[ByteEntry]:
        (rows,) = await tx.conclude(call("list_bytes", after=after, limit=limit))
        return [ByteEntry(**row) for row in rows]

    return steps


# --- removal -----------------------------------------------------------------------------


def delete(run: Run, id: str) -> None:
    """Hide bytes at once and remove their chunks; what is interrupted is left to the sweep."""
    for row in _batch(run, "unpublish_bytes", id=id):
        remove(run, row["key"])


def discard(run: Run, staging: int) -> None:
    """Remove a staging that is not to be published; nothing if it was."""
    _batch(run, "close_staging", staging=staging)
    remove(run, staging)


def sweep(run: Run, before_ms: int) -> int:
    """Remove what nobody has written to since an instant, and what was left half removed."""
    _until_done(run, "close_stale", before_ms=before_ms, limit=BATCH)
    removed = 0
    while rows := _look(run, "closed_staging", limit=BATCH):
        for row in rows:
            remove(run, row["key"])
        removed += len(rows)
    return removed


def remove(run: Run, staging: int) -> None:
    """Remove a closed staging with its chunks."""
    _until_done(run, "drop_chunks", staging=staging, limit=_CHUNKS)
    _batch(run, "drop_staging", staging=staging)
