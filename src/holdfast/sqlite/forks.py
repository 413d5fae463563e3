"""What a forked child inherits of SQLite, and must neither close nor open again (FAC-20).

SQLite keeps a process's locks on a file in the process, once for all of its connections. A child
inherits that record without the locks themselves: a connection of its own to the same file would
write beside the parent in the belief of holding them.
"""

from __future__ import annotations

import ctypes
import os
from typing import Any
from weakref import WeakKeyDictionary

from holdfast.errors import StoreClosed

_File = tuple[int, int]

#: What must not be closed in a child, with the file it has open.
_open: WeakKeyDictionary[Any, _File | None] = WeakKeyDictionary()
_inherited: set[_File] = set()


def note(opened: Any, path: str = "") -> None:
    """Take note of a connection to a file, or of what belongs to one."""
    _open[opened] = _identity(path)


def refuse_inherited(path: str) -> None:
    """Refuse a file that the parent of this process had open when it forked."""
    if _identity(path) in _inherited:
        raise StoreClosed("forked")


def _identity(path: str) -> _File | None:
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return found.st_dev, found.st_ino


def _after_fork() -> None:
    """Keep what was inherited from ever being closed, by garbage collection too.

    Closing it would undo the parent's transaction in the log's index, which both processes share.
    """
    for opened, file in list(_open.items()):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(opened))
        if file is not None:
            _inherited.add(file)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
