"""Kill a committing process at random moments, reopen, and count what survived.

    python3 tasks.py crash [--kills 200] [--store sqlite|postgres|both] [--seed N]

Each round starts a process that commits turns of many shapes to several sessions, kills it with
SIGKILL, opens the store and compares every session with what its turns have to leave. The next
process repeats the turn that was not acknowledged. The exit status says whether anything was
lost, torn or doubled, and whether enough was seen to say so.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from multiprocessing.connection import Connection

import holdfast
from benchmarks import crash_agent
from benchmarks.crash_script import SESSIONS, Expected, is_stamped, turn
from benchmarks.databases import KINDS, database
from holdfast import Session, SessionView, TokenUsage
from holdfast.face import Blocking

#: With so many kills chance alone leaves no gaps in what was seen.
MANY_KILLS = 50
#: How long a process may commit behind its first turn before it is killed, how long that turn is
#: waited for, and how often a process is killed while it starts.
LONGEST_S = 0.12
PATIENCE_S = 30.0
EARLY_SHARE = 0.1

_fork = multiprocessing.get_context("forkserver")
_APPLICATION = "holdfast-crash"
TURNS = "turns acknowledged"
KILLS = "kills while committing"
EARLY_KILLS = "kills while starting, beside these"
UNDER_WAY = "turns under way at a kill"
WHOLE, ABSENT = "  of these found whole", "  of these found absent"


class Victim:
    """One session as its watcher knows it: the turns it was told of, and what they must leave."""

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        self.expected = Expected()
        #: Whether the turn after the last one told was found stored after the last kill.
        self.ahead = False
        #: What is still to be told by this round's process: that it is ready, its first turn.
        self.silent = True
        self.ready = False

    @property
    def told(self) -> int:
        """The last turn that was acknowledged."""
        return self.expected.turns

    def next_round(self) -> None:
        """Forget the last process."""
        self.silent, self.ready = True, False

    def hear(self, number: int, *, again: bool) -> str | None:
        """Take note of an acknowledged turn; what is wrong with that, if anything."""
        known = self.silent and self.ahead
        self.silent = False
        if number != self.told + 1:
            return f"turn {number} was told after turn {self.told}"
        self.expected = self.expected.after(turn(self.session_id, number))
        if again != known:
            return f"turn {number} was {'recognised' if again else 'applied'}, but {known=}"
        return None

    def unheard(self) -> Expected:
        """What the turn after the last one told has to leave."""
        return self.expected.after(turn(self.session_id, self.told + 1))


class Watch:
    """Kills, looks, and counts."""

    def __init__(self, url: str, schema: str, dice: random.Random) -> None:
        self.url = url
        self.schema = schema
        self.dice = dice
        self.victims = {session_id: Victim(session_id) for session_id in SESSIONS}
        self.counts: Counter[str] = Counter()
        self.problems: list[str] = []

    # --- killing -------------------------------------------------------------------------

    def round(self) -> None:
        """Start a process, kill it, take note of what it told, and look."""
        for victim in self.victims.values():
            victim.next_round()
        told = self.kill().decode().splitlines()
        self.counts["rounds"] += 1
        for line in told:
            self.hear(*line.split(maxsplit=2))
        committing = any(victim.ready for victim in self.victims.values())
        self.counts[KILLS if committing else EARLY_KILLS] += 1
        if self.url.startswith("postgres"):
            _await_silence(self.url)
        self.look()
        for victim in self.victims.values():
            self.counts[UNDER_WAY] += victim.ready
            self.counts[WHOLE if victim.ahead else ABSENT] += victim.ready

    def kill(self) -> bytes:
        """Let a process live for a random time; all it told."""
        reader, writer = _fork.Pipe(duplex=False)
        first = [victim.told + 1 for victim in self.victims.values()]
        agent = _fork.Process(
            target=crash_agent.main, args=(self.url, self.schema, first, writer), daemon=True
        )
        agent.start()
        writer.close()
        told = b"" if self.dice.random() < EARLY_SHARE else _first_turn(reader)
        time.sleep(self.dice.uniform(0, LONGEST_S))
        agent.kill()
        told += _drain(reader)
        agent.join()
        return told

    def hear(self, kind: str, session_id: str, rest: str = "") -> None:
        """Take note of one line that a process told before it died."""
        victim = self.victims[session_id]
        if kind == "done":
            number, how = rest.split()
            wrong = victim.hear(int(number), again=how == "again")
            self.counts[TURNS] += 1
            self.counts["  of these repeated and recognised"] += how == "again"
            if wrong:
                self.wrong("doubled", session_id, wrong)
        elif kind == "ready":
            victim.ready = True
        elif kind == "reclaimed":
            self.counts["leases taken over from the dead"] += 1
        else:
            self.wrong("failed", session_id, rest)

    def wrong(self, kind: str, session_id: str, what: str) -> None:
        """Take note of something that must not be."""
        self.counts[kind] += 1
        self.problems.append(f"round {self.counts['rounds']}: {session_id}: {kind}: {what}")

    def unseen(self, kills: int) -> Iterator[str]:
        """What so many kills should have shown and did not: they prove nothing without it."""
        for name in (KILLS, TURNS):
            if self.counts[name] < kills:
                yield f"{name}: only {self.counts[name]}"
        if kills < MANY_KILLS:
            return
        for name in (WHOLE, ABSENT):
            if not self.counts[name]:
                yield f"{UNDER_WAY}, {name.strip()}: none"
        for victim in self.victims.values():
            if not victim.told:
                yield f"{TURNS}: none of {victim.session_id}"

    # --- looking -------------------------------------------------------------------------

    def look(self, stamps: int = 20) -> None:
        """Open the store and compare each session with what its turns leave."""
        with holdfast.open(self.url, schema=self.schema) as store:
            for victim in self.victims.values():
                try:
                    self.compare(store.session(victim.session_id), victim, stamps)
                except holdfast.Fault as fault:
                    self.wrong("torn", victim.session_id, str(fault))

    def compare(self, view: SessionView[Blocking], victim: Victim, stamps: int) -> None:
        """Whether a session is as its acknowledged turns, or these and one more, leave it."""
        stored = view.load()
        turns = stored.head_revision if stored else 0
        victim.ahead = turns > victim.told
        if turns < victim.told:
            self.wrong("lost", victim.session_id, f"{victim.told} turns told, {turns} stored")
        elif turns > victim.told + 1:
            self.wrong("doubled", victim.session_id, f"{victim.told} turns told, {turns} stored")
        elif stored:
            expected = victim.unheard() if victim.ahead else victim.expected
            for part in differences(view, stored, expected, stamps):
                self.wrong("torn", victim.session_id, f"turn {turns}: {part}")


def differences(
    view: SessionView[Blocking], stored: Session, expected: Expected, stamps: int
) -> Iterator[str]:
    """The parts of a session that are not as expected; looks at the newest stamps only."""
    listing = view.picker_info()
    checkpoint = stored.checkpoint
    usage = [entry.usage for entry in stored.token_ledger]
    pairs = {
        "messages": ([(node.node_id, node.body) for node in stored.graph.nodes], expected.nodes),
        "message count": (listing and listing.node_count, len(expected.nodes)),
        "config": (stored.config, expected.config),
        "tag": (stored.head_tag, expected.tag),
        "turn state": (checkpoint and checkpoint.turn_state, expected.turn_state),
        "components": (checkpoint.components if checkpoint else {}, expected.components),
        "usage": (usage[0] if usage else TokenUsage(), expected.usage),
    }
    for number in range(max(1, expected.turns - stamps), expected.turns + 2):
        stamped = view.load_turn_commit(f"turn-{number}") is not None
        pairs[f"stamp {number}"] = (stamped, is_stamped(number) and number <= expected.turns)
    for part, (found, wanted) in pairs.items():
        if found != (list(wanted) if isinstance(wanted, tuple) else wanted):
            yield f"{part}: {found!r:.100}, not {wanted!r:.100}"


def _first_turn(reader: Connection) -> bytes:
    """What a process tells until its first turn is acknowledged, or it has failed."""
    told, deadline = b"", time.monotonic() + PATIENCE_S
    while not (b"done" in told or b"failed" in told):
        if not reader.poll(max(0.0, deadline - time.monotonic())):
            break
        part = os.read(reader.fileno(), 1 << 16)
        if not part:
            break
        told += part
    return told


def _drain(reader: Connection) -> bytes:
    """Everything in a pipe whose writer is dead."""
    told = b""
    with reader:
        while part := os.read(reader.fileno(), 1 << 16):
            told += part
    return told


def _named(url: str) -> str:
    """The URL of a server, with a name by which it knows the process that is killed."""
    return f"{url}{'&' if '?' in url else '?'}application_name={_APPLICATION}"


def _await_silence(url: str) -> None:
    """Wait until the server has noticed that its client is dead."""
    import psycopg

    alive = "SELECT 1 FROM pg_stat_activity WHERE application_name = %s"
    with psycopg.connect(url, application_name="watch", autocommit=True) as connection:
        while connection.execute(alive, [_APPLICATION]).fetchone():
            time.sleep(0.001)


# --- the command -----------------------------------------------------------------------------


def torment(kind: str, kills: int, dice: random.Random) -> Watch:
    """Kill so many committing processes on one kind of database."""
    began = time.monotonic()
    with database(kind) as place:
        watch = Watch(_named(place.url) if kind == "postgres" else place.url, place.schema, dice)
        # A process that never comes to commit has told why; nobody waits for it forever.
        for done in range(1, 4 * kills + 1):
            watch.round()
            if done % 20 == 0:
                _tell(
                    f"{kind}: {watch.counts[KILLS]} of {kills} kills, {watch.counts[TURNS]} turns, "
                    f"{len(watch.problems)} problems, {time.monotonic() - began:.0f} s"
                )
            if watch.counts[KILLS] == kills:
                break
        watch.look(stamps=sys.maxsize)
        watch.problems += watch.unseen(kills)
    return watch


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


COUNTED = (
    KILLS,
    EARLY_KILLS,
    TURNS,
    "  of these repeated and recognised",
    UNDER_WAY,
    WHOLE,
    ABSENT,
    "leases taken over from the dead",
    "lost",
    "torn",
    "doubled",
    "failed",
)


def report(watches: dict[str, Watch]) -> bool:
    """Print the counts; whether all is well."""
    print(f"{'':36}" + "".join(f"{kind:>12}" for kind in watches))
    for name in COUNTED:
        print(f"{name:36}" + "".join(f"{watch.counts[name]:12}" for watch in watches.values()))
    problems = [f"{kind}: {each}" for kind, watch in watches.items() for each in watch.problems]
    for problem in problems[:50]:
        print(problem)
    print("FAILED" if problems else "OK: every acknowledged turn is there, once and whole")
    return not problems


def main() -> int:
    """Read the command line and do it."""
    parser = argparse.ArgumentParser(prog="tasks.py crash", description=__doc__)
    parser.add_argument("--kills", type=int, default=200, help="for each database")
    parser.add_argument("--store", choices=[*KINDS, "both"], default="both")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    given = parser.parse_args()
    print(f"kill -9 at random moments of a commit loop; --seed {given.seed}", flush=True)
    kinds = KINDS if given.store == "both" else (given.store,)
    _fork.set_forkserver_preload(["benchmarks.crash_agent"])
    dice = random.Random(given.seed)
    return 0 if report({kind: torment(kind, given.kills, dice) for kind in kinds}) else 1


if __name__ == "__main__":
    sys.exit(main())
