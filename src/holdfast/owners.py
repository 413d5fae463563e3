"""What the operating system says about processes: the owner that we are, and who still runs.

Linux says which boot this is, in which PID namespace a process runs and when it was started; the
three together name a process for good. Elsewhere owners are opaque, and leases end by expiry.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from pathlib import Path

from holdfast.model.leases import LeaseOwner, Liveness, LocalProcess, Opaque
from holdfast.rules.checks import identifier
from holdfast.rules.liveness import ProcessSeen, Unseen, definitely_dead

#: The start time is the 22nd field of the status line, the 20th of those behind the name.
_START_FIELD = 19


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True


class ProcessTable:
    """The processes that this one can see, read from a root directory tests may choose."""

    def __init__(self, root: Path = Path("/"), exists: Callable[[int], bool] = _exists) -> None:
        self._root = root
        self._exists = exists

    def started(self, pid: int) -> ProcessSeen:
        """When a process was started, or why that cannot be told."""
        try:
            line = (self._root / "proc" / str(pid) / "stat").read_bytes()
        except FileNotFoundError:
            return self._absent_if_sure(pid)
        except OSError:
            return Unseen.UNREADABLE
        # The name, in parentheses, may hold anything, parentheses and blanks included.
        fields = line.decode(errors="replace").rpartition(") ")[2].split()
        if len(fields) <= _START_FIELD or not fields[_START_FIELD].isdecimal():
            return Unseen.UNREADABLE
        return fields[_START_FIELD]

    def boot_id(self) -> str | None:
        """What names this boot of the system."""
        return self._line("proc/sys/kernel/random/boot_id")

    def host_id(self) -> str | None:
        """What names this host and, of its PID namespaces, the one we are in."""
        # Images of containers often have no machine id. The boot id names the kernel as well:
        # death is proved only within one boot, where no two namespaces have the same number.
        machine = self._line("etc/machine-id") or self.boot_id()
        try:
            namespace = os.readlink(self._root / "proc/self/ns/pid")
        except OSError:
            return None
        return f"{machine}/{namespace}" if machine else None

    def liveness(self, host_id: str | None = None) -> Liveness:
        """The current process; opaque where anything about it cannot be told."""
        pid = os.getpid()
        host, boot, start = host_id or self.host_id(), self.boot_id(), self.started(pid)
        if host is None or boot is None or isinstance(start, Unseen) or not self._is_ours(pid):
            return Opaque()
        return LocalProcess(host, boot, pid, start)

    def _absent_if_sure(self, pid: int) -> ProcessSeen:
        # A mount may hide other users' processes, so a missing file alone proves nothing.
        sure = self._is_ours(os.getpid()) and not self._exists(pid)
        return Unseen.ABSENT if sure else Unseen.UNREADABLE

    def _is_ours(self, pid: int) -> bool:
        # The table may be mounted from another namespace, where our id means somebody else.
        try:
            return os.readlink(self._root / "proc/self") == str(pid)
        except OSError:
            return False

    def _line(self, path: str) -> str | None:
        try:
            return (self._root / path).read_text(encoding="ascii").strip() or None
        except (OSError, ValueError):
            return None


_SYSTEM = ProcessTable()


def local_process(
    owner_id: str,
    incarnation_id: str | None = None,
    *,
    host_id: str | None = None,
    table: ProcessTable = _SYSTEM,
) -> LeaseOwner:
    """This process as an owner whose death others on the host can prove.

    Each call without an `incarnation_id` makes a new incarnation, so call it once per start. A
    `host_id` of your own must differ between PID namespaces.
    """
    if incarnation_id is None:
        incarnation_id = secrets.token_hex(16)
    return LeaseOwner(
        identifier(owner_id, "owner_id"),
        identifier(incarnation_id, "incarnation_id"),
        table.liveness(host_id),
    )


def proven_dead(claimant: LeaseOwner, holder: LeaseOwner, table: ProcessTable = _SYSTEM) -> bool:
    """Whether the holder can be shown to run no more, seen from the claimant's host."""
    if isinstance(claimant.liveness, LocalProcess) and claimant.liveness.boot_id != table.boot_id():
        # The claimant speaks from elsewhere; our process table says nothing about its host.
        return False
    return definitely_dead(claimant.liveness, holder.liveness, table.started)
