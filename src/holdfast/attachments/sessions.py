"""A session's attachments: put, get and stream, under the manifest's guard (ATT-17, ATT-18)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any

from holdfast.attachments.backend import ByteBackend
from holdfast.attachments.intake import Incoming, Intake, put_bytes
from holdfast.attachments.port import Port
from holdfast.errors import AttachmentManifestWriteFailed, AttachmentNotFound, Fault
from holdfast.model.attachments import AttachmentRef
from holdfast.model.values import JsonValue
from holdfast.operations import attachments as manifest
from holdfast.operations.address import Address
from holdfast.rules import attachments


async def put(
    port: Port,
    backend: ByteBackend,
    at: Address,
    data: Incoming,
    *,
    media_type: str = "application/octet-stream",
    label: str = "",
    type_metadata: JsonValue = None,
    progress: Callable[[int], object] | None = None,
) -> AttachmentRef:
    """Store bytes, a binary file or an iterable of bytes for the session, and refer to them.

    `progress` is told how many bytes are stored so far. A commit has to confirm the reference:
    that of the turn that is bound, or one that names it.
    """
    meta = attachments.describe(media_type, label, type_metadata)
    intake = Intake(port, backend, data, progress)
    await port.admit("put")
    await port.introduce(backend)

    owner = port.owner_at(at.session_id)

    async def before(id: str) -> None:
        intent: dict[str, Any] = {"owner_kind": owner.kind, "owner_id": owner.id}
        try:
            await port.run_on(at, manifest.record_intent, id, **intent)
        except Fault as fault:
            raise AttachmentManifestWriteFailed(id, str(fault)) from fault

    return await put_bytes(intake, meta, before)


async def get(port: Port, backend: ByteBackend, at: Address, attachment_id: str) -> bytes:
    """All bytes of an attachment that the session refers to."""
    await _must_hold(port, at, attachment_id)
    return await port.call(partial(backend.get, attachment_id))


async def stream(
    port: Port,
    backend: ByteBackend,
    at: Address,
    attachment_id: str,
    *,
    progress: Callable[[int], object] | None = None,
) -> AsyncIterator[bytes]:
    """The bytes of an attachment in pieces; `BlobCorrupt` at the end if they were damaged."""
    attachments.callback(progress, "progress")
    await _must_hold(port, at, attachment_id)
    pieces = backend.stream(attachment_id)
    byte_len = 0
    while (piece := await port.call(partial(next, pieces, None))) is not None:
        byte_len += len(piece)
        yield piece
        if progress is not None:
            progress(byte_len)


async def _must_hold(port: Port, at: Address, attachment_id: str) -> None:
    """Reading is a matter of references: whether the bytes exist is nobody else's business."""
    if not await port.run_on(at, manifest.holds, attachment_id):
        raise AttachmentNotFound(attachment_id)
