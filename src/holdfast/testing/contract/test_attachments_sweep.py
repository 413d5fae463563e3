"""Section 13.5: bytes that nobody refers to are reclaimed, and no others, whatever fails."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast import (
    AttachmentNotFound,
    ByteEntry,
    DatabaseBytes,
    DirectoryBytes,
    InvalidArgument,
    MemoryBytes,
    StoreUnavailable,
)
from holdfast.testing.contract.test_attachments import LARGE, Kept, keep_in
from holdfast.testing.world import World

GRACE = 60_000


@pytest.fixture(params=["database", "directory", "memory"])
def kept(request: pytest.FixtureRequest, world: World, tmp_path: Path) -> Kept:
    """A store whose attachments are in each kind of place."""
    return keep_in(request.param, world, tmp_path)


def _committed(store: Any, session_id: str, content: bytes) -> str:
    id: str = store.attachments.put(session_id, content).id
    store.attachments.commit_refs(session_id, [id])
    return id


@pytest.mark.scenario("ATT-T9")
@pytest.mark.parametrize("content", [b"shared", LARGE], ids=["small", "large"])
def test_bytes_go_with_the_last_reference(kept: Kept, world: World, content: bytes) -> None:
    store = kept.store
    (id,) = {_committed(store, session_id, content) for session_id in ("a", "b")}
    world.clock.advance(1)

    counts = []
    for session_id in ("nobody", "a", "b", "nobody"):
        store.attachments.delete(session_id, id)
        report = store.maintenance.reclaim_attachments(0)
        counts.append((report.scanned_blob_count, report.reclaimed_count))

    assert counts == [(1, 0), (1, 0), (1, 1), (0, 0)]
    assert (report.failed_ids, report.deleted_while_referenced) == ([], [])
    with pytest.raises(AttachmentNotFound):
        kept.bytes.get(id)
    assert not any(
        rows for name, rows in world.dump(store).items() if name.startswith("attachment")
    )


def test_what_is_young_stays(kept: Kept, world: World) -> None:
    id = kept.store.attachments.put("s1", b"young").id
    world.clock.advance(GRACE - 1)
    assert kept.store.maintenance.reclaim_attachments(GRACE).reclaimed_count == 0
    kept.store.attachments.delete("s1", id)
    assert kept.store.maintenance.reclaim_attachments(GRACE).reclaimed_count == 0

    world.clock.advance(1)

    assert kept.store.maintenance.reclaim_attachments(GRACE).reclaimed_count == 1


def test_a_sweep_goes_on_page_by_page(kept: Kept, world: World) -> None:
    store = kept.store
    for number in range(7):
        id = _committed(store, "s1", b"%d" % number)
        if number % 2:
            store.attachments.delete("s1", id)
    world.clock.advance(1)

    report = store.maintenance.reclaim_attachments(0, limit=2)

    assert (report.scanned_blob_count, report.reclaimed_count) == (7, 3)
    assert [entry.id for entry in kept.bytes.list()] == store.attachments.list_refs()


def test_a_limit_of_zero_sweeps_nothing(kept: Kept, world: World) -> None:
    id = kept.store.attachments.put("s1", b"bytes").id
    world.clock.advance(1)

    assert kept.store.maintenance.reclaim_attachments(0, limit=0).scanned_blob_count == 0

    assert kept.store.attachments.get("s1", id) == b"bytes"
    with pytest.raises(InvalidArgument):
        kept.store.maintenance.reclaim_attachments(-1)


# --- races and failures, with a backend that meddles ---------------------------------------


class Meddling(MemoryBytes):
    """A backend in which something happens between the steps of a sweep."""

    def __init__(self) -> None:
        super().__init__()
        self.before_head: Callable[[str], object] = _nothing
        self.before_delete: Callable[[str], object] = _nothing
        self.before_list: Callable[[str], object] = _nothing
        self.forgets_times = False

    def head(self, id: str) -> ByteEntry | None:
        self.before_head(id)
        return super().head(id)

    def delete(self, id: str) -> None:
        self.before_delete(id)
        super().delete(id)

    def list(self, after: str = "", limit: int = 1_000) -> list[ByteEntry]:
        self.before_list(after)
        page = super().list(after, limit)
        if self.forgets_times:
            return [ByteEntry(id=e.id, byte_len=e.byte_len, modified_at_ms=None) for e in page]
        return page


def _nothing(_id: str) -> None:
    """Nothing happens."""


def _for(wanted: str, action: Callable[[str], object]) -> Callable[[str], object]:
    """Something that happens to one id alone."""

    def happen(id: str) -> None:
        if id == wanted:
            action(id)

    return happen


def _fail(_id: str) -> None:
    raise OSError("no answer")


@pytest.fixture
def backend() -> Meddling:
    """A backend in memory that a test can meddle with."""
    return Meddling()


@pytest.fixture
def swept(world: World, backend: Meddling) -> Any:
    """A store with three attachments that nobody refers to."""
    store = world.open(attachments=backend)
    for number in range(3):
        id = store.attachments.put("s1", b"%d" % number).id
        store.attachments.delete("s1", id)
    world.clock.advance(1)
    return store


@pytest.mark.invariant("INV-46")
@pytest.mark.scenario("ATT-T16")
def test_what_is_referred_to_after_it_was_listed_is_spared(
    world: World, swept: Any, backend: Meddling
) -> None:
    real = world.real(swept)
    spared = backend.list()[1].id
    backend.before_head = _for(spared, lambda id: _commit(real, id))

    report = swept.maintenance.reclaim_attachments(0)

    assert (report.scanned_blob_count, report.reclaimed_count) == (3, 2)
    assert report.deleted_while_referenced == []
    assert [entry.id for entry in backend.list()] == [spared]


def _commit(store: Any, id: str) -> None:
    store.attachments.record_intent("s2", id)
    store.attachments.commit_refs("s2", [id])


@pytest.mark.scenario("ATT-T16")
def test_what_was_written_again_after_it_was_listed_is_spared(
    world: World, swept: Any, backend: Meddling
) -> None:
    spared = backend.list()[0].id
    content = backend.get(spared)

    def put_again(id: str) -> None:
        world.clock.advance(1)
        backend.keep(id, content)

    backend.before_head = _for(spared, put_again)

    assert swept.maintenance.reclaim_attachments(0).reclaimed_count == 2
    assert backend.get(spared) == content


@pytest.mark.scenario("ATT-T16")
def test_what_vanished_after_it_was_listed_is_no_failure(swept: Any, backend: Meddling) -> None:
    gone = backend.list()[0].id
    backend.before_head = _for(gone, lambda id: MemoryBytes.delete(backend, id))

    report = swept.maintenance.reclaim_attachments(0)

    assert (report.reclaimed_count, report.failed_ids) == (2, [])


@pytest.mark.scenario("ATT-T16")
def test_what_is_referred_to_while_it_is_deleted_is_reported_and_can_be_put_again(
    world: World, swept: Any, backend: Meddling, caplog: pytest.LogCaptureFixture
) -> None:
    real = world.real(swept)
    lost = backend.list()[1].id
    content = backend.get(lost)
    backend.before_delete = _for(lost, lambda id: _commit(real, id))

    with caplog.at_level(logging.ERROR, "holdfast"):
        report = swept.maintenance.reclaim_attachments(0)

    assert (report.reclaimed_count, report.deleted_while_referenced) == (3, [lost])
    assert lost in caplog.text
    backend.before_delete = _nothing
    with pytest.raises(AttachmentNotFound):
        swept.attachments.get("s2", lost)
    assert swept.attachments.put("s2", content).id == lost
    assert swept.attachments.get("s2", lost) == content


@pytest.mark.scenario("ATT-T17")
@pytest.mark.parametrize("step", ["before_head", "before_delete"])
def test_one_that_fails_is_told_and_the_others_are_reclaimed(
    swept: Any, backend: Meddling, step: str
) -> None:
    failing = backend.list()[1].id
    setattr(backend, step, _for(failing, _fail))

    report = swept.maintenance.reclaim_attachments(0)

    assert (report.scanned_blob_count, report.reclaimed_count) == (3, 2)
    assert report.failed_ids == [failing]
    assert [entry.id for entry in backend.list()] == [failing]
    setattr(backend, step, _nothing)
    assert swept.maintenance.reclaim_attachments(0).reclaimed_count == 1


def test_a_time_that_is_not_known_counts_as_old(swept: Any, backend: Meddling) -> None:
    backend.forgets_times = True
    assert swept.maintenance.reclaim_attachments(0).reclaimed_count == 3


def test_a_page_that_cannot_be_listed_aborts_there(swept: Any, backend: Meddling) -> None:
    backend.before_list = lambda after: _fail(after) if after else None

    with pytest.raises(OSError, match="no answer"):
        swept.maintenance.reclaim_attachments(0, limit=2)

    backend.before_list = _nothing
    assert len(backend.list()) == 1


def _failing_at(world: World, store: Any, statement: str, nth: int = 1) -> None:
    left = [nth]

    def fail(name: str, moment: str) -> None:
        if (name, moment) == (statement, "before"):
            left[0] -= 1
            if left[0] == 0:
                raise StoreUnavailable(name, "the disk is gone")

    world.backend(store).on_statement = fail


@pytest.mark.scenario("ATT-T18")
@pytest.mark.parametrize("statement", ["dead_intents", "live_attachments", "read_clock"])
def test_a_manifest_that_cannot_be_read_aborts_and_nothing_is_deleted(
    world: World, swept: Any, backend: Meddling, statement: str
) -> None:
    _failing_at(world, swept, statement)

    with pytest.raises(StoreUnavailable):
        swept.maintenance.reclaim_attachments(0)

    assert len(backend.list()) == 3


def test_a_second_probe_that_fails_is_that_ones_failure(
    world: World, swept: Any, backend: Meddling
) -> None:
    _failing_at(world, swept, "live_attachments", nth=2)
    first = backend.list()[0].id

    report = swept.maintenance.reclaim_attachments(0)

    assert (report.reclaimed_count, report.failed_ids) == (2, [first])


def test_a_last_probe_that_fails_is_ignored(world: World, swept: Any) -> None:
    _failing_at(world, swept, "live_attachments", nth=3)

    report = swept.maintenance.reclaim_attachments(0)

    assert (report.reclaimed_count, report.failed_ids) == (3, [])


@pytest.mark.parametrize(
    ("backend", "reason"), [("files", "wrong_type"), (0, "wrong_type"), (DatabaseBytes(), "open")]
)
def test_what_is_no_backend_is_refused_before_anything_is_done(
    world: World, store: Any, backend: Any, reason: str
) -> None:
    id = store.attachments.put("s1", b"bytes").id
    world.clock.advance(1)
    before = world.dump(store)

    with pytest.raises(InvalidArgument) as refused:
        store.maintenance.reclaim_attachments(0, backend)

    assert refused.value.field == "backend"
    assert reason in refused.value.reason
    assert world.dump(store) == before
    assert store.attachments.get("s1", id) == b"bytes"


class Empty(MemoryBytes):
    """A backend of somebody's own that counts as nothing while it has nothing."""

    def __len__(self) -> int:
        return len(self.list())


