import hashlib
import json
import random

import pytest
import zstandard

from holdfast.errors import (
    BlobCorrupt,
    CorruptRecord,
    InvalidArgument,
    UnsupportedRecordVersion,
)
from holdfast.model.checkpoints import BlobDescriptor, BlobKind, Compression
from holdfast.rules import blobs

COMPONENT = BlobDescriptor(BlobKind.COMPONENT)
REF = hashlib.sha256(b"abc").hexdigest()


@pytest.mark.parametrize(
    ("profile", "size", "codec"),
    [
        (Compression.LOW_LATENCY, 1_000_000, blobs.RAW),
        (Compression.BALANCED, 4095, blobs.RAW),
        (Compression.BALANCED, 4096, blobs.ZSTD),
        (Compression.COMPACT, 1023, blobs.RAW),
        (Compression.COMPACT, 1024, blobs.ZSTD),
    ],
)
def test_each_profile_compresses_from_its_threshold(profile, size, codec):
    content = b"a" * size
    stored = blobs.encode_blob(content, COMPONENT, profile)
    assert (stored.codec, stored.raw_len, stored.kind) == (codec, size, "component")
    assert stored.ref == hashlib.sha256(content).hexdigest()
    assert blobs.decode_blob(stored.ref, stored.codec, stored.raw_len, stored.body) == content


@pytest.mark.parametrize("kind", list(BlobKind))
def test_all_kinds_but_the_generic_one_are_compressible(kind):
    stored = blobs.encode_blob(b"a" * 5000, BlobDescriptor(kind), Compression.BALANCED)
    assert (stored.codec == blobs.RAW) is (kind is BlobKind.GENERIC)
    chosen = BlobDescriptor(kind, compressible=kind is BlobKind.GENERIC)
    stored = blobs.encode_blob(b"a" * 5000, chosen, Compression.BALANCED)
    assert (stored.codec == blobs.ZSTD) is (kind is BlobKind.GENERIC)


def test_what_compression_does_not_shorten_is_stored_raw():
    content = random.Random(1).randbytes(65_536)
    stored = blobs.encode_blob(content, COMPONENT, Compression.COMPACT)
    assert (stored.codec, stored.body) == (blobs.RAW, content)


@pytest.mark.parametrize("content", [b"", b"a", zstandard.compress(b"a" * 9000, 1)])
def test_content_comes_back_whatever_it_looks_like(content):
    stored = blobs.encode_blob(content, COMPONENT, Compression.COMPACT)
    assert blobs.decode_blob(stored.ref, stored.codec, stored.raw_len, stored.body) == content


def damaged():
    content = b"abc" * 3000
    ref, packed = blobs.ref_of(content), zstandard.compress(content, 1)
    unsized = zstandard.ZstdCompressor(level=1, write_content_size=False).compress(content)
    huge = zstandard.compress(b"\0" * 10_000_000, 1)
    size = len(content)
    yield ref, blobs.RAW, size, b"x" + content[1:], "hash"
    yield ref, blobs.RAW, size + 1, content, "length"
    yield ref, blobs.ZSTD, size - 1, packed, "length"
    yield ref, blobs.ZSTD, size, huge, "length"
    yield ref, blobs.ZSTD, size, unsized, "length"
    yield ref, blobs.ZSTD, size, packed[:-3], "unreadable"
    yield ref, blobs.ZSTD, size, packed + b"x", "unreadable"
    yield ref, blobs.ZSTD, size, b"", "unreadable"
    yield ref, 7, size, packed, "unknown_codec"
    yield ref, "raw", size, packed, "unknown_codec"
    yield ref, blobs.RAW, "long", content, "length"
    yield ref, blobs.ZSTD, "long", packed, "length"
    for codec in (blobs.RAW, blobs.ZSTD):
        yield from ((ref, codec, size, body, "unreadable") for body in ("text", size, 1.5))


@pytest.mark.parametrize(("ref", "codec", "raw_len", "body", "reason"), list(damaged()))
def test_any_difference_is_corrupt(ref, codec, raw_len, body, reason):
    with pytest.raises(BlobCorrupt) as fault:
        blobs.decode_blob(ref, codec, raw_len, body)
    assert (fault.value.ref, fault.value.reason) == (ref, reason)


def test_only_bytes_are_content():
    assert blobs.check_blob(b"1234", 4) == b"1234"
    for content, reason in (("text", "not_bytes"), (b"12345", "too_large")):
        with pytest.raises(InvalidArgument, match=reason):
            blobs.check_blob(content, 4)


def test_the_manifest_of_the_contract():
    content = blobs.manifest({"turn_index": 1}, {"tool_state": REF})
    expected = "4e1f1bb00a5aa720c5be57099bd5be353a1933b3a3ab925405fde736082dc1a8"
    assert blobs.ref_of(content) == expected


@pytest.mark.parametrize(
    ("turn_state", "refs", "revision"),
    [
        (None, {}, None),
        ({"turn_index": 1}, {"tool_state": REF, "memory": REF, "components": REF}, 0),
        ([], {"plugin_snapshot": REF, "execution_state": REF}, 2**62),
    ],
)
def test_manifests_come_back(turn_state, refs, revision):
    content = blobs.manifest(turn_state, refs, revision)
    assert blobs.parse_manifest("ref", content) == (turn_state, refs, revision)


def test_the_size_limit_is_the_turn_states():
    refs = {f"role-{n}": REF for n in range(64)}
    assert blobs.manifest("x" * 98, refs, 1, max_bytes=100)
    with pytest.raises(InvalidArgument) as refused:
        blobs.manifest("x" * 99, refs, 1, max_bytes=100)
    assert (refused.value.field, refused.value.reason) == ("turn_state", "too_large")


@pytest.mark.parametrize(
    ("members", "error"),
    [
        ({"turn_state": 1}, CorruptRecord),
        ({"turn_state": 1, "schema_version": "1"}, CorruptRecord),
        ({"turn_state": 1, "schema_version": True}, CorruptRecord),
        ({"turn_state": 1, "schema_version": 1.0}, CorruptRecord),
        ({"turn_state": 1, "schema_version": 0}, CorruptRecord),
        ({"turn_state": 1, "schema_version": 2}, UnsupportedRecordVersion),
        ({"schema_version": 1}, CorruptRecord),
        ({"turn_state": 1, "schema_version": 1, "tool_state_ref": 5}, CorruptRecord),
        ({"turn_state": 1, "schema_version": 1, "components": []}, CorruptRecord),
        ({"turn_state": 1, "schema_version": 1, "components": {"a": None}}, CorruptRecord),
        ({"turn_state": 1, "schema_version": 1, "plugin_snapshot_revision": "1"}, CorruptRecord),
        ([], CorruptRecord),
    ],
)
def test_manifests_that_cannot_be_read(members, error):
    with pytest.raises(error) as fault:
        blobs.parse_manifest("ref", json.dumps(members).encode())
    assert (fault.value.record_kind, fault.value.key) == ("checkpoint_manifest", "ref")


def test_a_manifest_that_is_no_json():
    with pytest.raises(CorruptRecord):
        blobs.parse_manifest("ref", b"\x28\xb5")


def test_well_known_roles_have_their_own_kinds():
    kinds = [blobs.component_kind(role).value for role in ("tool_state", "plugin_snapshot")]
    assert kinds == ["tool_state", "plugin_session_snapshot"]
    assert blobs.component_kind("execution_state") is BlobKind.EXECUTION_STATE
    assert blobs.component_kind("memory") is BlobKind.COMPONENT
