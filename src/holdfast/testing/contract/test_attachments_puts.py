"""Section 13.4: in what order bytes come in, who owns them, and what is left where it fails."""

from __future__ import annotations

import asyncio
import io
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast import (
    AttachmentManifestWriteFailed,
    BlobCorrupt,
    ByteEntry,
    InvalidArgument,
    MemoryBytes,
    StoreUnavailable,
)
from holdfast.testing.contract.faulty import Faulty, pieces
from holdfast.testing.contract.test_attachments import LARGE, MIB, SMALL, Kept, keep_in, sha256
from holdfast.testing.world import World, racing

EVER = 2**62
SOURCES: dict[str, Callable[[], Any]] = {
    "small": lambda: SMALL,
    "large": lambda: LARGE,
    "stream": lambda: io.BytesIO(LARGE),
}


@pytest.fixture(params=["database", "directory", "memory"])
def kept(request: pytest.FixtureRequest, world: World, tmp_path: Path) -> Kept:
    """A store whose attachments are in each kind of place."""
    return keep_in(request.param, world, tmp_path)


def _owners(store: Any) -> dict[str, tuple[str | None, str | None]]:
    """Owner by attachment."""
    found = store.attachments.list_uncommitted(EVER)
    return {each.attachment_id: (each.owner_kind, each.owner_id) for each in found}


# --- the manifest first --------------------------------------------------------------------


@pytest.mark.scenario("ATT-T10")
@pytest.mark.parametrize("source", SOURCES)
def test_without_its_intent_nothing_is_stored(kept: Kept, world: World, source: str) -> None:
    def fail(name: str, moment: str) -> None:
        if (name, moment) == ("record_intent", "before"):
            raise StoreUnavailable(name, "the disk is full")

    world.backend(kept.store).on_statement = fail
    with pytest.raises(AttachmentManifestWriteFailed) as told:
        kept.store.attachments.put("s1", SOURCES[source]())
    world.backend(kept.store).on_statement = None

    assert told.value.attachment_id == sha256(SMALL if source == "small" else LARGE)
    assert "the disk is full" in told.value.cause
    assert told.value.retryable
    assert kept.bytes.list() == []
    assert kept.bytes.sweep_staging(EVER) == 0
    assert kept.store.attachments.list_refs() == []


@pytest.mark.invariant("INV-45")
def test_the_intent_is_there_before_the_bytes_are(world: World) -> None:
    backend = Faulty()
    store = world.open(attachments=backend)
    real = world.real(store)
    held: list[list[str]] = []
    backend.before_publish = lambda: held.append(real.attachments.list_refs())

    for source in ("large", "stream"):
        id = store.attachments.put("s1", SOURCES[source]()).id
        store.attachments.delete("s1", id)

    assert held == [[sha256(LARGE)], [sha256(LARGE)]]


# --- owners --------------------------------------------------------------------------------


@pytest.mark.scenario("ATT-T19")
def test_each_task_binds_for_itself(world: World, store: Any) -> None:
    files, later = world.real(store).attachments, world.real(store).aio.attachments
    contents = [b"%d" % number for number in range(4)]
    meeting = threading.Barrier(4)

    def in_thread(number: int) -> str:
        with files.bind_turn(f"t{number}"):
            meeting.wait(10)
            id = files.put("s1", contents[number]).id
            meeting.wait(10)
        return id

    async def in_task(number: int) -> str:
        with later.bind_turn(f"t{number}"):
            await asyncio.sleep(0)
            return (await later.put("s1", contents[number])).id

    async def in_tasks() -> list[str]:
        return await asyncio.gather(*(in_task(number) for number in range(4)))

    if world.colour == "blocking":
        with ThreadPoolExecutor(4) as pool:
            ids = list(pool.map(in_thread, range(4)))
    else:
        ids = asyncio.run(in_tasks())

    assert _owners(store) == {id: ("turn", f"t{number}") for number, id in enumerate(ids)}


@pytest.mark.scenario("ATT-T19")
def test_the_innermost_owner_counts_until_it_is_left(store: Any) -> None:
    files = store.session("s1").attachments
    ids = []
    with files.bind_turn("t1"):
        ids.append(files.put(b"1").id)
        with files.bind_process("p1"):
            ids.append(files.put(b"2").id)
        ids.append(files.put(b"3").id)
    ids.append(files.put(b"4").id)

    owners = _owners(store)
    assert [owners[id] for id in ids] == [
        ("turn", "t1"),
        ("process", "p1"),
        ("turn", "t1"),
        (None, None),
    ]


