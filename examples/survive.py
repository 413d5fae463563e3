"""An agent is killed in the middle of its commits, again and again, and loses nothing.

    python3 tasks.py demo

The agent runs as a process of its own. It says `begin 7` before it commits turn 7, and `done 7`
once the commit has returned. Shortly after some `begin` it is sent SIGKILL. Then the store is
opened and looked at, and the agent is started again: first it repeats, under the same turn id,
the turn of which nobody was told whether it had been stored.
"""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import holdfast
from holdfast import (
    Append,
    CheckpointDraft,
    Guard,
    LeaseTimings,
    LocalProcess,
    Node,
    RuntimeCommit,
    Session,
    SessionBusy,
    TokenLedgerEntry,
    TokenUsage,
    TurnStamp,
)

CHAT = "chat-1"
KILLS = 6


# --- the agent -------------------------------------------------------------------------------


def agent(url: str, first: int, last: int) -> None:
    """Commit turn after turn under the session's lease."""
    me = holdfast.local_process("agent")
    # Where it can be proved that the lease's last holder was killed, nobody has to wait for the
    # lease to end. Elsewhere, as on macOS, somebody has to: there it is a short one.
    is_provable = isinstance(me.liveness, LocalProcess)
    timings = LeaseTimings() if is_provable else LeaseTimings.from_ttl(1_500)
    with holdfast.open(url) as store:
        while True:
            try:
                with store.session(CHAT).guard(me, timings) as guard:
                    return commit_turns(guard, first, last)
            except SessionBusy:
                time.sleep(0.05)


def commit_turns(guard: Guard, first: int, last: int) -> None:
    """Commit turn after turn, saying when each begins and when it is done."""
    for number in range(first, last + 1):
        print("begin", number, flush=True)
        result = guard.commit(turn(number))
        print("done", number, "again" if result.replayed else "new", flush=True)


def turn(number: int) -> RuntimeCommit:
    """All that one turn changes, to be settled together."""
    return RuntimeCommit(
        session_id=CHAT,
        turn_commit=TurnStamp(CHAT, f"turn-{number}"),
        expected_head_revision=number - 1,
        graph=Append(
            [
                message(f"question-{number}", "user", f"What is {number} times {number}?"),
                message(f"answer-{number}", "assistant", f"It is {number * number}."),
            ]
        ),
        checkpoint=CheckpointDraft(
            turn_state={"turns": number}, components={"notes": b"squared %d" % number}
        ),
        usage_deltas=[TokenLedgerEntry("chat", "some-model", TokenUsage(10, 5))],
    )


def message(node_id: str, role: str, text: str) -> Node:
    """A message of the conversation; it follows the one before it."""
    return Node(node_id=node_id, body={"role": role, "parts": [{"type": "text", "text": text}]})


# --- what is done to it ----------------------------------------------------------------------


def start(url: str, first: int, last: int) -> subprocess.Popen[str]:
    """Start the agent."""
    command = [sys.executable, __file__, url, str(first), str(last)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def kill_in_a_commit(url: str, first: int) -> list[list[str]]:
    """Start the agent and kill it while it commits some later turn; everything it said."""
    process = start(url, first, sys.maxsize)
    assert process.stdout is not None
    doomed = f"begin {first + random.randint(3, 12)}\n"
    said: list[str] = []
    while doomed not in said and (line := process.stdout.readline()):
        said.append(line)
    time.sleep(random.uniform(0, 0.002))
    process.kill()
    said += process.stdout
    process.wait()
    return [line.split() for line in said]


def let_finish(url: str, number: int) -> list[list[str]]:
    """Let the agent commit one turn and end by itself; everything it said."""
    said, _ = start(url, number, number).communicate()
    return [line.split() for line in said.splitlines()]


# --- what it left ----------------------------------------------------------------------------


def look(url: str) -> tuple[Session, list[str]]:
    """Open the store: what is there, and which parts are not what so many whole turns leave."""
    with holdfast.open(url) as store:
        chat = store.session(CHAT)
        stored = chat.load()
        assert stored is not None
        assert stored.checkpoint is not None
        turns = stored.head_revision
        stamps = [chat.load_turn_commit(f"turn-{number}") for number in range(1, turns + 2)]
    whole = {
        "messages": [f"{part}-{n + 1}" for n in range(turns) for part in ("question", "answer")],
        "turn state": {"turns": turns},
        "notes": {"notes": b"squared %d" % turns},
        "usage": [TokenUsage(10 * turns, 5 * turns)],
        "stamps": [True] * turns + [False],
    }
    found = {
        "messages": [node.node_id for node in stored.graph.nodes],
        "turn state": stored.checkpoint.turn_state,
        "notes": stored.checkpoint.components,
        "usage": [entry.usage for entry in stored.token_ledger],
        "stamps": [stamp is not None for stamp in stamps],
    }
    return stored, [f"{part}: {found[part]}" for part in whole if found[part] != whole[part]]


def survive(url: str) -> list[str]:
    """Kill the agent some times, then let it finish; everything that went wrong."""
    told, there = 0, False
    wrong: list[str] = []
    print("kill  acknowledged  under way  found on reopening            the same turn, repeated")
    for kill in range(1, KILLS + 2):
        killed = kill <= KILLS
        said = kill_in_a_commit(url, told + 1) if killed else let_finish(url, told + 1)
        done = [line for line in said if line[0] == "done"]
        if not done:
            return [*wrong, "the agent failed, see above"]
        if kill > 1:
            again = done[0][2] == "again"
            print("recognised, not applied twice" if again else "applied")
            wrong += [] if again == there else [f"turn {told + 1} was doubled or lost"]
        told = int(done[-1][1])
        stored, broken = look(url)
        wrong += broken
        there = stored.head_revision == told + 1
        if stored.head_revision != told and not (killed and there):
            wrong.append(f"{told} turns were acknowledged, {stored.head_revision} are there")
        if killed:
            under_way = f"turn {told + 1}" if said[-1][0] == "begin" else "none"
            fate = "wholly there" if there else "wholly absent"
            found = f"1-{told} whole, {told + 1} {fate}"
            print(f"{kill:4}  turns 1-{told:<5} {under_way:<10} {found:<30}", end="", flush=True)
    report(stored, told)
    return wrong


def report(stored: Session, told: int) -> None:
    """Show the conversation's end, as the store has it."""
    print("\nThe conversation ends with")
    for node in stored.graph.nodes[-2:]:
        body: Any = node.body
        print(f"  {body['role']:<10} {body['parts'][0]['text']}")
    usage = stored.token_ledger[0].usage
    print(f"after {told} turns, {len(stored.graph.nodes)} messages and {usage.total} tokens.\n")


def main() -> int:
    """Tell the story; the exit status says whether anything was lost, torn or doubled."""
    began = time.monotonic()
    print("An agent commits its turns to a SQLite file, and is killed in the middle of a commit.\n")
    with tempfile.TemporaryDirectory(prefix="holdfast-") as folder:
        wrong = survive(f"sqlite:///{Path(folder) / 'chat.db'}")
    for problem in wrong:
        print("WRONG", problem)
    verdict = "FAILED" if wrong else "OK: every acknowledged turn is there once, no turn is torn."
    print(f"{verdict} ({time.monotonic() - began:.1f} s)")
    return 1 if wrong else 0


if __name__ == "__main__":
    if len(sys.argv) > 1:
        agent(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
    else:
        sys.exit(main())