def test_an_empty_backend_is_one_all_the_same(world: World) -> None:
    own = Empty()
    store = world.open(attachments=own)
    store.attachments.delete("s1", store.attachments.put("s1", b"bytes").id)
    assert len(own) == 1
    world.clock.advance(10**12)

    assert store.maintenance.reclaim_attachments(0, Empty()).scanned_blob_count == 0
    assert len(own) == 1


def test_another_backend_can_be_swept(world: World, store: Any) -> None:
    other = MemoryBytes()
    orphan = other.put(b"orphan").id
    id = _committed(store, "s1", b"own")
    world.clock.advance(10**12)

    report = store.maintenance.reclaim_attachments(0, backend=other)

    assert (report.scanned_blob_count, report.reclaimed_count) == (1, 1)
    assert other.head(orphan) is None
    assert store.attachments.get("s1", id) == b"own"


# --- several stores ----------------------------------------------------------------------


def _beside(folder: Path, files: Path, name: str = "other") -> Any:
    """Another store whose attachments are in the same directory."""
    return holdfast.open(f"sqlite:///{folder / name}.db", attachments=DirectoryBytes(files))


def _name(world: World, store: Any) -> str:
    ((name,),) = world.sql(store, "SELECT id FROM {store_name}")
    return str(name)


@pytest.mark.scenario("ATT-T24")
def test_no_store_sweeps_bytes_that_may_be_anothers(durable: World, tmp_path: Path) -> None:
    files = tmp_path / "files"
    store = durable.open(attachments=DirectoryBytes(files))
    id = _committed(store, "s1", b"committed")
    name = _name(durable, store)
    with _beside(tmp_path, files) as other:
        other.attachments.record_intent("s1", "a" * 64)
        with pytest.raises(InvalidArgument) as refused:
            other.maintenance.reclaim_attachments(0)
        assert refused.value.field == "backend"
        assert name in refused.value.reason
        assert other.attachments.list_refs() == ["a" * 64], "nothing at all was done"
        durable.clock.advance(10**12)
        assert store.maintenance.reclaim_attachments(0).scanned_blob_count == 1

        theirs = _committed(other, "s1", b"of the other")
        found = refused.value.reason.rpartition(" ")[2]
        for each in (other, store):
            with pytest.raises(InvalidArgument) as refused:
                each.maintenance.reclaim_attachments(0)
            assert {name, found} <= set(refused.value.reason.replace(";", "").split())
        assert other.attachments.get("s1", theirs) == b"of the other"
    assert store.attachments.get("s1", id) == b"committed"

    (files / "stores" / found).unlink()
    assert store.maintenance.reclaim_attachments(0).reclaimed_count == 1
    assert store.attachments.get("s1", id) == b"committed"