@pytest.mark.scenario("ATT-T19")
def test_scopes_may_end_in_any_order(store: Any) -> None:
    files = store.session("s1").attachments
    outer, inner = ExitStack(), ExitStack()
    outer.enter_context(files.bind_turn("outer"))
    inner.enter_context(files.bind_turn("inner"))

    outer.close()
    one = files.put(b"1").id
    inner.close()
    other = files.put(b"2").id

    assert _owners(store) == {one: ("turn", "inner"), other: (None, None)}


@pytest.mark.scenario("ATT-T19")
def test_a_scope_may_be_entered_within_itself(store: Any) -> None:
    files = store.session("s1").attachments
    outer, between = files.bind_turn("t1"), files.bind_process("p1")
    ids = []
    with outer, between:
        with outer:
            ids.append(files.put(b"1").id)
        ids.append(files.put(b"2").id)
    with outer:
        with outer:
            pass
        ids.append(files.put(b"3").id)
    ids.append(files.put(b"4").id)

    owners = _owners(store)
    assert [owners[id] for id in ids] == [
        ("turn", "t1"),
        ("process", "p1"),
        ("turn", "t1"),
        (None, None),
    ]


def test_a_binding_is_for_its_session_and_its_store(world: World, store: Any) -> None:
    other = world.open() if world.is_durable else world.open(attachments=MemoryBytes())
    with store.session("s1").attachments.bind_turn("t1"):
        mine = store.attachments.put("s1", b"1").id
        elsewhere = store.attachments.put("s2", b"2").id
        other_stores = other.attachments.put("s1", b"3").id
    with store.attachments.bind_turn("t2"):
        everywhere = store.session("s3").attachments.put(b"4").id

    owners = _owners(other) | _owners(store)
    assert [owners[id] for id in (mine, elsewhere, other_stores, everywhere)] == [
        ("turn", "t1"),
        (None, None),
        (None, None),
        ("turn", "t2"),
    ]
    for wrong in ("", "\0", "x" * 513):
        with pytest.raises(InvalidArgument) as refused:
            store.attachments.bind_turn(wrong)
        assert refused.value.field == "turn_id"


def test_a_put_has_the_owner_of_when_it_was_called(world: World, store: Any) -> None:
    if world.colour == "blocking":
        pytest.skip("a blocking call is awaited where it is made")
    aio = world.real(store).aio

    async def main() -> None:
        with aio.attachments.bind_turn("t1"):
            later = aio.attachments.put("s1", b"1")
        await later

    asyncio.run(main())
    assert list(_owners(store).values()) == [("turn", "t1")]


# --- sources -------------------------------------------------------------------------------


def test_an_async_iterable_is_for_the_asyncio_face(kept: Kept, world: World) -> None:
    if world.colour == "blocking":
        with pytest.raises(InvalidArgument) as refused:
            kept.store.attachments.put("s1", pieces(LARGE))
        assert refused.value.field == "data"
        assert kept.bytes.list() == []
        return

    for content in (b"", SMALL, LARGE):
        ref = kept.store.attachments.put("s1", pieces(content))
        assert kept.store.attachments.get("s1", ref.id) == content


class Interrupted(Exception):
    """The source of a stream breaks off."""


def _breaks_off(after: int) -> Iterator[bytes]:
    for _ in range(after):
        yield bytes(500_000)
    raise Interrupted


@pytest.mark.parametrize("after", [0, 1, 3, 7])
def test_a_source_that_breaks_off_leaves_nothing(kept: Kept, after: int) -> None:
    with pytest.raises(Interrupted):
        kept.store.attachments.put("s1", _breaks_off(after))

    assert kept.bytes.list() == []
    assert kept.bytes.sweep_staging(EVER) == 0
    assert kept.store.attachments.list_refs() == []


def test_a_wrong_put_is_refused_before_anything_is_done(durable: World, tmp_path: Path) -> None:
    store = durable.open(attachments=holdfast.DirectoryBytes(tmp_path / "files"))
    wrong: list[tuple[str, Callable[[], Any]]] = [
        ("progress", lambda: store.attachments.put("s1", SMALL, progress=5)),
        ("progress", lambda: list(store.attachments.stream("s1", sha256(SMALL), progress=5))),
        ("data", lambda: store.attachments.put("s1", 5)),
        ("media_type", lambda: store.attachments.put("s1", SMALL, media_type=5)),
    ]
    for field, call in wrong:
        with pytest.raises(InvalidArgument) as refused:
            call()
        assert refused.value.field == field

    assert not (tmp_path / "files").exists()
    if durable.database == "file":
        assert not durable.path.exists(), "not even opened"


