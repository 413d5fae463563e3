"""What other processes do in the tests of the contract; each is given an open store."""

from __future__ import annotations

import os
from typing import Any

from holdfast.testing.contract.samples import chain, create, path_ids, put

#: The exit status of a process that ended as if it had been killed.
DEAD = 77


def create_one(store: Any, session_id: str) -> str:
    """Make a session known."""
    name: str = create(store, session_id).session_id
    return name


def write_and_die(store: Any) -> None:
    """Commit, and end without closing anything."""
    put(store, "s1", graph=chain("a"))
    os._exit(DEAD)


def read_path(store: Any, session_id: str) -> list[str]:
    """The node ids of a session's path."""
    return path_ids(store, session_id)
