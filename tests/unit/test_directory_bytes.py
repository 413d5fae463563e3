"""Attachments in a directory: what is flushed, what is listed, and what a subclass may change."""

from __future__ import annotations

import hashlib
import itertools
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast import DatabaseBytes, DirectoryBytes, InvalidArgument

PREFIX = "ab"


def _alike(count: int) -> dict[str, bytes]:
    """Contents whose files are in one folder, by id and in order."""
    contents = (b"%d" % number for number in itertools.count())
    named = ((hashlib.sha256(content).hexdigest(), content) for content in contents)
    return dict(sorted(itertools.islice((n for n in named if n[0].startswith(PREFIX)), count)))


def _inode(path: Path) -> int:
    return path.stat().st_ino


# --- what outlives a loss of power ---------------------------------------------------------


class Flushes:
    """What was flushed, by thread; one of them may be held up in the middle."""

    def __init__(self) -> None:
        self.seen: dict[str, list[int]] = {}
        self.before: Any = None
        self._flush = os.fsync

    def __call__(self, file: int) -> None:
        inode = os.fstat(file).st_ino
        if self.before is not None:
            self.before(inode)
        self._flush(file)
        self.seen.setdefault(threading.current_thread().name, []).append(inode)

    def here(self) -> list[int]:
        return self.seen.pop(threading.current_thread().name, [])


@pytest.fixture
def flushes(monkeypatch: pytest.MonkeyPatch) -> Flushes:
    """Every flush of this test."""
    recorder = Flushes()
    monkeypatch.setattr(os, "fsync", recorder)
    return recorder


@pytest.mark.parametrize("size", [10, 3_000_000], ids=["small", "large"])
def test_a_file_and_every_name_on_the_way_to_it_are_flushed(
    tmp_path: Path, flushes: Flushes, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "new" / "files"
    before_rename: list[int] = []
    rename = os.replace

    def watched(source: Path, target: Path) -> None:
        before_rename.extend(flushes.seen[threading.current_thread().name])
        assert _inode(source) in before_rename
        rename(source, target)

    monkeypatch.setattr(os, "replace", watched)

    id = DirectoryBytes(root).put(bytes(size)).id

    seen = flushes.here()
    folder = root / "sha256" / id[:2]
    assert seen[0] == _inode(folder / id), "its bytes first"
    assert {_inode(each) for each in (tmp_path, root.parent, root, root / "sha256")} <= set(seen)
    assert seen[-1] == _inode(folder), "its name last"
    assert _inode(folder) not in before_rename


def test_what_was_flushed_once_is_not_flushed_for_every_file(
    tmp_path: Path, flushes: Flushes
) -> None:
    backend = DirectoryBytes(tmp_path)
    one, other = _alike(2).items()
    backend.put(one[1])
    flushes.here()

    backend.put(other[1])

    folder = tmp_path / "sha256" / PREFIX
    assert flushes.here() == [_inode(folder / other[0]), _inode(folder)]


def test_a_folder_that_was_made_anew_is_flushed_anew(tmp_path: Path, flushes: Flushes) -> None:
    backend = DirectoryBytes(tmp_path / "files")
    one, other = _alike(2).items()
    backend.put(one[1])
    (tmp_path / "files").rename(tmp_path / "moved")
    flushes.here()

    backend.put(other[1])

    seen = flushes.here()
    assert {_inode(tmp_path), _inode(tmp_path / "files" / "sha256")} <= set(seen)


@pytest.mark.parametrize("of_another_process", [False, True])
def test_nobody_relies_on_a_name_that_another_has_not_flushed_yet(
    tmp_path: Path, flushes: Flushes, of_another_process: bool
) -> None:
    backend = DirectoryBytes(tmp_path)
    # What a backend knows to be flushed it has flushed itself, as another process would have to.
    mine = DirectoryBytes(tmp_path) if of_another_process else backend
    one, other = _alike(2).values()
    entered, go_on = threading.Event(), threading.Event()

    def hold(inode: int) -> None:
        """The first one has made the folder, and its name is not on the disk yet."""
        held = (tmp_path / "sha256").exists() and inode == _inode(tmp_path / "sha256")
        if held and threading.current_thread().name == "first":
            entered.set()
            assert go_on.wait(20)

    flushes.before = hold
    first = threading.Thread(target=backend.put, args=(one,), name="first")
    first.start()
    assert entered.wait(20)
    assert (tmp_path / "sha256" / PREFIX).is_dir()

    mine.put(other)

    seen = flushes.here()
    go_on.set()
    first.join(20)
    assert _inode(tmp_path / "sha256") in seen
    assert not of_another_process or _inode(tmp_path) in seen
    assert not first.is_alive()


# --- listings ------------------------------------------------------------------------------


def _pages(backend: DirectoryBytes, limit: int) -> Iterator[list[str]]:
    after = ""
    while page := [entry.id for entry in backend.list(after, limit)]:
        yield page
        after = page[-1]


def test_strays_do_not_end_a_listing(tmp_path: Path) -> None:
    backend = DirectoryBytes(tmp_path)
    files = _alike(5)
    for content in files.values():
        backend.put(content)
    folder = tmp_path / "sha256" / PREFIX
    for number in range(2):
        (folder / f"{PREFIX}{number:062x}").symlink_to("/nowhere")
        (folder / f"{PREFIX}{number + 2:062x}").mkdir()

    ids = list(files)
    assert list(_pages(backend, 2)) == [ids[:2], ids[2:4], ids[4:]]
    assert backend.list(limit=0) == []


def test_what_is_deleted_meanwhile_does_not_end_a_listing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = DirectoryBytes(tmp_path)
    files = _alike(6)
    for content in files.values():
        backend.put(content)
    ids = list(files)
    look = backend._entry
    gone = ids[:2]

    def after_a_deletion(path: Path) -> Any:
        while gone:
            backend.delete(gone.pop())
        return look(path)

    monkeypatch.setattr(backend, "_entry", after_a_deletion)

    assert list(_pages(backend, 2)) == [ids[2:4], ids[4:]]


@pytest.mark.parametrize(
    ("path", "reason"), [("a\0b", "nul"), (5, "not_text"), (b"a", "not_text"), ("", "empty")]
)
def test_what_is_no_path_is_refused(path: Any, reason: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        DirectoryBytes(path)
    assert (refused.value.field, refused.value.reason) == ("path", reason)


# --- subclasses ----------------------------------------------------------------------------


class Veiled(DirectoryBytes):
    """A backend of somebody's own, which keeps other bytes than it is given."""

    def put_small(self, id: str, body: bytes) -> None:
        super().put_small(id, bytes(byte ^ 255 for byte in body))

    def read(self, id: str) -> Iterator[bytes]:
        for piece in super().read(id):
            yield bytes(byte ^ 255 for byte in piece)


class Lasting(DatabaseBytes):
    """A backend of somebody's own, from which nothing is ever removed."""

    def delete(self, id: str) -> None:
        """Nothing."""


def test_a_subclass_stays_what_it_is(tmp_path: Path) -> None:
    with holdfast.open("sqlite://", attachments=Veiled(tmp_path)) as store:
        id = store.attachments.put("s1", b"secret").id
        assert store.attachments.get("s1", id) == b"secret"
    (file,) = (each for each in tmp_path.rglob(id))
    assert file.read_bytes() != b"secret"

    mine = Lasting(1_000)
    with holdfast.open("sqlite://", attachments=mine) as store:
        store.attachments.put("s1", b"kept")
        store._core.bytes.delete(store.attachments.list_refs()[0])
        assert len(store._core.bytes.list()) == 1
        assert store._core.bytes.max_bytes == 1_000