def test_a_store_keeps_its_name(durable: World, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"attachments": DirectoryBytes(tmp_path)}
    first = durable.open(**settings)
    _committed(first, "s1", b"bytes")
    again = durable.open(**settings)
    again.attachments.put("s1", b"more")
    first.close()

    durable.clock.advance(10**12)
    assert again.maintenance.reclaim_attachments(0).reclaimed_count == 1
    (mark,) = (tmp_path / "stores").iterdir()
    assert mark.name == _name(durable, again)


@pytest.mark.scenario("ATT-T24")
def test_a_copy_of_a_database_has_its_name(tmp_path: Path) -> None:
    files = tmp_path / "files"
    with _beside(tmp_path, files, "first") as store:
        id = _committed(store, "s1", b"bytes")
    (tmp_path / "first.db").rename(tmp_path / "restored.db")

    with _beside(tmp_path, files, "restored") as store:
        store.attachments.put("s1", b"more")
        assert store.maintenance.reclaim_attachments(0).scanned_blob_count == 2
        assert store.attachments.get("s1", id) == b"bytes"


def test_a_store_in_memory_bars_nobody(tmp_path: Path) -> None:
    for _ in range(2):
        with holdfast.open("sqlite://", attachments=DirectoryBytes(tmp_path)) as store:
            store.attachments.put("s1", b"bytes")
            store.maintenance.reclaim_attachments(0)


