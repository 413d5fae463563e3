"""What callers hear when the disk fails under a group of writes (GEN-10, GEN-13)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import apsw
import pytest

from holdfast.errors import StoreUnavailable
from holdfast.sqlite.driver import SqliteBackend
from tests.unit.sqlite_kit import Held, names, opened, put, work

BASE = apsw.vfs_names()[0]
Failure = tuple[str, type[apsw.Error]]


class Disk(apsw.VFS):
    """SQLite's own way to the disk, failing where a test says."""

    def __init__(self) -> None:
        self.failing: Failure | None = None
        super().__init__("failing", BASE, makedefault=True)

    def xOpen(self, name: Any, flags: Any) -> apsw.VFSFile:
        return File(self, name, flags)


class File(apsw.VFSFile):
    """A file on it; only its log fails."""

    def __init__(self, disk: Disk, name: Any, flags: Any) -> None:
        given = name.filename() if isinstance(name, apsw.URIFilename) else name
        self._disk, self._is_log = disk, str(given).endswith("-wal")
        super().__init__(BASE, name, flags)

    def xWrite(self, data: Any, offset: int) -> None:
        self._may_fail("write")
        super().xWrite(data, offset)

    def xSync(self, flags: Any) -> None:
        self._may_fail("sync")
        super().xSync(flags)

    def _may_fail(self, step: str) -> None:
        failing = self._disk.failing
        if self._is_log and failing is not None and failing[0] == step:
            raise failing[1]("the disk says no")


@pytest.fixture
def disk() -> Iterator[Disk]:
    made = Disk()
    yield made
    made.unregister()


@pytest.fixture
def backend(disk, tmp_path) -> Iterator[SqliteBackend]:
    made = opened(tmp_path / "a.db", tmp_path)
    yield made
    made.close()


@pytest.mark.parametrize("together", [1, 3])
@pytest.mark.parametrize(
    ("failing", "maybe_written"),
    [
        (("sync", apsw.IOError), True),
        (("write", apsw.IOError), True),
        (("write", apsw.FullError), False),
    ],
)
def test_a_commit_that_fails_is_told_as_what_it_is(
    disk, backend, tmp_path, failing, maybe_written, together
):
    backend.run(work(put, "before"))
    held = Held(backend)
    futures = [backend.submit(work(put, f"lost{n}")) for n in range(together)]
    disk.failing = failing
    held.released.set()
    faults = [future.exception(10) for future in futures]
    disk.failing = None

    assert {type(fault) for fault in faults} == {StoreUnavailable}
    assert {fault.maybe_written for fault in faults} == {maybe_written}
    assert {fault.retryable for fault in faults} == {not maybe_written}
    backend.run(work(put, "after"))
    assert names(backend) == ["before", "after"]
