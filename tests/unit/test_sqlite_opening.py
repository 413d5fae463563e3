"""Opening a SQLite store: what is ours, racing openers, versions, leftovers, other processes."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import apsw
import pytest

from holdfast.errors import (
    Contention,
    CorruptRecord,
    NotAStore,
    ReadOnlyStore,
    StoreUnavailable,
    UnsupportedStoreVersion,
)
from tests.unit.sqlite_kit import SECOND, Held, names, opened, put, work

ROOT = Path(__file__).resolve().parents[2]


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


@pytest.fixture
def script(tmp_path: Path) -> Iterator[Callable[[str], subprocess.Popen[str]]]:
    """Starts another process with the kit imported and `root` and `path` given."""
    head = "from pathlib import Path\nfrom tests.unit.sqlite_kit import *\n"
    head += f"root = Path({str(tmp_path)!r})\npath = root / 'a.db'\n"
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    with ExitStack() as ends:

        def start(text: str) -> subprocess.Popen[str]:
            process = subprocess.Popen(
                [sys.executable, "-c", head + text],
                env=os.environ | {"PYTHONPATH": paths},
                stdout=subprocess.PIPE,
                text=True,
            )
            ends.enter_context(process)
            ends.callback(process.kill)
            return process

        yield start


def finish(process: subprocess.Popen[str]) -> str:
    said, _ = process.communicate(timeout=30)
    assert process.returncode == 0
    return said.strip()


def database_of_another(path: Path, mode: str, mark: int = 77) -> None:
    other = apsw.Connection(str(path))
    other.pragma("journal_mode", mode)
    other.pragma("application_id", mark)
    other.execute("CREATE TABLE theirs (x); INSERT INTO theirs VALUES (1)")
    other.close()


@pytest.mark.parametrize("kind", ["text", "short", "zeros", "delete", "wal", "open", "unmarked"])
def test_what_is_not_ours_stays_untouched(tmp_path, kind):
    path = tmp_path / "a.db"
    if kind in ("delete", "wal"):
        database_of_another(path, kind)
    elif kind == "unmarked":
        database_of_another(path, "delete", mark=0)
    elif kind == "open":
        database_of_another(tmp_path / "b", "wal")
        inside = apsw.Connection(str(tmp_path / "b"))
        inside.execute("INSERT INTO theirs VALUES (2)")
        for end in ("", "-wal", "-shm"):
            shutil.copy(tmp_path / f"b{end}", f"{path}{end}")
        inside.close()
    else:
        path.write_bytes({"text": b"text " * 999, "short": b"x", "zeros": bytes(8192)}[kind])
    before = contents(tmp_path)

    for settings in ({}, {"read_only": True}, {"create": False}):
        with pytest.raises(NotAStore) as refused:
            opened(path, tmp_path, **settings)
        assert refused.value.target == str(path)
    assert contents(tmp_path) == before


@pytest.mark.parametrize("settings", [{"create": False}, {"read_only": True}])
@pytest.mark.parametrize("empty", [False, True])
def test_what_is_absent_is_not_made_unasked(tmp_path, settings, empty):
    if empty:
        (tmp_path / "a.db").touch()
    before = contents(tmp_path)

    with pytest.raises(NotAStore):
        opened(tmp_path / "a.db", tmp_path, **settings)
    assert contents(tmp_path) == before


def test_a_directory_missing_or_in_the_way_is_unavailable(tmp_path):
    for path in (tmp_path / "none" / "a.db", tmp_path):
        with pytest.raises(StoreUnavailable):
            opened(path, tmp_path)


@pytest.mark.skipif(not hasattr(os, "seteuid") or os.geteuid() != 0, reason="needs to be root")
@pytest.mark.parametrize("guarded", ["file", "folder"])
def test_what_may_not_be_written_is_unavailable(guarded):
    with tempfile.TemporaryDirectory() as name:
        root, path = Path(name), Path(name) / "a.db"
        opened(path, root).close()
        root.chmod(0o777 if guarded == "file" else 0o755)
        path.chmod(0o444 if guarded == "file" else 0o666)
        os.seteuid(65534)
        try:
            with pytest.raises(StoreUnavailable):
                opened(path, root)
        finally:
            os.seteuid(0)


def test_an_empty_file_and_an_odd_name_are_a_new_store(tmp_path, monkeypatch):
    (tmp_path / "empty").touch()
    monkeypatch.chdir(tmp_path)
    for path in ("empty", "a?b#c%20 'd.db", ":memory:", "file:x?mode=ro"):
        for expected in ([], ["a"]):
            made = opened(path, tmp_path)
            assert names(made) == expected
            made.run(work(put, "a"))
            made.close()
        assert (tmp_path / path).stat().st_size > 0


@pytest.mark.parametrize("left", ["killed", "in use"])
def test_a_log_without_its_file_is_not_taken_over(script, tmp_path, left):
    path = tmp_path / "a.db"
    text = "b = opened(path, root)\nfor n in range(9): b.run(work(put, str(n)))\n"
    old = script(text + "print(names(b), flush=True)\nimport time; time.sleep(30)")
    assert old.stdout.readline()
    if left == "killed":
        old.kill()
        old.wait()
    path.unlink()
    assert Path(f"{path}-wal").stat().st_size

    try:
        new = opened(path, tmp_path)
        assert names(new) == []
        new.run(work(put, "new"))
        said = finish(script("b = opened(path, root); print(names(b)); b.close()"))
        assert said == "['new']"
        new.close()
    finally:
        old.kill()
        old.wait()


def test_sixteen_threads_and_three_processes_open_at_once(script, tmp_path):
    text = "b = opened(path, root); b.run(work(put, 'p')); b.close()"
    others = [script(text) for _ in range(3)]
    failed: list[BaseException] = []

    def first(number):
        try:
            for round_number in range(3):
                made = opened(tmp_path / f"r{round_number}.db", tmp_path)
                made.run(work(put, "t"))
                made.close()
            made = opened(tmp_path / "a.db", tmp_path)
            made.run(work(put, "t"))
            made.close()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=first, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for other in others:
        finish(other)

    assert failed == []
    made = opened(tmp_path / "a.db", tmp_path)
    assert sorted(names(made)) == ["p"] * 3 + ["t"] * 16
    made.close()


def test_an_older_store_is_brought_forward_when_that_is_wanted(tmp_path):
    path = tmp_path / "a.db"
    old = opened(path, tmp_path)
    old.run(work(put, "kept"))
    old.close()
    before = contents(tmp_path)

    for settings in ({"migrate": False}, {"read_only": True}):
        with pytest.raises(UnsupportedStoreVersion) as refused:
            opened(path, tmp_path, SECOND, **settings)
        assert (refused.value.found, refused.value.supported_max) == (1, 2)
    assert contents(tmp_path) == before

    new = opened(path, tmp_path, SECOND)
    assert names(new) == ["kept"]
    new.close()
    rows = apsw.Connection(str(path)).execute("SELECT number, name FROM migration").fetchall()
    assert rows == [(1, "step"), (2, "step")]


def test_an_older_library_does_what_the_newer_store_allows(tmp_path):
    path = tmp_path / "a.db"
    opened(path, tmp_path, SECOND).close()  # leaves it to schema 1 to write
    both = opened(path, tmp_path)
    both.run(work(put, "a"))
    both.close()

    def stamp(number, reader, writer):
        raw = apsw.Connection(str(path))
        raw.execute("DELETE FROM migration WHERE number > 2")
        raw.execute("INSERT INTO migration VALUES (?, 'x', ?, ?, 0)", (number, reader, writer))
        raw.close()

    stamp(3, 1, 3)
    looking = opened(path, tmp_path)
    assert looking.read_only
    assert names(looking) == ["a"]
    with pytest.raises(ReadOnlyStore):
        looking.run(work(put, "b"))
    looking.close()

    stamp(99, 99, 99)
    with pytest.raises(UnsupportedStoreVersion) as refused:
        opened(path, tmp_path)
    assert (refused.value.component, refused.value.found) == ("schema", 99)


@pytest.mark.parametrize("column", ["oldest_reader", "oldest_writer"])
def test_a_damaged_record_of_the_migrations_is_told(tmp_path, column):
    path = tmp_path / "a.db"
    opened(path, tmp_path).close()
    other = apsw.Connection(str(path))
    other.execute(f"UPDATE migration SET {column} = 'x'")
    other.close()

    with pytest.raises(CorruptRecord) as told:
        opened(path, tmp_path)
    assert (told.value.record_kind, told.value.key) == ("migration", "1")


def test_a_migration_that_fails_leaves_the_store_as_it_was(tmp_path):
    path = tmp_path / "a.db"
    opened(path, tmp_path).close()
    before = contents(tmp_path)
    broken = SECOND + "INSERT INTO nowhere VALUES (1);"

    with pytest.raises(StoreUnavailable, match="nowhere"):
        opened(path, tmp_path, broken)
    assert contents(tmp_path) == before


def test_a_file_that_stays_locked_is_contention(tmp_path):
    other = apsw.Connection(str(tmp_path / "a.db"))
    other.execute("BEGIN EXCLUSIVE")

    with pytest.raises(Contention) as refused:
        opened(tmp_path / "a.db", tmp_path, wait_ms=30)
    assert refused.value.operation == "open"
    other.close()


def test_what_was_acknowledged_survives_a_kill(script, tmp_path):
    text = "b = opened(path, root)\nfor n in range(9): b.run(work(put, str(n)))\n"
    process = script(text + "print('done', flush=True)\nimport time; time.sleep(30)")
    assert process.stdout.readline() == "done\n"
    process.send_signal(signal.SIGKILL)
    process.communicate()

    made = opened(tmp_path / "a.db", tmp_path)
    assert names(made) == [str(number) for number in range(9)]
    made.close()


def test_processes_contend_without_a_busy_error(script, tmp_path):
    text = "b = opened(path, root)\nfor n in range(100): b.run(work(put, str(n)))\nb.close()"
    for process in [script(text) for _ in range(3)]:
        finish(process)

    made = opened(tmp_path / "a.db", tmp_path)
    assert len(names(made)) == 300
    made.close()


def test_a_forked_child_ends_without_disturbing_the_parent(script, tmp_path):
    """The child runs through its exit in full while the parent is amid a transaction."""
    text = """
import gc, os, sys, weakref
b = opened(path, root)
b.run(work(put, "before"))

async def fork_amid(tx):
    await put(tx, "amid")
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)

def fork_and_exit():
    held = Held(b)
    queued = b.submit(work(put, "queued"))
    child = os.fork()
    if child == 0:
        return child
    assert os.waitpid(child, 0)[1] == 0
    held.release()
    queued.result(5)
    return child

names(b)
b.run(work(fork_amid))
if fork_and_exit() == 0:
    idle = weakref.ref(b._readers._idle[0])
    del b
    gc.collect()
    sys.exit(idle() is None)
b.run(work(put, "after"))
b.close()
"""
    finish(script(text))

    made = opened(tmp_path / "a.db", tmp_path)
    assert names(made) == ["before", "amid", "queued", "after"]
    made.close()


def test_a_process_may_end_without_closing(script, tmp_path):
    finish(script("b = opened(path, root); b.run(work(put, 'a')); h = names(b)"))

    made = opened(tmp_path / "a.db", tmp_path)
    assert names(made) == ["a"]
    held = Held(made)
    held.release()
    made.close()
