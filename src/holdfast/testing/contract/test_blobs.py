"""Section 7.2: bytes under the hash of their content."""

from __future__ import annotations

import random
from hashlib import sha256
from typing import Any

import pytest

from holdfast import BlobCorrupt, BlobDescriptor, BlobKind, Compression, MissingBlob
from holdfast.testing.contract.samples import checkpoint, put
from holdfast.testing.world import World

SIZES = (1023, 1024, 4095, 4096)
FROM = {Compression.LOW_LATENCY: 10**9, Compression.COMPACT: 1024, Compression.BALANCED: 4096}
COMPRESSIBLE = BlobDescriptor(BlobKind.GENERIC, compressible=True)
#: As stored: 0 is raw.
CODEC = "SELECT codec, raw_len, stored_len FROM {blob} WHERE ref = ?"


def ref(content: bytes) -> str:
    """The address of some bytes."""
    return sha256(content).hexdigest()


@pytest.mark.scenario("BLB-T1")
@pytest.mark.parametrize("profile", Compression)
@pytest.mark.parametrize("compressible", [True, False], ids=["compressible", "not"])
def test_each_profile_compresses_from_its_threshold(
    world: World, profile: Compression, compressible: bool
) -> None:
    store = world.open(compression=profile)
    for size in SIZES:
        content = b"x" * size

        found = store.blobs.put(content, BlobDescriptor(BlobKind.GENERIC, compressible))

        ((codec, raw, stored),) = world.sql(store, CODEC, found)
        assert found == ref(content)
        assert bool(codec) is (compressible and size >= FROM[profile])
        assert raw == size
        assert (stored < size) is bool(codec)
        assert store.blobs.get(found) == content


@pytest.mark.scenario("BLB-T1")
@pytest.mark.parametrize("kind", BlobKind)
def test_every_kind_but_the_generic_one_is_compressible(world: World, kind: BlobKind) -> None:
    store = world.open(compression=Compression.COMPACT)

    found = store.blobs.put(b"x" * 5_000, BlobDescriptor(kind))

    ((codec, _, _),) = world.sql(store, CODEC, found)
    assert bool(codec) is (kind is not BlobKind.GENERIC)


@pytest.mark.scenario("BLB-T2")
def test_what_compression_does_not_shorten_is_stored_raw(world: World) -> None:
    store = world.open(compression=Compression.COMPACT)
    content = random.Random(1).randbytes(64 * 1024)

    found = store.blobs.put(content, COMPRESSIBLE)

    assert world.sql(store, CODEC, found) == [(0, len(content), len(content))]


@pytest.mark.scenario("BLB-T3")
def test_content_put_twice_is_one_row_of_the_first_kind(world: World, store: Any) -> None:
    first = store.blobs.put(b"content", BlobDescriptor(BlobKind.TOOL_STATE))

    again = store.blobs.put(b"content", BlobDescriptor(BlobKind.GENERIC))

    assert first == again
    assert world.sql(store, "SELECT kind FROM {blob}") == [("tool_state",)]


@pytest.mark.scenario("BLB-T4")
def test_content_that_looks_like_a_stored_blob_comes_back_byte_for_byte(world: World) -> None:
    store = world.open(compression=Compression.COMPACT)
    first = store.blobs.put(b"x" * 5_000, COMPRESSIBLE)
    manifest = put(store, "s1", checkpoint=checkpoint(1, other=b"y" * 5_000)).checkpoint_ref
    rows = world.sql(store, "SELECT body FROM {blob} WHERE codec <> 0")

    lookalikes = [bytes(body) for (body,) in rows] + [store.blobs.get(manifest)]

    assert len(rows) == 2
    for content in lookalikes:
        assert store.blobs.get(store.blobs.put(content, COMPRESSIBLE)) == content
    assert store.blobs.get(first) == b"x" * 5_000


@pytest.mark.invariant("INV-28")
@pytest.mark.scenario("BLB-T5")
def test_blobs_of_every_profile_read_under_every_other(world: World) -> None:
    store = world.open(compression=Compression.COMPACT)
    contents = [bytes([number]) * 5_000 for number in range(4)]
    refs = [store.blobs.put(contents[0], COMPRESSIBLE), store.blobs.put(contents[1])]
    if world.is_durable:
        # A store in memory ends when it closes, and mixes its encodings in one profile.
        store.close()
        store = world.open(compression=Compression.LOW_LATENCY)
    refs.append(store.blobs.put(contents[2], COMPRESSIBLE))
    if world.is_durable:
        store.close()
        store = world.open(compression=Compression.BALANCED)
    refs.append(store.blobs.put(contents[3], COMPRESSIBLE))

    assert [store.blobs.get(found) for found in refs] == contents
    codecs = {codec for (codec,) in world.sql(store, "SELECT codec FROM {blob}")}
    assert len(codecs) == 2


def test_empty_content_is_legal(store: Any) -> None:
    assert store.blobs.get(store.blobs.put(b"")) == b""


def test_unknown_bytes_are_missing(store: Any) -> None:
    assert not store.blobs.has(ref(b"nothing"))

    with pytest.raises(MissingBlob) as refused:
        store.blobs.get(ref(b"nothing"))

    assert refused.value.ref == ref(b"nothing")


@pytest.mark.invariant("INV-8")
@pytest.mark.parametrize(
    "damage",
    [
        "codec = 9",
        "raw_len = raw_len + 1",
        "raw_len = raw_len - 1",
        "body = substr(body, 2)",
        "codec = 1 - codec",
    ],
)
@pytest.mark.parametrize("compressible", [True, False], ids=["compressed", "raw"])
def test_damaged_bytes_are_never_returned(world: World, damage: str, compressible: bool) -> None:
    store = world.open(compression=Compression.COMPACT)
    found = store.blobs.put(b"x" * 5_000, BlobDescriptor(BlobKind.GENERIC, compressible))
    world.sql(store, f"UPDATE {{blob}} SET {damage}")  # noqa: S608

    with pytest.raises(BlobCorrupt) as fault:
        store.blobs.get(found)

    assert fault.value.ref == found
