"""Bytes as files of a directory: `sha256/<two digits>/<id>`, and `staging/` beside it (ATT-4).

`stores/` has an empty file for each store that ever put something here.

A file is written under a name of its own in the same file system, flushed, and renamed; then the
directory is flushed, since until then the name may be lost with the power. The same is true of
the directory's own name and of those above it: whoever made one may not have flushed it yet, so
each process flushes each of them once before it acknowledges a file below. Whatever else lies in
the directory is left alone.
"""

from __future__ import annotations

import contextlib
import copy
import heapq
import itertools
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from holdfast.attachments.backend import ByteBackend, Host, Staged, is_private_name, private_name
from holdfast.attachments.intake import PIECE_BYTES
from holdfast.errors import AttachmentNotFound, InvalidArgument, StoreUnavailable
from holdfast.model.attachments import ByteEntry
from holdfast.rules.attachments import is_attachment_id, staging_swept
from holdfast.settings import Clock

_PREFIXES: Final = tuple(f"{number:02x}" for number in range(256))
_STAGED: Final = ".part"
_NANOSECONDS: Final = 1_000_000


class DirectoryBytes(ByteBackend):
    """Bytes as files under a directory, which is made when it is first written to.

    >>> import holdfast
    >>> backend = holdfast.DirectoryBytes("attachments")
    >>> with holdfast.open("sqlite://", attachments=backend) as store:
    ...     view = store.session("chat-1")
    ...     with open("notes.txt", "wb") as file:
    ...         _ = file.write(b"some bytes")
    ...     with open("notes.txt", "rb") as file:
    ...         notes = view.attachments.put(file, media_type="text/plain", label="notes.txt")
    ...     b"".join(view.attachments.stream(notes.id))
    b'some bytes'
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._root = _folder(path).absolute()
        self._clock: Clock | None = None
        #: Folders whose names this process has flushed, and what they were then.
        self._kept: dict[Path, tuple[int, int] | None] = {}

    def attach(self, host: Host) -> DirectoryBytes:
        """Keep the store's time, where it was given a clock."""
        attached = copy.copy(self)
        attached._clock = host.settings.clock
        return attached

    def stage(self) -> Staged:
        """A file that has no id yet."""
        folder = self._root / "staging"
        with _told("put"):
            folder.mkdir(parents=True, exist_ok=True)
            return _File(self, folder / f"{private_name()}{_STAGED}")

    def read(self, id: str) -> Iterator[bytes]:
        """The file, a MiB at a time."""
        with _told("get", id), open(self.place(id), "rb", buffering=0) as file:
            while piece := file.read(PIECE_BYTES):
                yield piece

    def delete(self, id: str) -> None:
        """Remove the file."""
        with _told("delete"), contextlib.suppress(FileNotFoundError):
            self.place(id).unlink()
            _flush(self.place(id).parent)

    def list(self, after: str = "", limit: int = 1_000) -> list[ByteEntry]:
        """Files by id; strays are passed over."""
        folders = (prefix for prefix in _PREFIXES if prefix >= after[:2])
        with _told("list"):
            found = (entry for prefix in folders for entry in self._entries(prefix, after, limit))
            return [*itertools.islice(found, limit)]

    def head(self, id: str) -> ByteEntry | None:
        """What is known of a file."""
        with _told("head"):
            return self._entry(self.place(id))

    def sweep_staging(self, before_ms: int) -> int:
        """Remove files that have no id and that nobody has written to since."""
        removed = 0
        staging = self._root / "staging"
        with _told("sweep"), contextlib.suppress(FileNotFoundError), os.scandir(staging) as files:
            for stray in files:
                if _is_staged(stray) and _age(stray) <= before_ms:
                    Path(stray).unlink(missing_ok=True)
                    removed += 1
        return removed

    def join(self, store_name: str) -> None:
        """An empty file of the store's name."""
        folder = self._root / "stores"
        with _told("put"):
            self.keep(folder)
            (folder / store_name).touch()
            _flush(folder)

    def stores(self) -> set[str]:
        """The names of these files."""
        folder = self._root / "stores"
        with _told("list"), contextlib.suppress(FileNotFoundError), os.scandir(folder) as files:
            return {file.name for file in files if is_private_name(file.name)}
        return set()

    def place(self, id: str) -> Path:
        """Where an id's file is."""
        return self._root / "sha256" / id[:2] / id

    def mark(self, file: int) -> None:
        """Date a file by the store's clock; without one the system has done so."""
        if self._clock is not None:
            now = self._clock.now_ms() * _NANOSECONDS
            os.utime(file, ns=(now, now))

    def keep(self, folder: Path) -> None:
        """A folder whose name outlives a loss of power, with those above it, whoever made them."""
        seen = _identity(folder)
        if seen is not None and self._kept.get(folder) == seen:
            return
        if not os.path.ismount(folder):
            self.keep(folder.parent)
            folder.mkdir(exist_ok=True)
            seen = _identity(folder)
            # Where no one may look, nothing can be flushed.
            with contextlib.suppress(PermissionError):
                _flush(folder.parent)
        self._kept[folder] = seen

    def _entries(self, prefix: str, after: str, limit: int) -> Iterator[ByteEntry]:
        """What one folder has, in order. A file may be gone by the time it is looked at."""
        while names := self._names(prefix, after, limit):
            entries = (self._entry(self.place(name)) for name in names)
            yield from (entry for entry in entries if entry is not None)
            if len(names) < limit:
                return
            after = names[-1]

    def _names(self, prefix: str, after: str, limit: int) -> Sequence[str]:
        """The next names in one folder, without ever holding all of them."""
        try:
            with os.scandir(self._root / "sha256" / prefix) as files:
                ours = (file.name for file in files if _is_ours(file, prefix, after))
                return heapq.nsmallest(limit, ours)
        except (FileNotFoundError, NotADirectoryError):
            return []

    def _entry(self, path: Path) -> ByteEntry | None:
        try:
            seen = path.stat(follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError):
            return None
        if not stat.S_ISREG(seen.st_mode):
            return None
        modified_at_ms = seen.st_mtime_ns // _NANOSECONDS
        return ByteEntry(id=path.name, byte_len=seen.st_size, modified_at_ms=modified_at_ms)


