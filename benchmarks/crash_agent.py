"""The process that is killed: it commits to several sessions at once until it is.

It tells of every turn after its commit returned, in lines short enough to be written whole:
`ready SESSION`, `done SESSION TURN new|again`, `failed SESSION WHY`.
"""

from __future__ import annotations

import itertools
import os
import threading
import time
from multiprocessing.connection import Connection
from typing import Any

import msgspec

import holdfast
from benchmarks.crash_script import LEASED, SESSIONS, turn
from holdfast import (
    Acquired,
    Busy,
    ClaimOutcome,
    HeadRevisionConflict,
    Lease,
    LeaseHolder,
    LeaseOwner,
    LocalProcess,
    RuntimeCommit,
)

#: How long a lease lasts, by whether the death of a process can be proved: if it cannot, the
#: lease of whoever was killed has to end before anybody else commits under one.
TTL_MS = {True: 30_000, False: 1_500}


class Agent:
    """One session's part."""

    def __init__(self, store: holdfast.Store, number: int, me: LeaseOwner, pipe: int) -> None:
        self.session_id = SESSIONS[number]
        self.view = store.session(self.session_id)
        self.owner = me if number < LEASED else None
        self.ttl_ms = TTL_MS[isinstance(me.liveness, LocalProcess)]
        self.lease: Lease | None = None
        self.pipe = pipe

    def run(self, first: int) -> None:
        """Commit turn after turn, beginning with the first not known to be stored."""
        try:
            self.claim()
            self.say("ready")
            for number in itertools.count(first):
                self.say("done", number, "again" if self.repeats(number) else "new")
        except BaseException as error:
            self.say("failed", repr(error)[:200])
            raise

    def repeats(self, number: int) -> bool:
        """Commit a turn; whether it turned out to be there already."""
        commit = turn(self.session_id, number)
        try:
            replayed = self.commit(commit)
        except HeadRevisionConflict as conflict:
            # A turn without a stamp and without messages can be told by its revision only.
            if conflict.actual != number:
                raise
            return True
        if commit.release_session_execution_lease:
            self.claim()
        return replayed

    def commit(self, commit: RuntimeCommit) -> bool:
        """Commit under the lease, or without one; whether it was replayed."""
        if self.lease is None:
            return self.view.commit_with_fresh_lease(commit).replayed
        fenced = msgspec.structs.replace(commit, session_execution_lease=self.lease)
        return self.view.commit(fenced).replayed

    def claim(self) -> None:
        """Take the lease; from whoever was killed with it, if need be."""
        if self.owner is None:
            return
        outcome = self.view.claim_lease(self.owner, self.ttl_ms)
        if isinstance(outcome, Busy):
            outcome = self.take_over(outcome.holder, self.owner)
            self.say("reclaimed")
        if not isinstance(outcome, Acquired):
            raise RuntimeError(f"not claimable: {outcome.holder}")
        self.lease = outcome.lease

    def take_over(self, dead: LeaseHolder, me: LeaseOwner) -> ClaimOutcome:
        """Take the lease at once if the holder's death can be proved, else when it ends."""
        if isinstance(me.liveness, LocalProcess):
            return self.view.reclaim_lease(dead, me, self.ttl_ms)
        while isinstance(outcome := self.view.claim_lease(me, self.ttl_ms), Busy):
            time.sleep(0.01)
        return outcome

    def say(self, *words: Any) -> None:
        """Tell the one who watches."""
        kind, *rest = words
        os.write(self.pipe, (" ".join(map(str, [kind, self.session_id, *rest])) + "\n").encode())


def main(url: str, schema: str, first: list[int], pipe: Connection) -> None:
    """Commit to every session on a thread of its own, until killed."""
    me = holdfast.local_process("agent")
    with holdfast.open(url, schema=schema) as store:
        agents = [Agent(store, number, me, pipe.fileno()) for number in range(len(SESSIONS))]
        threads = [
            threading.Thread(target=agent.run, args=(number,))
            for agent, number in zip(agents, first, strict=True)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
