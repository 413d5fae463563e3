"""Whether the holder of a lease is provably dead. Whatever is in doubt is not."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import TypeAlias

from holdfast.model.leases import Liveness, LocalProcess


class Unseen(enum.Enum):
    """Why a look at a process showed no start time."""

    #: There is no process of this id.
    ABSENT = "absent"
    #: It cannot be told whether there is one, or which.
    UNREADABLE = "unreadable"


#: The start time of a process of this host as the system prints it, or why there is none.
ProcessSeen: TypeAlias = str | Unseen


def definitely_dead(
    claimant: Liveness, holder: Liveness, started: Callable[[int], ProcessSeen]
) -> bool:
    """Whether the holder is a process of the claimant's host and boot that runs no more."""
    if not isinstance(claimant, LocalProcess) or not isinstance(holder, LocalProcess):
        return False
    if not _same_boot(claimant, holder) or holder.pid < 1:
        return False
    seen = started(holder.pid)
    if isinstance(seen, Unseen):
        return seen is Unseen.ABSENT
    return (
        _is_start_time(seen)
        and _is_start_time(holder.process_start)
        and (int(seen) != int(holder.process_start))
    )


def _same_boot(claimant: LocalProcess, holder: LocalProcess) -> bool:
    known = bool(claimant.host_id and claimant.boot_id)
    return known and (claimant.host_id, claimant.boot_id) == (holder.host_id, holder.boot_id)


def _is_start_time(text: str) -> bool:
    return text.isascii() and text.isdigit()