def test_a_progress_that_fails_ends_the_put(kept: Kept) -> None:
    def tell(byte_len: int) -> None:
        if byte_len > 1_500_000:
            raise Interrupted

    with pytest.raises(Interrupted):
        kept.store.attachments.put("s1", io.BytesIO(LARGE), progress=tell)

    assert kept.bytes.list() == []
    assert kept.bytes.sweep_staging(EVER) == 0


# --- beside a sweep ------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["database", "directory"])
def test_a_staging_that_is_swept_while_it_is_written_ends_the_put(
    world: World, tmp_path: Path, place: str
) -> None:
    store, backend, *_ = keep_in(place, world, tmp_path)
    swept: list[int] = []

    def pieces() -> Iterator[bytes]:
        for _ in range(4):
            yield bytes(1_500_000)
            swept.append(backend.sweep_staging(EVER))

    with pytest.raises(StoreUnavailable) as told:
        store.attachments.put("s1", pieces())

    assert (told.value.cause, told.value.retryable) == ("its staging was swept", True)
    assert sum(swept) == 1
    assert backend.list() == []
    if place == "directory":
        return  # a file is missed only when it is to be renamed, behind its intent
    assert not any(
        rows for name, rows in world.dump(store).items() if name.startswith("attachment")
    )


def test_a_chunk_that_is_missing_is_told(world: World, store: Any) -> None:
    id = store.attachments.put("s1", LARGE).id
    world.sql(store, "DELETE FROM {attachment_chunk} WHERE number = 1")

    with pytest.raises(BlobCorrupt):
        store.attachments.get("s1", id)
    store.attachments.put("s1", io.BytesIO(LARGE))
    assert store.attachments.get("s1", id) == LARGE


def test_a_staging_that_was_swept_replaces_nothing(world: World) -> None:
    store = world.open()
    backend = world.real(store)._core.bytes
    content = bytes(2 * MIB)  # two chunks, and nothing that is still to be written
    id = store.attachments.put("s1", content).id
    staged: Any = backend.stage()
    staged.write(content)
    # The sweep has closed it, and come as far as its first chunk.
    world.sql(store, "UPDATE {attachment_staging} SET open = 0")
    gone = "DELETE FROM {attachment_chunk} WHERE chunks = ? AND number = 0"
    world.sql(store, gone, staged._staging)

    with pytest.raises(StoreUnavailable):
        staged.publish(id)

    assert backend.sweep_staging(EVER) == 1
    assert store.attachments.get("s1", id) == content


def test_equal_bytes_may_be_put_by_many_at_once(world: World) -> None:
    stores = [world.open() for _ in range(4)] if world.is_durable else [world.open()] * 4
    contents = [SMALL, LARGE]

    def put_all(number: int) -> None:
        for round in range(6):
            content = contents[(number + round) % 2]
            ref = world.real(stores[number]).attachments.put(f"s{number}", content)
            found = world.real(stores[number]).attachments.stream(f"s{number}", ref.id)
            assert b"".join(found) == content

    assert racing(4, put_all) == [None] * 4
    backend = world.real(stores[0])._core.bytes
    assert len(backend.list()) == 2
    backend.sweep_staging(EVER)
    rows = world.dump(stores[0])
    assert len(rows["attachment_chunk"]) == 4, "one set of chunks for each"
    assert rows["attachment_staging"] == []


def test_chunks_that_cannot_be_removed_fail_no_put(world: World) -> None:
    def fail(name: str, moment: str) -> None:
        if (name, moment) == ("drop_chunks", "before"):
            raise StoreUnavailable(name, "the disk is gone")

    store = world.open()
    backend = world.real(store)._core.bytes
    id = store.attachments.put("s1", LARGE).id
    world.backend(store).on_statement = fail
    assert store.attachments.put("s1", LARGE).id == id
    world.backend(store).on_statement = None

    assert backend.sweep_staging(EVER) == 1
    assert store.attachments.get("s1", id) == LARGE


def test_a_backend_alone_needs_no_store() -> None:
    backend = MemoryBytes()
    told: list[int] = []

    ref = backend.put(io.BytesIO(LARGE), media_type="x/y", label="l", progress=told.append)

    assert (ref.media_type, ref.label, ref.byte_len) == ("x/y", "l", len(LARGE))
    assert b"".join(backend.stream(ref.id)) == backend.get(ref.id) == LARGE
    assert told[-1] == len(LARGE)
    assert isinstance(backend.head(ref.id), ByteEntry)
    with pytest.raises(InvalidArgument) as refused:
        holdfast.DatabaseBytes().put(SMALL)
    assert refused.value.field == "backend"
