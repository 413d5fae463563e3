"""Finding out what a path names, and connecting to it, without touching what is not ours."""

from __future__ import annotations

import ctypes
import os
from typing import Final
from urllib.parse import quote

import apsw

from holdfast.errors import NotAStore, StoreUnavailable, UnsupportedStoreVersion
from holdfast.settings import Settings
from holdfast.sqlite import forks
from holdfast.sqlite.faults import translate

#: Marks our files, in SQLite's header field for exactly that.
APPLICATION_ID: Final = 0x484F4C44
_OLDEST_SQLITE: Final = 3_045_000
_PREPARED: Final = 400  # statements, for each connection
_CACHE_KB: Final = 16_000
_LOG_LIMIT_BYTES: Final = 16 * 1024 * 1024


def require_sqlite() -> None:
    """Refuse a SQLite that is older than what the statements need."""
    found = apsw.SQLITE_VERSION_NUMBER
    if found < _OLDEST_SQLITE:
        raise UnsupportedStoreVersion("server", found, _OLDEST_SQLITE, None)


def inspect(path: str, settings: Settings) -> None:
    """Refuse a path that is no store of ours and may not become one; leaves it untouched."""
    if os.path.isdir(path) or not os.path.isdir(os.path.dirname(path)):
        raise StoreUnavailable("open", f"{path} is a directory, or its directory is missing")
    forks.refuse_inherited(path)
    try:
        size = os.stat(path).st_size
    except FileNotFoundError:
        size = 0
    except OSError as error:
        raise StoreUnavailable("open", str(error)) from error
    if size:
        _require_ours(path)
    elif settings.read_only or not settings.create:
        raise NotAStore(path, "absent or empty, and not to be created")


def connect(target: str, flags: int) -> apsw.Connection:
    """A connection with everything set that does not touch the database."""
    raw = apsw.Connection(target, flags=flags, statementcachesize=_PREPARED)
    forks.note(raw, raw.filename)
    raw.config(apsw.SQLITE_DBCONFIG_DQS_DML, 0)
    raw.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
    # Or a statement is prepared anew for every binding, which costs ten times what it does.
    raw.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    raw.wal_autocheckpoint(0)
    raw.pragma("cache_size", -_CACHE_KB)
    raw.pragma("temp_store", "memory")
    return raw


def make_writer(raw: apsw.Connection, settings: Settings, *, memory: bool) -> None:
    """Set how a connection writes; the database is of our version already."""
    raw.pragma("foreign_keys", 1)
    if memory:
        raw.pragma("journal_mode", "memory")
        _raise_memory_limit(raw)
        return
    if raw.pragma("journal_mode", "wal") != "wal":
        raise apsw.BusyError("the write-ahead log cannot be switched on now")
    raw.pragma("synchronous", "full" if settings.sync == "full" else "normal")
    if settings.sync == "full":
        # On macOS a plain sync stops at the drive's own memory; elsewhere these change nothing.
        raw.pragma("fullfsync", 1)
        raw.pragma("checkpoint_fullfsync", 1)
    raw.pragma("journal_size_limit", _LOG_LIMIT_BYTES)


def has_moved(raw: apsw.Connection) -> bool:
    """Whether the file that a connection has open is no longer where its name says."""
    moved = ctypes.c_int(0)
    raw.file_control("main", apsw.SQLITE_FCNTL_HAS_MOVED, ctypes.addressof(moved))
    return bool(moved.value)


def _raise_memory_limit(raw: apsw.Connection) -> None:
    """Let a database in memory grow as far as memory goes; SQLite ends it at 1 GiB."""
    limit = ctypes.c_int64(1 << 40)
    raw.file_control("main", apsw.SQLITE_FCNTL_SIZE_LIMIT, ctypes.addressof(limit))


def _require_ours(path: str) -> None:
    """Read the header as if the file could not change: no lock, no log, nothing created.

    Not with Python's own files: closing one gives up the locks that other connections of this
    process hold on it.
    """
    uri = f"file:{quote(path)}?mode=ro&immutable=1"
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    try:
        peek = apsw.Connection(uri, flags=flags)
        try:
            found = peek.pragma("application_id")
        finally:
            peek.close()
    except apsw.NotADBError as error:
        raise NotAStore(path, "not a database") from error
    except apsw.CorruptError:
        # Perhaps it is being made at this moment, or was when its maker died: the opening
        # itself will see, under a lock and with the journal.
        return
    except apsw.Error as error:
        raise translate(error, "open") from error
    if found != APPLICATION_ID:
        raise NotAStore(path, "a database of another program")
