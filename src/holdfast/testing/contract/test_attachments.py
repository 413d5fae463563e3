"""Section 13.1 and 13.4: bytes come back as they were put, whatever keeps them."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from holdfast import (
    AttachmentNotFound,
    BlobCorrupt,
    ByteBackend,
    DatabaseBytes,
    DirectoryBytes,
    Durability,
    DurableStoreRequired,
    InvalidArgument,
    MemoryBytes,
)
from holdfast.testing.contract.samples import AN_ID
from holdfast.testing.world import World

MIB = 1024 * 1024
SMALL = b"some bytes"
LARGE = bytes(range(256)) * 4096 * 2 + b"and a rest"
EVER = 2**62


def sha256(content: bytes) -> str:
    """The id of bytes."""
    return hashlib.sha256(content).hexdigest()


class Kept(NamedTuple):
    """A store in a world with a byte backend of some kind."""

    store: Any
    bytes: ByteBackend
    #: Damage the stored bytes of an id.
    damage: Callable[[str], None]
    #: The same store, opened again; none where nothing outlives it.
    reopen: Callable[[], Any] | None


@pytest.fixture(params=["database", "directory", "memory"])
def kept(request: pytest.FixtureRequest, world: World, tmp_path: Path) -> Kept:
    """A store whose attachments are in each kind of place."""
    return keep_in(request.param, world, tmp_path)


def keep_in(kind: str, world: World, folder: Path) -> Kept:
    """A store of a world whose attachments are in a kind of place."""
    make: dict[str, Callable[[], ByteBackend]] = {
        "database": DatabaseBytes,
        "directory": lambda: DirectoryBytes(folder / "files"),
        "memory": MemoryBytes,
    }
    store = world.open(attachments=make[kind]())
    backend = world.real(store)._core.bytes

    def damage(id: str) -> None:
        if isinstance(backend, DirectoryBytes):
            backend.place(id).write_bytes(b"other bytes")
        elif isinstance(backend, MemoryBytes):
            backend.keep(id, b"other bytes")
        else:
            world.sql(store, "UPDATE {attachment_chunk} SET body = ?", b"other bytes")

    def reopen() -> Any:
        store.close()
        return world.open(attachments=make[kind]())

    return Kept(store, backend, damage, reopen if kind != "memory" and world.is_durable else None)


def read(files: Any, id: str) -> bytes:
    """All bytes of an attachment, streamed."""
    return b"".join(files.stream(id))


SOURCES: dict[str, Callable[[bytes], Any]] = {
    "bytes": lambda content: content,
    "bytearray": bytearray,
    "memoryview": memoryview,
    "file": io.BytesIO,
    "pieces": lambda content: iter([content[:3], b"", content[3:]]),
    "single bytes": lambda content: (content[at : at + 1] for at in range(len(content))),
}


@pytest.mark.scenario("ATT-T1")
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("content", [b"", SMALL, LARGE], ids=["empty", "small", "large"])
def test_what_is_put_comes_back_whatever_it_came_from(
    kept: Kept, source: str, content: bytes
) -> None:
    if source == "single bytes":
        content = content[:100]
    files = kept.store.session("s1").attachments

    ref = files.put(SOURCES[source](content), media_type="text/plain", label="notes")

    assert (ref.id, ref.byte_len) == (sha256(content), len(content))
    assert files.get(ref.id) == read(files, ref.id) == content
    assert [entry.id for entry in kept.bytes.list()] == [ref.id]
    entry = kept.bytes.head(ref.id)
    assert entry is not None
    assert entry.byte_len == len(content)


@pytest.mark.scenario("ATT-T1")
def test_equal_bytes_have_one_id_and_each_callers_description(kept: Kept) -> None:
    files = kept.store.session("s1").attachments

    one = files.put(SMALL, media_type="text/plain", label="one", type_metadata={"a": 1})
    other = files.put(SMALL, media_type="image/png", label="other")

    assert one.id == other.id
    assert (one.media_type, one.label, one.type_metadata) == ("text/plain", "one", {"a": 1})
    assert (other.media_type, other.label, other.type_metadata) == ("image/png", "other", None)


@pytest.mark.scenario("ATT-T2")
def test_unknown_bytes_are_not_found_and_may_be_deleted_twice(kept: Kept) -> None:
    files = kept.store.session("s1").attachments
    for ask in (files.get, lambda id: list(files.stream(id))):
        with pytest.raises(AttachmentNotFound) as told:
            ask(AN_ID)
        assert told.value.attachment_id == AN_ID
    id = files.put(SMALL).id

    files.delete(id)
    files.delete(id)
    kept.bytes.delete(id)
    kept.bytes.delete(id)

    with pytest.raises(AttachmentNotFound):
        kept.bytes.get(id)
    assert kept.bytes.head(id) is None


@pytest.mark.scenario("ATT-T2")
def test_a_durable_backend_survives_reopening(kept: Kept) -> None:
    ids = [kept.store.attachments.put("s1", content).id for content in (SMALL, LARGE)]
    if kept.reopen is None:
        assert Durability.INLINE in (kept.bytes.persistence, kept.store.durability_tier)
        return
    assert kept.bytes.persistence is Durability.DURABLE

    again = kept.reopen()

    assert [again.attachments.get("s1", id) for id in ids] == [SMALL, LARGE]


@pytest.mark.scenario("ATT-T3")
def test_a_listing_has_each_blob_once_and_in_order(kept: Kept) -> None:
    contents = [b"%d" % number for number in range(7)]
    ids = sorted(kept.store.attachments.put("s1", content).id for content in contents)
    kept.store.attachments.put("s2", contents[0])
    kept.bytes.delete(ids.pop(3))

    assert [entry.id for entry in kept.bytes.list()] == ids
    pages = list(_pages(kept.bytes, 2))
    assert [len(page) for page in pages] == [2, 2, 2]
    assert [id for page in pages for id in page] == ids


def _pages(backend: ByteBackend, limit: int) -> Iterator[list[str]]:
    after = ""
    while page := [entry.id for entry in backend.list(after, limit)]:
        yield page
        after = page[-1]


def test_a_duplicate_is_as_if_written_now(kept: Kept, world: World) -> None:
    for content in (SMALL, LARGE):
        id = kept.store.attachments.put("s1", content).id
        first = kept.bytes.head(id)
        world.clock.advance(5_000)

        kept.store.attachments.put("s2", content)

        again = kept.bytes.head(id)
        assert first is not None
        assert again is not None
        assert again.modified_at_ms == (first.modified_at_ms or 0) + 5_000
        assert kept.store.attachments.get("s1", id) == content
    assert kept.bytes.sweep_staging(EVER) == 0


def test_bytes_that_vanished_are_written_again(kept: Kept) -> None:
    files = kept.store.session("s1").attachments
    for content in (SMALL, LARGE):
        id = files.put(content).id
        kept.bytes.delete(id)
        with pytest.raises(AttachmentNotFound):
            files.get(id)

        files.put(content)

        assert files.get(id) == content


@pytest.mark.invariant("INV-44")
@pytest.mark.scenario("ATT-T22")
@pytest.mark.parametrize("content", [SMALL, LARGE], ids=["small", "large"])
def test_damaged_bytes_are_restored_by_putting_them_again(kept: Kept, content: bytes) -> None:
    files = kept.store.session("s1").attachments
    id = files.put(content).id
    kept.damage(id)

    for source in (content, io.BytesIO(content)):
        assert files.put(source).id == id
        assert files.get(id) == content

    assert [entry.id for entry in kept.bytes.list()] == [id]
    assert kept.bytes.sweep_staging(EVER) == 0


@pytest.mark.scenario("ATT-T22")
@pytest.mark.parametrize("content", [SMALL, LARGE], ids=["small", "large"])
def test_altered_bytes_are_told(kept: Kept, content: bytes) -> None:
    files = kept.store.session("s1").attachments
    id = files.put(content).id
    kept.damage(id)

    with pytest.raises(BlobCorrupt) as told:
        files.get(id)
    assert told.value.ref == id
    with pytest.raises(BlobCorrupt):
        read(files, id)


def test_progress_is_told_both_ways(kept: Kept) -> None:
    files = kept.store.session("s1").attachments
    told: list[int] = []
    content = LARGE * 2

    ref = files.put(io.BytesIO(content), progress=told.append)
    assert told == sorted(told)
    assert (len(told), told[-1]) == (5, len(content))

    told.clear()
    assert b"".join(files.stream(ref.id, progress=told.append)) == content
    assert (told == sorted(told), told[-1]) == (True, len(content))
    told.clear()
    files.put(SMALL, progress=told.append)
    assert told == [len(SMALL)]


def test_a_stream_may_be_left_early(kept: Kept) -> None:
    files = kept.store.session("s1").attachments
    id = files.put(LARGE).id

    for piece in files.stream(id):
        assert LARGE.startswith(piece)
        break

    assert files.get(id) == LARGE


def test_what_is_no_bytes_is_refused(kept: Kept) -> None:
    files = kept.store.session("s1").attachments
    wrong: list[Any] = ["text", 7, None, ["text"], io.StringIO("text"), {"a": b"b"}]
    for data in wrong:
        with pytest.raises(InvalidArgument) as refused:
            files.put(data)
        assert (refused.value.field, refused.value.reason) == ("data", "not_bytes")
    with pytest.raises(InvalidArgument):
        files.put(SMALL, media_type=7)
    with pytest.raises(InvalidArgument):
        files.put(SMALL, type_metadata=object())

    assert kept.bytes.list() == []
    assert kept.bytes.sweep_staging(EVER) == 0
    assert kept.store.attachments.list_refs() == []


@pytest.mark.parametrize("wrong", ["", "0" * 63, "A" * 64, "../" + "0" * 61, "0" * 63 + "\n"])
def test_what_is_no_hash_is_no_attachment(kept: Kept, wrong: str) -> None:
    files = kept.store.session("s1").attachments
    calls: list[Callable[[], Any]] = [
        lambda: files.get(wrong),
        lambda: read(files, wrong),
        lambda: files.delete(wrong),
        lambda: files.holds(wrong),
        lambda: files.record_intent(wrong),
        lambda: files.commit_refs([wrong]),
    ]
    for call in calls:
        with pytest.raises(InvalidArgument) as refused:
            call()
        assert refused.value.reason == "not_a_sha256"


def test_the_database_refuses_what_is_too_large_for_it(world: World) -> None:
    store = world.open(attachments=DatabaseBytes(MIB + 5))
    files = store.session("s1").attachments
    told: list[int] = []
    for data in (bytes(MIB + 6), iter([bytes(MIB)] * 3)):
        with pytest.raises(InvalidArgument) as refused:
            files.put(data, progress=told.append)
        assert (refused.value.field, refused.value.reason) == ("data", "too_large")
    assert max(told, default=0) <= MIB + 5
    assert not any(
        rows for name, rows in world.dump(store).items() if name.startswith("attachment")
    )

    assert len(files.get(files.put(bytes(MIB + 5)).id)) == MIB + 5


def test_the_default_is_64_mib_in_the_database(store: Any) -> None:
    ref = store.attachments.put("s1", bytes(64 * MIB))
    assert len(store.attachments.get("s1", ref.id)) == 64 * MIB

    with pytest.raises(InvalidArgument) as refused:
        store.attachments.put("s1", bytes(64 * MIB + 1))
    assert refused.value.reason == "too_large"


@pytest.mark.scenario("GEN-T7")
def test_an_inline_backend_is_refused_where_durability_is_required(durable: World) -> None:
    with pytest.raises(DurableStoreRequired) as refused:
        durable.open(require_durable=True, attachments=MemoryBytes())
    assert refused.value.facet == "attachments"
    if durable.is_server:
        found = durable.sql(None, "SELECT 1 FROM pg_namespace WHERE nspname = ?", durable.schema)
        assert found == []
    else:
        assert not durable.path.exists()

    durable.open(attachments=MemoryBytes()).open()
    durable.open(require_durable=True).open()


def test_a_setting_that_is_no_backend_is_refused(world: World) -> None:
    with pytest.raises(InvalidArgument) as refused:
        world.open(attachments="files")
    assert refused.value.field == "attachments"
