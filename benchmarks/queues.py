"""Queued work against a hand-written statement on the same driver and the same table.

What is compared does more: it fences by the lease, keeps the queue's order and its joins, knows
source keys, and says since when a session has something to do.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import holdfast
from benchmarks.databases import KINDS, Bench
from benchmarks.measure import Contestant, Outcome, alone, interleaved, timed
from benchmarks.queue_floors import FLOORS, Floor
from benchmarks.table import Goal, Line, print_lines
from holdfast import (
    ANY,
    Acquired,
    LeaseOwner,
    QueuedWorkBatchDraft,
    QueuedWorkClaim,
    RuntimeCommit,
)

OWNER = LeaseOwner("bench", "bench-1")
ITEM: Any = {"type": "item", "item": 100_000}
BULK = 100
#: Between two looks of one who polls, by hand or not.
PAUSE_S = 0.000_5

_keys = itertools.count()


def run(*, quick: bool) -> None:
    """Measure and print."""
    rounds, seconds = (3, 0.1) if quick else (15, 0.15)
    lines = [line for kind in KINDS for line in _lines(kind, rounds, seconds)]
    print_lines("Queued work, against one statement by hand", lines)
    depths = (100, 5_000) if quick else (200, 50_000)
    deep = [line for kind in KINDS for line in _depths(kind, depths, rounds, seconds)]
    print_lines("Queued work, by the number of batches that wait in the session", deep)


class Caller:
    """One holder of one session, and what it does again and again."""

    def __init__(self, store: holdfast.Store) -> None:
        self._queue = store.session("s").queue
        self._queue_many = store.queue.enqueue_many
        self._sessions = store.sessions
        outcome = store.sessions.claim_lease("s", OWNER, 3_600_000)
        assert isinstance(outcome, Acquired)
        self._lease = outcome.lease
        self._claim: QueuedWorkClaim | None = None

    def enqueue(self) -> None:
        """A batch without a source key."""
        self._queue.enqueue(_draft(None))

    def enqueue_keyed(self) -> None:
        """A batch with a source key of its own."""
        self._queue.enqueue(_draft(f"key-{next(_keys)}"))

    def claim(self) -> bool:
        """Take the first batch, if there is one."""
        self._claim = self._queue.claim(self._lease, "idle", 1)
        return self._claim is not None

    def fill(self, count: int) -> None:
        """Let so many batches wait."""
        for start in range(0, count, 1_000):
            self._queue_many([_draft(None)] * min(1_000, count - start))

    def list(self) -> None:
        """Read the first hundred."""
        self._queue.list_pending()

    def take(self) -> None:
        """Claim and settle one."""
        self.claim()
        self.complete()

    def give(self) -> None:
        """Enqueue one, and claim the first."""
        self.enqueue()
        self.claim()

    def complete(self) -> None:
        """Settle what was taken, by a commit that does nothing else."""
        assert self._claim is not None
        self._sessions.commit(
            RuntimeCommit(
                session_id="s",
                expected_head_revision=ANY,
                session_execution_lease=self._lease,
                completed_queue_claims=[self._claim],
            )
        )


def _draft(source_key: str | None) -> QueuedWorkBatchDraft:
    return QueuedWorkBatchDraft(session_id="s", payloads=[ITEM], source_key=source_key)


def _lines(kind: str, rounds: int, seconds: float) -> Iterator[Line]:
    with Bench() as bench:
        mine = Caller(bench.store(kind))
        keyed = Caller(bench.store(kind))
        place = bench.database(kind)
        bench.open(place).open()
        floor = FLOORS[kind](place)
        bench.callback(floor.close)
        many = bench.store(kind)
        steps = {
            "enqueue": mine.enqueue,
            "enqueue, keyed": keyed.enqueue_keyed,
            "by hand: insert": floor.enqueue,
        }
        took = interleaved(
            f"enqueueing, {kind}",
            {name: alone(step) for name, step in steps.items()}
            | {f"enqueue_many of {BULK}": _bulk(many)},
            rounds,
            seconds,
        )
    yield _line(took, kind, "enqueue", "by hand: insert")
    yield _line(took, kind, "enqueue, keyed", "by hand: insert")
    yield _line(took, kind, f"enqueue_many of {BULK}", "by hand: insert", note=", an item")
    yield from _claims(kind, rounds, seconds)


def _claims(kind: str, rounds: int, seconds: float) -> Iterator[Line]:
    with Bench() as bench:
        mine = Caller(bench.store(kind))
        place = bench.database(kind)
        bench.open(place).open()
        floor, giving = FLOORS[kind](place), FLOORS[kind](place)
        bench.callback(floor.close)
        bench.callback(giving.close)
        took = interleaved(
            f"claiming, {kind}",
            {
                "claim": _claiming(mine),
                "by hand: update": _claiming(floor),
                "enqueue, then claimed": _both(mine),
                "by hand: insert, update": _both(floor),
                "enqueue, then claimed by another thread": _handed_over(mine, mine),
                "by hand: two connections": _handed_over(giving, floor),
            },
            rounds,
            seconds,
        )
    yield _line(took, kind, "claim", "by hand: update")
    yield _line(took, kind, "enqueue, then claimed", "by hand: insert, update")
    yield _line(took, kind, "enqueue, then claimed by another thread", "by hand: two connections")


def _depths(kind: str, depths: tuple[int, int], rounds: int, seconds: float) -> Iterator[Line]:
    with Bench() as bench:
        callers = {depth: Caller(bench.store(kind)) for depth in depths}
        contestants: dict[str, Contestant] = {}
        for depth, caller in callers.items():
            caller.fill(depth)
            contestants |= {
                f"enqueue, {depth} wait": timed(caller.enqueue, after=caller.take),
                f"claim, {depth} wait": _claiming(caller),
                f"complete, {depth} wait": timed(caller.complete, before=caller.give),
                f"list 100, {depth} wait": alone(caller.list),
            }
        took = interleaved(f"depth of the queue, {kind}", contestants, rounds, seconds)
    for step in ("enqueue", "claim", "complete", "list 100"):
        few, many = (f"{step}, {depth} wait" for depth in depths)
        yield _line(took, kind, many, few, at_most=1.5)


def _claiming(caller: Caller | Floor) -> Contestant:
    """Only the claim counts; what it needs before and leaves behind does not."""
    return timed(caller.claim, before=caller.enqueue, after=caller.complete)


def _both(caller: Caller | Floor) -> Contestant:
    def step() -> None:
        caller.enqueue()
        caller.claim()

    return timed(step, after=caller.complete)


def _handed_over(giver: Caller | Floor, taker: Caller | Floor) -> Contestant:
    """One thread enqueues while another polls: until the other one has it."""

    def run(seconds: float) -> float:
        count, spent = 0, 0.0
        with ThreadPoolExecutor(1) as other:
            while not count or spent < seconds:
                claimed = other.submit(_polled, taker)
                began = time.perf_counter()
                giver.enqueue()
                spent += claimed.result() - began
                taker.complete()
                count += 1
        return spent / count

    return run


def _polled(taker: Caller | Floor) -> float:
    """Ask until there is something; when it was."""
    while not taker.claim():
        time.sleep(PAUSE_S)
    return time.perf_counter()


def _bulk(store: holdfast.Store) -> Contestant:
    drafts = [_draft(None)] * BULK
    run: Callable[[float], float] = alone(lambda: store.queue.enqueue_many(drafts))
    return lambda seconds: run(seconds) / BULK


def _line(
    took: Outcome, kind: str, mine: str, other: str, note: str = "", at_most: float | None = None
) -> Line:
    detail = f"{took.median_us(mine):.0f} us, {took.median_us(other):.0f} us"
    what = f"{kind}: {mine} / {other}{note}"
    goal: Goal = "Q1" if at_most is None else "Q2"
    return Line(goal, what, took.times(mine, other), at_most=at_most, detail=detail)
