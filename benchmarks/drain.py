"""Lose nothing, double nothing: processes enqueue, workers are killed while they drain.

    python3 tasks.py drain [--items 20000] [--store sqlite|postgres|both] [--seed N]

Eight processes enqueue items over fifty sessions, some of them twice; four workers claim what is
ready and settle it through commits. Both are killed with SIGKILL at random moments and replaced;
the next one takes over. Some workers are only frozen, for longer than their lease lasts, and wake
up late. At the end every session is read, and every item has to be in it exactly once. The exit
status says whether it is.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import holdfast
from benchmarks import drain_crew
from benchmarks.databases import KINDS, Database, database

ENQUEUERS, WORKERS, SESSIONS = 8, 4, 50
#: How long it takes between two kills.
SHORTEST_S, LONGEST_S = 0.1, 0.6
FREEZE_SHARE = 0.15
FROZEN_S = 1.5 * drain_crew.LEASE_MS / 1000
#: How long nothing may be settled before the check gives up on the workers.
PATIENCE_S = 60.0

_fork = multiprocessing.get_context("forkserver")

FAILED = "processes that failed"


class Hand:
    """A process, and what it has told so far."""

    def __init__(self, target: Callable[..., None], *arguments: Any) -> None:
        self._reader, writer = _fork.Pipe(duplex=False)
        self.process = _fork.Process(target=target, args=(*arguments, writer), daemon=True)
        self.process.start()
        writer.close()
        os.set_blocking(self._reader.fileno(), False)
        self._rest = b""
        self._thaws: float | None = None

    def told(self) -> list[list[str]]:
        """The lines that came since the last look, as words."""
        with suppress(BlockingIOError):
            while part := os.read(self._reader.fileno(), 1 << 16):
                self._rest += part
        *lines, self._rest = self._rest.split(b"\n")
        return [line.decode().split() for line in lines]

    def freeze(self) -> None:
        """Stop it where it stands."""
        self._signal(signal.SIGSTOP)
        self._thaws = time.monotonic() + FROZEN_S

    def thaw(self) -> None:
        """Let it go on, once it was frozen for long enough."""
        if self._thaws is not None and time.monotonic() > self._thaws:
            self._signal(signal.SIGCONT)
            self._thaws = None

    def _signal(self, number: int) -> None:
        assert self.process.pid is not None
        with suppress(ProcessLookupError):
            os.kill(self.process.pid, number)

    @property
    def has_failed(self) -> bool:
        """Whether it ended by itself otherwise than well."""
        return bool(self.process.exitcode)

    def kill(self) -> None:
        """End it as the power would."""
        self.process.kill()
        self.process.join()

    def close(self) -> None:
        """Let go of its pipe."""
        self._reader.close()


class Enqueuer:
    """One producer's share of the items, and how far it is known to have come."""

    def __init__(self, drain: Drain, items: list[int]) -> None:
        self._drain = drain
        self._left = items
        self.hand = self._start()

    def _start(self) -> Hand:
        place, seed = self._drain.place, self._drain.dice.randrange(1 << 32)
        return Hand(drain_crew.enqueue, place.url, place.schema, self._left, SESSIONS, seed)

    @property
    def is_done(self) -> bool:
        """Whether all of its items were acknowledged."""
        return not self._left

    def listen(self) -> None:
        """Take note of what was acknowledged."""
        for _, count, known in self.hand.told():
            self._left = self._left[int(count) :]
            self._drain.counts["items acknowledged"] += int(count)
            self._drain.counts["enqueues recognised as known"] += int(known)

    def replace(self, reason: str) -> None:
        """End it; the next one begins with what nobody was told about."""
        self.hand.kill()
        self.listen()
        self.hand.close()
        self._drain.counts[reason] += 1
        self.hand = self._start()


