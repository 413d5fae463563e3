"""Blobs by their hash, and artifacts: names that keep a blob alive (BLB-1 to BLB-9)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from holdfast.errors import MissingBlob
from holdfast.model.checkpoints import Artifact, BlobDescriptor
from holdfast.rules import blobs, checks
from holdfast.settings import Settings
from holdfast.transaction import Call, Done, Steps, Transaction, call, read, small_read, write


@write
def put_blob(
    env: Settings, content: bytes, descriptor: BlobDescriptor = BlobDescriptor()
) -> Steps[str]:
    """Store bytes under their hash; refer to them within the collector's grace period."""
    ref, put = _put_call(env, content, descriptor)

    async def steps(tx: Transaction) -> str:
        await tx.conclude(call("share_blob_guard"), put)
        return ref

    return steps


def _put_call(env: Settings, content: bytes, descriptor: BlobDescriptor) -> tuple[str, Call]:
    checked = blobs.check_blob(content, env.max_blob_bytes)
    stored = blobs.encode_blob(checked, blobs.check_descriptor(descriptor), env.profile)
    return stored.ref, call("put_blob", stored_len=len(stored.body), **stored._asdict())


@read
def get_blob(env: Settings, ref: str) -> Steps[bytes]:
    """The bytes behind a ref, checked against it."""
    checks.key(ref, "ref")

    async def steps(tx: Transaction) -> bytes:
        (rows,) = await tx.conclude(call("read_blob", ref=ref))
        if not rows:
            raise MissingBlob(ref)
        return _content(rows[0])

    return steps


@small_read
def has_blob(env: Settings, ref: str) -> Steps[bool]:
    """Whether bytes are stored under a ref."""
    checks.key(ref, "ref")

    async def steps(tx: Transaction) -> bool:
        return await tx.maybe("has_blob", ref=ref) is not None

    return steps


@write
def put_artifact(
    env: Settings,
    namespace: str,
    name: str,
    content: bytes,
    descriptor: BlobDescriptor = BlobDescriptor(),
) -> Steps[str]:
    """Store bytes and point a name at them, in one transaction; returns their ref."""
    place = _place(namespace, name)
    ref, put = _put_call(env, content, descriptor)

    async def steps(tx: Transaction) -> str:
        await tx.conclude(call("share_blob_guard"), put, call("put_artifact", ref=ref, **place))
        return ref

    return steps


@read
def get_artifact(env: Settings, namespace: str, name: str) -> Steps[bytes | None]:
    """The bytes a name points at, or none without the name."""
    place = _place(namespace, name)

    async def steps(tx: Transaction) -> bytes | None:
        (rows,) = await tx.conclude(call("read_artifact", **place))
        if not rows:
            return None
        if not rows[0]["present"]:
            raise MissingBlob(rows[0]["ref"], f"artifact {namespace}/{name}")
        return _content(rows[0])

    return steps


@write
def delete_artifact(env: Settings, namespace: str, name: str) -> Steps[bool]:
    """Remove a name; whether there was one. The bytes are left to the collector."""
    place = _place(namespace, name)

    async def steps(tx: Transaction) -> bool:
        (rows,) = await tx.conclude(call("delete_artifact", **place))
        return bool(rows)

    return steps


@read
def list_artifacts(
    env: Settings, namespace: str, limit: int = 100, after: str = ""
) -> Steps[list[Artifact]]:
    """Names and refs of a namespace, by name."""
    checks.text(namespace, "namespace", checks.IDENTIFIER_BYTES)
    checks.text(after, "after")
    if checks.limit(limit) == 0:
        return Done([])

    async def steps(tx: Transaction) -> list[Artifact]:
        page = call("list_artifacts", namespace=namespace, after=after, limit=limit)
        (rows,) = await tx.conclude(page)
        return [msgspec.convert(row, Artifact) for row in rows]

    return steps


def _place(namespace: str, name: str) -> dict[str, Any]:
    return {
        "namespace": checks.identifier(namespace, "namespace"),
        "name": checks.key(name, "name"),
    }


def _content(row: Mapping[str, Any]) -> bytes:
    return blobs.decode_blob(row["ref"], row["codec"], row["raw_len"], row["body"])
