"""Blobs and checkpoint manifests: addresses, stored forms, and the checks on the way back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import zstandard

from holdfast.errors import BlobCorrupt, CorruptRecord, InvalidArgument, UnsupportedRecordVersion
from holdfast.model.checkpoints import BlobDescriptor, BlobKind, Compression
from holdfast.model.values import JsonValue
from holdfast.rules.canonical import canonical, parse, sha256_hex
from holdfast.rules.checks import MAX_INTEGER, at_most, flag, integer, record
from holdfast.settings import MAX_BLOB_BYTES, MAX_VALUE_BYTES

RAW: Final = 0
ZSTD: Final = 1
_ZSTD_LEVEL: Final = 1

MANIFEST_VERSION: Final = 1

_NEVER: Final = MAX_INTEGER
_COMPRESS_FROM: Final = {
    Compression.LOW_LATENCY: _NEVER,
    Compression.BALANCED: 4096,
    Compression.COMPACT: 1024,
}
#: A compressor serves one thread at a time and costs more to make than a small blob to compress.
_idle_compressors: Final[list[zstandard.ZstdCompressor]] = []
_COMPONENT_KINDS: Final = {
    "tool_state": BlobKind.TOOL_STATE,
    "plugin_snapshot": BlobKind.PLUGIN_SNAPSHOT,
    "execution_state": BlobKind.EXECUTION_STATE,
}


class StoredBlob(NamedTuple):
    """A blob as it is stored; `raw_len` is the length of the content."""

    ref: str
    kind: str
    codec: int
    raw_len: int
    body: bytes


class Manifest(NamedTuple):
    """What a checkpoint consists of."""

    turn_state: JsonValue
    refs: dict[str, str]
    plugin_snapshot_revision: int | None


def ref_of(content: bytes) -> str:
    """The address of some content, whatever its kind and encoding."""
    return sha256_hex(content)


def component_kind(role: str) -> BlobKind:
    """The kind of blob that holds a component of this role."""
    return _COMPONENT_KINDS.get(role, BlobKind.COMPONENT)


def check_blob(content: object, max_bytes: int, field: str = "content") -> bytes:
    """Content that may be stored: bytes, not too many."""
    if not isinstance(content, bytes):
        raise InvalidArgument(field, "not_bytes")
    at_most(len(content), max_bytes, field)
    return content


def check_descriptor(descriptor: BlobDescriptor) -> BlobDescriptor:
    """A descriptor of a kind we know."""
    record(descriptor, BlobDescriptor, "descriptor")
    record(descriptor.kind, BlobKind, "descriptor.kind")
    if descriptor.compressible is not None:
        flag(descriptor.compressible, "descriptor.compressible")
    return descriptor


def encode_blob(content: bytes, descriptor: BlobDescriptor, profile: Compression) -> StoredBlob:
    """The stored form: compressed where descriptor and profile ask for it and it helps."""
    ref, size, kind = ref_of(content), len(content), descriptor.kind.value
    if _compressible(descriptor) and size >= _COMPRESS_FROM[profile]:
        packed = _pack(content)
        if len(packed) < size:
            return StoredBlob(ref, kind, ZSTD, size, packed)
    return StoredBlob(ref, kind, RAW, size, content)


def decode_blob(ref: str, codec: int, raw_len: int, body: bytes) -> bytes:
    """The content behind a stored form; any difference from its ref is `BlobCorrupt`."""
    content = _unpack(ref, codec, raw_len, body)
    if len(content) != raw_len:
        raise BlobCorrupt(ref, "length")
    if ref_of(content) != ref:
        raise BlobCorrupt(ref, "hash")
    return content


def manifest(
    turn_state: JsonValue,
    refs: Mapping[str, str],
    plugin_snapshot_revision: int | None = None,
    max_bytes: int = MAX_VALUE_BYTES,
) -> bytes:
    """The canonical manifest of a checkpoint; its hash is the checkpoint's ref."""
    members: dict[str, Any] = {"schema_version": MANIFEST_VERSION, "turn_state": None}
    members |= {f"{role}_ref": refs[role] for role in _COMPONENT_KINDS if role in refs}
    others = {role: ref for role, ref in refs.items() if role not in _COMPONENT_KINDS}
    if others:
        members["components"] = others
    if plugin_snapshot_revision is not None:
        members["plugin_snapshot_revision"] = integer(
            plugin_snapshot_revision, "plugin_snapshot_revision"
        )
    # The limit is the turn state's, so what surrounds it does not count.
    around = len(canonical(members, "components")) - len(b"null")
    return canonical(members | {"turn_state": turn_state}, "turn_state", max_bytes + around)


def parse_manifest(ref: str, content: bytes) -> Manifest:
    """What `manifest` was given; unreadable content or a newer version raises."""
    try:
        members = parse(content)
    except ValueError as error:
        raise _corrupt(ref, "unparsable") from error
    if not isinstance(members, dict):
        raise _corrupt(ref, "unparsable")
    _check_version(ref, members.get("schema_version"))
    if "turn_state" not in members:
        raise _corrupt(ref, "turn_state")
    return Manifest(members["turn_state"], _refs(ref, members), _revision(ref, members))


def _compressible(descriptor: BlobDescriptor) -> bool:
    if descriptor.compressible is not None:
        return descriptor.compressible
    return descriptor.kind is not BlobKind.GENERIC


def _pack(content: bytes) -> bytes:
    try:
        compressor = _idle_compressors.pop()
    except IndexError:
        compressor = zstandard.ZstdCompressor(level=_ZSTD_LEVEL)
    packed = compressor.compress(content)
    _idle_compressors.append(compressor)
    return packed


def _unpack(ref: str, codec: int, raw_len: int, body: bytes) -> bytes:
    if not isinstance(body, bytes):  # as SQLite lets a damaged row be
        raise BlobCorrupt(ref, "unreadable")
    if codec == RAW:
        return body
    if codec != ZSTD:
        raise BlobCorrupt(ref, "unknown_codec")
    try:
        # Never allocate more than the raw length, nor what no blob of ours can have.
        if zstandard.frame_content_size(body) != raw_len or raw_len > MAX_BLOB_BYTES:
            raise BlobCorrupt(ref, "length")
        return zstandard.ZstdDecompressor().decompress(body, allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise BlobCorrupt(ref, "unreadable") from error


def _check_version(ref: str, found: object) -> None:
    if isinstance(found, bool) or not isinstance(found, int) or found < 1:
        raise _corrupt(ref, "schema_version")
    if found > MANIFEST_VERSION:
        raise UnsupportedRecordVersion("checkpoint_manifest", ref, found, MANIFEST_VERSION)


def _refs(ref: str, members: dict[str, Any]) -> dict[str, str]:
    named = {role: members[f"{role}_ref"] for role in _COMPONENT_KINDS if f"{role}_ref" in members}
    others = members.get("components", {})
    if not isinstance(others, dict):
        raise _corrupt(ref, "components")
    refs = named | others
    if not all(isinstance(component, str) for component in refs.values()):
        raise _corrupt(ref, "components")
    return refs


def _revision(ref: str, members: dict[str, Any]) -> int | None:
    revision = members.get("plugin_snapshot_revision")
    if revision is None or type(revision) is int:
        return revision
    raise _corrupt(ref, "plugin_snapshot_revision")


def _corrupt(ref: str, reason: str) -> CorruptRecord:
    return CorruptRecord("checkpoint_manifest", ref, reason)
