"""Large attachments: the memory they take on their way in and out, and the rate of a plain copy.

A process of its own puts a file into a directory and streams it back, so that the most memory it
ever had tells of nothing else.
"""

from __future__ import annotations

import hashlib
import itertools
import multiprocessing
import os
import shutil
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import holdfast
from benchmarks.measure import Outcome, alone, interleaved, timed
from benchmarks.table import Line, print_lines
from holdfast import DirectoryBytes
from holdfast.testing.contract.attachment_children import _high_water

MIB = 1 << 20
BUDGET_MIB = 64

PUT, COPY_IN = "put", "copy, flush and hash"
STREAM, COPY_OUT = "stream into a file", "copy and hash"


def run(*, quick: bool) -> None:
    """Measure and print."""
    print_lines("Large attachments, in a directory", _lines(64 if quick else 1_024, 3))


def _lines(size_mib: int, rounds: int) -> Iterator[Line]:
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, spawn) as apart:
        grown, samples = apart.submit(measured, size_mib, rounds).result()
    took = Outcome(samples)
    if grown:
        what = f"{size_mib} MiB in and out: memory / {BUDGET_MIB} MiB"
        detail = f"{grown / MIB:.1f} MiB"
        yield Line("F1", what, grown / MIB / BUDGET_MIB, at_most=1, detail=detail)
    for mine, other in ((PUT, COPY_IN), (STREAM, COPY_OUT)):
        what = f"{size_mib} MiB: rate of {mine} / {other}"
        rates = [f"{size_mib / took.median_us(name) * 1e6:.0f} MiB/s" for name in (mine, other)]
        yield Line("F2", what, took.times(other, mine), detail=", ".join(rates))


def measured(size_mib: int, rounds: int) -> tuple[int, dict[str, list[float]]]:
    """By how many bytes this process grew, 0 if it cannot be told, and what each round took."""
    before = _high_water()
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as folder:
        files = Files(Path(folder), size_mib)
        took = interleaved(
            f"files of {size_mib} MiB",
            {
                PUT: timed(files.put, before=files.renew),
                COPY_IN: alone(files.copy_in),
                STREAM: alone(files.stream),
                COPY_OUT: alone(files.copy_out),
            },
            rounds,
            0,
        )
        files.close()
    return _high_water() - before, dict(took.samples)


class Files:
    """A large file, and what is done with it."""

    def __init__(self, folder: Path, size_mib: int) -> None:
        self._given, self._copy = folder / "given", folder / "copy"
        self._back, self._copy_back = folder / "back", folder / "copy back"
        self._numbers = itertools.count()
        self._bytes = DirectoryBytes(folder / "stored")
        self._store = holdfast.open("sqlite://", attachments=self._bytes)
        with self._given.open("wb") as file:
            for _ in range(size_mib):
                file.write(os.urandom(MIB))
        self._id = ""
        self.put()
        self.copy_in()

    def renew(self) -> None:
        """Change the file a little: content that is stored already would not be stored again."""
        with self._given.open("r+b") as file:
            file.write(next(self._numbers).to_bytes(8))
        if self._id:
            self._bytes.delete(self._id)

    def put(self) -> None:
        """Into the store."""
        with self._given.open("rb") as file:
            self._id = self._store.attachments.put("s", file).id

    def copy_in(self) -> None:
        """What that takes by hand: the same bytes on disk, and their hash."""
        shutil.copyfile(self._given, self._copy)
        with self._copy.open("r+b") as file:
            os.fsync(file.fileno())
            hashlib.file_digest(file, "sha256")

    def stream(self) -> None:
        """Out of the store, which compares them with their hash."""
        with self._back.open("wb") as file:
            for piece in self._store.attachments.stream("s", self._id):
                file.write(piece)

    def copy_out(self) -> None:
        """What that takes by hand."""
        shutil.copyfile(self._copy, self._copy_back)
        with self._copy_back.open("rb") as file:
            hashlib.file_digest(file, "sha256")

    def close(self) -> None:
        """Let go of the store."""
        self._store.close()
