"""Where SQLite keeps things: the log and its length, files that go, memory, the drive itself."""

from __future__ import annotations

import ctypes
import random
import threading
import time
from contextlib import suppress

import apsw
import pytest

from holdfast.errors import StoreUnavailable
from holdfast.sqlite import writer
from tests.unit.sqlite_kit import opened, put, put_large, work


def test_the_log_begins_anew_though_reads_overlap(tmp_path, monkeypatch):
    monkeypatch.setattr(writer, "CHECKPOINT_PAGES", 16)
    monkeypatch.setattr(writer, "LONG_LOG_PAGES", 64)
    path = tmp_path / "a.db"
    made = opened(path, tmp_path)
    over, turn = threading.Event(), threading.Barrier(2)

    def read_on() -> None:
        """Two of these are never both outside of a snapshot."""
        reader = apsw.Connection(str(path))
        while not over.is_set():
            reader.execute("BEGIN; SELECT count(*) FROM item").fetchall()
            with suppress(threading.BrokenBarrierError):
                turn.wait(0.02)
            time.sleep(random.uniform(0, 0.004))
            reader.execute("COMMIT")
        reader.close()

    readers = [threading.Thread(target=read_on) for _ in range(2)]
    for reader in readers:
        reader.start()
    written, size = 0, 40_000
    for number in range(200):
        made.run(work(put_large, f"n{number}", size))
        written += size
    log = path.with_name("a.db-wal").stat().st_size
    over.set()
    for reader in readers:
        reader.join()
    made.close()

    assert log < written / 4


@pytest.mark.parametrize("gone", ["moved", "removed"])
def test_a_file_that_is_gone_takes_no_more_writes(tmp_path, gone):
    path = tmp_path / "a.db"
    made = opened(path, tmp_path)
    made.run(work(put, "a"))
    if gone == "moved":
        path.rename(tmp_path / "b.db")
    else:
        path.unlink()

    for _ in range(2):
        with pytest.raises(StoreUnavailable, match="moved or removed"):
            made.run(work(put, "lost"))
    made.close()


def test_a_database_in_memory_may_outgrow_what_sqlite_allows_by_itself(tmp_path):
    made = opened(None, tmp_path)
    limit = ctypes.c_int64(-1)
    made._anchor.raw.file_control("main", apsw.SQLITE_FCNTL_SIZE_LIMIT, ctypes.addressof(limit))
    made.close()

    assert limit.value > 1 << 32


@pytest.mark.parametrize("sync", ["full", "relaxed"])
def test_full_sync_reaches_the_drive_itself(tmp_path, sync):
    made = opened(tmp_path / "a.db", tmp_path, sync=sync)
    told = [made._anchor.raw.pragma(name) for name in ("fullfsync", "checkpoint_fullfsync")]
    made.close()

    assert told == [sync == "full"] * 2
