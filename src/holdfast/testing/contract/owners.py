"""Owners that can be told to be alive or dead, because they are processes of this host."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import msgspec
import pytest

from holdfast import LeaseOwner, LocalProcess, local_process


def this_process(owner_id: str, **fields: Any) -> LeaseOwner:
    """This process as an owner, but for the fields given; skips where none can be named."""
    me = local_process(owner_id)
    if not isinstance(me.liveness, LocalProcess):
        pytest.skip("this system does not tell which processes run")
    return msgspec.structs.replace(me, liveness=msgspec.structs.replace(me.liveness, **fields))


def ended() -> LeaseOwner:
    """A process that has ended, and whose id nobody has now."""
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        pid = child.pid
    return this_process("dead", pid=pid)


def replaced() -> LeaseOwner:
    """A process that has ended, and whose id somebody else has now."""
    return this_process("dead", process_start="1")