class Drain:
    """One run on one database."""

    def __init__(
        self, place: Database, items: int, dice: random.Random, *, workers: int = WORKERS
    ) -> None:
        self.place = place
        self.items = items
        self.dice = dice
        self.counts: Counter[str] = Counter()
        shares = [list(range(number, items, ENQUEUERS)) for number in range(ENQUEUERS)]
        self.enqueuers = [Enqueuer(self, share) for share in shares if share]
        self.workers = [self._worker() for _ in range(workers)]

    def _worker(self) -> Hand:
        seed = self.dice.randrange(1 << 32)
        return Hand(drain_crew.work, self.place.url, self.place.schema, SESSIONS, seed)

    def run(self, tell: Callable[[str], None]) -> None:
        """Kill and replace until everything has been enqueued and settled."""
        news = time.monotonic()
        with holdfast.open(self.place.url, schema=self.place.schema) as store:
            while not self._is_done(store):
                time.sleep(self.dice.uniform(SHORTEST_S, LONGEST_S))
                before = self.counts["items told settled"]
                self._replace_failed()
                self._disturb()
                self._listen()
                if self.counts["items told settled"] > before:
                    news = time.monotonic()
                    tell(self._progress())
                elif time.monotonic() > news + PATIENCE_S:
                    break
        for hand in [*self.workers, *(each.hand for each in self.enqueuers)]:
            hand.kill()
        self._listen()

    def _is_done(self, store: holdfast.Store) -> bool:
        if not all(each.is_done for each in self.enqueuers):
            return False
        return not any(store.queue.list(name, limit=1) for name in _names())

    def _disturb(self) -> None:
        for worker in self.workers:
            worker.thaw()
        if self.dice.random() < FREEZE_SHARE:
            self.dice.choice(self.workers).freeze()
            self.counts["workers frozen past their lease"] += 1
        else:
            self._kill_one()

    def _kill_one(self) -> None:
        alive = [each for each in self.enqueuers if not each.is_done]
        if alive and self.dice.random() < 0.25:
            self.dice.choice(alive).replace("producers killed")
            return
        self._replace(self.dice.randrange(len(self.workers)), "workers killed")

    def _replace(self, victim: int, reason: str) -> None:
        self.workers[victim].kill()
        self._hear(self.workers[victim])
        self.workers[victim].close()
        self.counts[reason] += 1
        self.workers[victim] = self._worker()

    def _replace_failed(self) -> None:
        """What ends by itself was not told to: that is a failure, whatever the ledger says."""
        for each in self.enqueuers:
            if each.hand.has_failed:
                each.replace(FAILED)
        for victim, worker in enumerate(self.workers):
            if worker.has_failed:
                self._replace(victim, FAILED)

    def _listen(self) -> None:
        for each in self.enqueuers:
            each.listen()
        for worker in self.workers:
            self._hear(worker)

    def _hear(self, worker: Hand) -> None:
        for kind, *rest in worker.told():
            if kind == "settled":
                self.counts["items told settled"] += int(rest[0])
            elif kind == "reclaimed":
                self.counts["leases taken over from the dead"] += 1
            else:
                self.counts["commits refused to the late"] += 1

    def _progress(self) -> str:
        counts = self.counts
        kills = counts["workers killed"] + counts["producers killed"]
        return (
            f"{counts['items acknowledged']} of {self.items} enqueued, "
            f"{counts['items told settled']} settled, {kills} kills"
        )

    # --- the ledger ----------------------------------------------------------------------

    def audit(self) -> None:
        """Read every session, and compare what was settled with what there was to settle."""
        settled: Counter[int] = Counter()
        with holdfast.open(self.place.url, schema=self.place.schema) as store:
            for name in _names():
                self._audit_session(store, name, settled)
            drafts = [drain_crew.draft(item, SESSIONS) for item in range(self.items)]
            for start in range(0, self.items, 1_000):
                outcomes = store.queue.enqueue_many(drafts[start : start + 1_000])
                self.counts["receipts"] += sum(each.settled for each in outcomes)
        counts = self.counts
        counts["items"] = self.items
        counts["items settled exactly once"] = sum(times == 1 for times in settled.values())
        counts["lost"] = self.items - len(settled)
        counts["doubled"] = sum(times > 1 for times in settled.values())

    def _audit_session(self, store: holdfast.Store, name: str, settled: Counter[int]) -> None:
        loaded = store.sessions.load(name)
        nodes: list[Any] = loaded.graph.nodes if loaded else []
        settled.update(node.body["item"] for node in nodes)
        billed = sum(entry.usage.input_tokens for entry in loaded.token_ledger) if loaded else 0
        self.counts["miscounted"] += billed != len(nodes)
        self.counts["left in the queue"] += len(store.queue.list(name))

    @property
    def is_well(self) -> bool:
        """Whether every item was settled exactly once, and says so wherever it can be asked."""
        counts = self.counts
        wrong = ("lost", "doubled", "left in the queue", "miscounted", FAILED)
        once = counts["items settled exactly once"] == counts["receipts"] == self.items
        return once and not any(counts[name] for name in wrong)


def _names() -> list[str]:
    return [f"session-{number}" for number in range(SESSIONS)]


# --- the command -----------------------------------------------------------------------------

COUNTED = (
    "items",
    "items acknowledged",
    "enqueues recognised as known",
    "workers killed",
    "producers killed",
    "workers frozen past their lease",
    "leases taken over from the dead",
    "commits refused to the late",
    "items told settled",
    "items settled exactly once",
    "receipts",
    "left in the queue",
    "miscounted",
    FAILED,
    "lost",
    "doubled",
)


def drain(kind: str, items: int, dice: random.Random) -> Drain:
    """Enqueue and drain so many items on one kind of database."""
    began = last = time.monotonic()

    def tell(line: str) -> None:
        nonlocal last
        if time.monotonic() > last + 2:
            last = time.monotonic()
            print(f"{kind}: {line}, {last - began:.0f} s", file=sys.stderr, flush=True)

    with database(kind) as place:
        run = Drain(place, items, dice)
        run.run(tell)
        run.audit()
    return run


def report(runs: dict[str, Drain]) -> bool:
    """Print the ledger; whether all is well."""
    print(f"{'':34}" + "".join(f"{kind:>12}" for kind in runs))
    for name in COUNTED:
        print(f"{name:34}" + "".join(f"{run.counts[name]:12}" for run in runs.values()))
    well = all(run.is_well for run in runs.values())
    print("OK: every item was settled exactly once" if well else "FAILED")
    return well


def main() -> int:
    """Read the command line and do it."""
    parser = argparse.ArgumentParser(prog="tasks.py drain", description=__doc__)
    parser.add_argument("--items", type=int, default=20_000, help="for each database")
    parser.add_argument("--store", choices=[*KINDS, "both"], default="both")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    given = parser.parse_args()
    print(
        f"{given.items} items, {SESSIONS} sessions, {ENQUEUERS} producers, {WORKERS} workers; "
        f"kill -9 at random; --seed {given.seed}",
        flush=True,
    )
    kinds = KINDS if given.store == "both" else (given.store,)
    _fork.set_forkserver_preload(["benchmarks.drain_crew"])
    dice = random.Random(given.seed)
    return 0 if report({kind: drain(kind, given.items, dice) for kind in kinds}) else 1


if __name__ == "__main__":
    sys.exit(main())
