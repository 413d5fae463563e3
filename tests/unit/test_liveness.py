import os
import subprocess
import sys

import pytest

from holdfast.errors import InvalidArgument
from holdfast.model.leases import LeaseOwner, LocalProcess, Opaque
from holdfast.owners import ProcessTable, local_process, proven_dead
from holdfast.rules.liveness import Unseen, definitely_dead

ME = LocalProcess("host", "boot", 1, "10")
OTHER = LocalProcess("host", "boot", 7, "100")
LINUX = sys.platform == "linux"


@pytest.mark.parametrize(
    ("claimant", "holder", "seen", "dead"),
    [
        (ME, OTHER, Unseen.ABSENT, True),
        (ME, OTHER, "101", True),
        (ME, OTHER, "100", False),
        (ME, OTHER, "0100", False),
        (ME, OTHER, Unseen.UNREADABLE, False),
        (ME, OTHER, "", False),
        (ME, OTHER, "x", False),
        (ME, LocalProcess("host", "boot", 7, "x"), "100", False),
        (ME, LocalProcess("host", "boot", 0, "100"), Unseen.ABSENT, False),
        (ME, LocalProcess("host", "boot", -7, "100"), Unseen.ABSENT, False),
        (ME, LocalProcess("elsewhere", "boot", 7, "100"), Unseen.ABSENT, False),
        (ME, LocalProcess("host", "earlier", 7, "100"), Unseen.ABSENT, False),
        (LocalProcess("", "boot", 1, "1"), LocalProcess("", "boot", 7, "1"), Unseen.ABSENT, False),
        (LocalProcess("host", "", 1, "1"), LocalProcess("host", "", 7, "1"), Unseen.ABSENT, False),
        (Opaque(), OTHER, Unseen.ABSENT, False),
        (ME, Opaque(), Unseen.ABSENT, False),
    ],
)
def test_only_a_proof_makes_a_holder_dead(claimant, holder, seen, dead):
    assert definitely_dead(claimant, holder, lambda pid: seen) is dead


def test_no_process_is_looked_at_without_need():
    def looked(pid):
        raise AssertionError(pid)

    assert not definitely_dead(ME, Opaque(), looked)
    assert not definitely_dead(ME, LocalProcess("elsewhere", "boot", 7, "100"), looked)


def stat_line(pid, start, name="python"):
    return f"{pid} ({name}) " + " ".join(["S", *("0" for _ in range(18)), start, "0", "0"])


class System:
    """A root directory with just enough in it."""

    def __init__(self, root):
        self.root = root
        self.pid = os.getpid()
        self.running = {self.pid}
        self.write("proc/sys/kernel/random/boot_id", "boot-1\n")
        self.write("etc/machine-id", "machine-1\n")
        self.write(f"proc/{self.pid}/stat", stat_line(self.pid, "555"))
        self.link("proc/self", str(self.pid))
        self.link(f"proc/{self.pid}/ns/pid", "pid:[42]")
        self.table = ProcessTable(root, self.running.__contains__)

    def write(self, path, text):
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)

    def link(self, path, target):
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).unlink(missing_ok=True)
        (self.root / path).symlink_to(target)

    def remove(self, path):
        (self.root / path).unlink()


@pytest.fixture
def system(tmp_path):
    return System(tmp_path)


def test_this_process_is_described(system):
    owner = local_process("worker", "start-1", table=system.table)
    here = LocalProcess("machine-1/pid:[42]", "boot-1", system.pid, "555")
    assert owner == LeaseOwner("worker", "start-1", here)


def test_each_start_is_an_incarnation_of_its_own(system):
    one, two = (local_process("worker", table=system.table) for _ in range(2))
    assert one.incarnation_id != two.incarnation_id
    with pytest.raises(InvalidArgument):
        local_process("", table=system.table)
    with pytest.raises(InvalidArgument):
        local_process("worker", "", table=system.table)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda system: system.remove("etc/machine-id"),
        lambda system: system.write("etc/machine-id", " \n"),
    ],
)
def test_without_a_machine_id_the_boot_names_the_host(system, spoil):
    spoil(system)
    me = local_process("worker", table=system.table)
    assert me.liveness == LocalProcess("boot-1/pid:[42]", "boot-1", system.pid, "555")

    gone = LeaseOwner("other", "i", LocalProcess("boot-1/pid:[42]", "boot-1", 9, "777"))
    neighbour = LeaseOwner("other", "i", LocalProcess("boot-1/pid:[43]", "boot-1", 9, "777"))
    assert proven_dead(me, gone, system.table)
    assert not proven_dead(me, neighbour, system.table)


def test_a_host_id_may_be_given(system):
    system.remove("etc/machine-id")
    assert local_process("w", host_id="h", table=system.table).liveness.host_id == "h"


@pytest.mark.parametrize(
    "spoil",
    [
        lambda system: system.remove("proc/sys/kernel/random/boot_id"),
        lambda system: system.write("proc/sys/kernel/random/boot_id", " \n"),
        lambda system: system.remove(f"proc/{system.pid}/stat"),
        lambda system: system.write(f"proc/{system.pid}/stat", "5 (x) S 1"),
        lambda system: system.remove(f"proc/{system.pid}/ns/pid"),
        lambda system: system.link("proc/self", "1"),
        lambda system: system.remove("proc/self"),
    ],
)
def test_whatever_is_unavailable_makes_the_owner_opaque(system, spoil):
    spoil(system)
    assert local_process("worker", table=system.table).liveness == Opaque()


def test_a_name_may_look_like_fields(system):
    system.write("proc/9/stat", stat_line(9, "777", name="a) b (c) 1 2"))
    assert system.table.started(9) == "777"


def test_a_process_table_that_hides_a_process_proves_nothing(system):
    assert system.table.started(9) is Unseen.ABSENT
    system.running.add(9)
    assert system.table.started(9) is Unseen.UNREADABLE
    system.running.discard(9)
    system.link("proc/self", "1")
    assert system.table.started(9) is Unseen.UNREADABLE


@pytest.mark.parametrize("line", ["", "9 (x) S", "9 no parentheses", stat_line(9, "soon")])
def test_an_unparsable_status_line_proves_nothing(system, line):
    system.write("proc/9/stat", line)
    assert system.table.started(9) is Unseen.UNREADABLE


def test_an_unreadable_status_line_proves_nothing(system):
    (system.root / "proc/9/stat").mkdir(parents=True)
    assert system.table.started(9) is Unseen.UNREADABLE


def test_death_is_proved_from_the_claimants_own_boot_only(system):
    me = local_process("worker", table=system.table)
    gone = LeaseOwner("other", "i", LocalProcess("machine-1/pid:[42]", "boot-1", 9, "777"))
    assert proven_dead(me, gone, system.table)
    system.write("proc/sys/kernel/random/boot_id", "boot-2")
    assert not proven_dead(me, gone, system.table)
    assert not proven_dead(LeaseOwner("worker", "i"), gone, system.table)


@pytest.mark.skipif(not LINUX, reason="death can be proved on Linux only")
def test_a_real_process_lives_and_dies():
    me, table = local_process("me"), ProcessTable()
    if isinstance(me.liveness, Opaque):
        pytest.skip("this system does not tell who we are")
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    start = table.started(child.pid)
    holder = LeaseOwner(
        "child", "i", LocalProcess(me.liveness.host_id, me.liveness.boot_id, child.pid, start)
    )
    try:
        assert not proven_dead(me, holder)
        assert not proven_dead(me, me)
    finally:
        child.communicate(b"\n")
    assert proven_dead(me, holder)