class _File(Staged):
    def __init__(self, backend: DirectoryBytes, path: Path) -> None:
        self._backend = backend
        self._path = path
        self._file = open(path, "xb", buffering=0)  # noqa: SIM115
        self._backend.mark(self._file.fileno())

    def write(self, piece: bytes) -> None:
        with _told("put"):
            left = memoryview(piece)
            while left:
                left = left[self._file.write(left) :]
            self._backend.mark(self._file.fileno())

    def publish(self, id: str) -> None:
        place = self._backend.place(id)
        with _told("put"):
            self._backend.mark(self._file.fileno())
            os.fsync(self._file.fileno())
            self._file.close()
            self._backend.keep(place.parent)
            os.replace(self._path, place)
            _flush(place.parent)

    def discard(self) -> None:
        with _told("put"):
            self._file.close()
            self._path.unlink(missing_ok=True)


def _folder(path: object) -> Path:
    name = os.fspath(path) if isinstance(path, os.PathLike) else path
    if not isinstance(name, str):
        raise InvalidArgument("path", "not_text")
    if not name or "\0" in name:
        raise InvalidArgument("path", "nul" if name else "empty")
    return Path(name)


def _is_ours(file: os.DirEntry[str], prefix: str, after: str) -> bool:
    in_order = file.name > after and file.name.startswith(prefix)
    return in_order and is_attachment_id(file.name) and file.is_file(follow_symlinks=False)


def _is_staged(file: os.DirEntry[str]) -> bool:
    name, dot, rest = file.name.partition(".")
    return is_private_name(name) and dot + rest == _STAGED and file.is_file(follow_symlinks=False)


def _age(file: os.DirEntry[str]) -> int:
    try:
        return file.stat(follow_symlinks=False).st_mtime_ns // _NANOSECONDS
    except FileNotFoundError:
        return 0


def _identity(folder: Path) -> tuple[int, int] | None:
    try:
        seen = folder.stat()
    except FileNotFoundError:
        return None
    return seen.st_dev, seen.st_ino


def _flush(folder: Path) -> None:
    """Let the names in a folder outlive a loss of power."""
    if os.name == "nt":
        return  # where a folder cannot be opened, and a rename is flushed with its file
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextlib.contextmanager
def _told(operation: str, id: str | None = None) -> Iterator[None]:
    """What the file system says, in our words."""
    try:
        yield
    except FileNotFoundError as error:
        if id is None:
            raise staging_swept() from error
        raise AttachmentNotFound(id) from None
    except OSError as error:
        again = not isinstance(error, PermissionError)
        raise StoreUnavailable(f"attachments.{operation}", str(error), retryable=again) from error