@pytest.mark.scenario("ATT-T24")
def test_stores_that_share_memory_do_not_sweep_each_other(world: World, tmp_path: Path) -> None:
    shared = MemoryBytes()
    store = world.open(attachments=shared)
    id = _committed(store, "s1", b"bytes")
    with (
        holdfast.open(f"sqlite:///{tmp_path / 'other.db'}", attachments=shared) as other,
        pytest.raises(InvalidArgument),
    ):
        other.maintenance.reclaim_attachments(0)
    assert store.attachments.get("s1", id) == b"bytes"


# --- directories -------------------------------------------------------------------------


@pytest.mark.scenario("ATT-T18")
def test_stray_files_are_passed_over(world: World, tmp_path: Path) -> None:
    backend = DirectoryBytes(tmp_path)
    store = world.open(attachments=backend)
    id = store.attachments.put("s1", b"own").id
    strays = [
        tmp_path / "README",
        tmp_path / "sha256" / "notes.txt",
        tmp_path / "sha256" / id[:2] / "notes.txt",
        tmp_path / "sha256" / id[:2] / (id + ".bak"),
        tmp_path / "sha256" / id[:2] / ("0" * 64 if id[:2] != "00" else "1" * 64),
        tmp_path / "staging" / "mine.txt",
        tmp_path / "sha256" / "zz" / id,
    ]
    for stray in strays:
        stray.parent.mkdir(exist_ok=True)
        stray.write_bytes(b"stray")
    (tmp_path / "sha256" / id[:2] / (id[:2] + "f" * 62)).mkdir()
    world.clock.advance(10**12)
    store.attachments.delete("s1", id)

    assert [entry.id for entry in backend.list()] == [id]
    report = store.maintenance.reclaim_attachments(0)

    assert (report.scanned_blob_count, report.reclaimed_count) == (1, 1)
    assert all(stray.read_bytes() == b"stray" for stray in strays)


def test_a_sweep_removes_only_staging_of_ours(world: World, tmp_path: Path) -> None:
    store = world.open(attachments=DirectoryBytes(tmp_path / "files"))
    store.sessions.list()
    folder = tmp_path / "files" / "staging"
    folder.mkdir(parents=True)
    ours = [folder / f"{number:032x}.part" for number in range(3)]
    ours[0].write_bytes(b"left behind")
    ours[1].mkdir()
    (tmp_path / "elsewhere").write_bytes(b"theirs")
    ours[2].symlink_to(tmp_path / "elsewhere")
    strays = [
        folder / name
        for name in ("movie.part", "0" * 32, "A" * 32 + ".part", "0" * 32 + ".part.bak")
    ]
    for stray in strays:
        stray.write_bytes(b"theirs")
    world.clock.advance(10**12)

    assert store.maintenance.reclaim_attachments(0).removed_staging_count == 1

    assert not ours[0].exists()
    assert ours[1].is_dir()
    assert all(stray.read_bytes() == b"theirs" for stray in (*strays, ours[2]))


def test_a_directory_that_cannot_be_written_is_told_as_such(world: World, tmp_path: Path) -> None:
    (tmp_path / "files").write_bytes(b"no directory")
    store = world.open(attachments=DirectoryBytes(tmp_path / "files"))

    for content in (b"small", LARGE):
        with pytest.raises(StoreUnavailable) as told:
            store.attachments.put("s1", content)
        assert (told.value.operation, told.value.retryable) == ("attachments.put", True)
