"""Group commit on a SQLite file at full sync, against one transaction for each operation.

Two small durable operations are measured: the smallest there is, renewing a lease, and a light
commit of one message, which locks, reads, judges and writes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import Any, NamedTuple
from unittest.mock import patch

import holdfast
from benchmarks import samples
from benchmarks.databases import Bench, Database
from benchmarks.floors import SqliteFloor, slower_sync
from benchmarks.measure import Contestant, Outcome, interleaved, tasks, threads
from benchmarks.table import Goal, Line, print_lines
from holdfast import LeaseOwner

CALLERS = (1, 8, 64)
THREADS, TASKS = "holdfast, threads", "holdfast, tasks"
THREADS_EACH, TASKS_EACH = "groups of one, threads", "groups of one, tasks"
RELAXED = "holdfast, tasks, relaxed sync"
FLOOR, HOP = "a driver loop", "a thread hop each"

OWNER = LeaseOwner("bench", "bench-1")


class Small(NamedTuple):
    """A small durable operation: how holdfast's callers and hand-written code do it."""

    name: str
    #: From a store, of either colour, and the session ids to what the n-th caller does.
    calls: Callable[[Any, list[str]], Callable[[int], Any]]
    floor: Callable[[SqliteFloor, str], None]


def _renewals(store: Any, names: list[str]) -> Callable[[int], Any]:
    blocking: holdfast.Store = getattr(store, "blocking", store)
    held: list[Any] = [blocking.sessions.claim_lease(name, OWNER) for name in names]
    views = [store.session(name) for name in names]

    def renew(number: int) -> Any:
        # Later each time: a page that does not change is not written, and nothing is flushed.
        return views[number].renew_lease(held[number].lease, 30_000 + next(samples.numbers))

    return renew


def _appends(store: Any, names: list[str]) -> Callable[[int], Any]:
    views = [store.session(name) for name in names]
    return lambda number: views[number].commit_with_fresh_lease(samples.small(names[number]))


OPERATIONS = (
    Small("renew a lease", _renewals, SqliteFloor.renew),
    Small("light commit", _appends, SqliteFloor.append),
)


def run(*, quick: bool) -> None:
    """Measure and print."""
    rounds, seconds = (3, 0.1) if quick else (15, 0.15)
    for small in OPERATIONS:
        lines: list[Line] = []
        for callers in CALLERS:
            lines += _lines(callers, _measure(small, callers, rounds, seconds))
        with slower_sync(0.001):
            took = _measure(small, 64, rounds, seconds, only=(TASKS, FLOOR))
        lines.append(_rate(took, "S2", "64 callers, sync 1 ms slower", TASKS, FLOOR, 15))
        print_lines(f"Group commit, SQLite file, full sync: rates of '{small.name}'", lines)


def _measure(
    small: Small, callers: int, rounds: int, seconds: float, only: tuple[str, ...] = ()
) -> Outcome:
    with Bench() as bench:
        found = _contestants(bench, small, samples.names(callers))
        chosen = {name: found[name] for name in only or found}
        return interleaved(f"{small.name}, {callers} callers", chosen, rounds, seconds)


def _contestants(bench: Bench, small: Small, names: list[str]) -> dict[str, Contestant]:
    callers = len(names)
    store, relaxed = _begun(bench, names), _begun(bench, names, sync="relaxed")
    floor = SqliteFloor(_begin(bench.database("sqlite"), names))
    bench.callback(floor.close)
    blocking: Callable[[int], object] = small.calls(store, names)
    waiting: Callable[[int], Awaitable[object]] = small.calls(store.aio, names)
    return {
        THREADS: threads(callers, blocking),
        TASKS: tasks(callers, waiting),
        THREADS_EACH: _ungrouped(threads(callers, blocking)),
        TASKS_EACH: _ungrouped(tasks(callers, waiting)),
        RELAXED: tasks(callers, small.calls(relaxed.aio, names)),
        FLOOR: threads(1, lambda _: small.floor(floor, names[0])),
        HOP: tasks(callers, lambda number: floor.on_thread(small.floor, names[number])),
    }


def _begun(bench: Bench, names: list[str], **settings: Any) -> holdfast.Store:
    return bench.open(_begin(bench.database("sqlite"), names), **settings)


def _begin(place: Database, names: list[str]) -> Database:
    """Make the sessions, with a first message in each."""
    with holdfast.open(place.url) as store:
        for name in names:
            store.sessions.commit_with_fresh_lease(samples.small(name))
    return place


def _ungrouped(contestant: Contestant) -> Contestant:
    def run(seconds: float) -> float:
        with patch("holdfast.sqlite.group.GROUP_SIZE", 1):
            return contestant(seconds)

    return run


def _lines(callers: int, took: Outcome) -> Iterator[Line]:
    who = f"{callers:2} callers"
    wanted = {"S1": 0.6} if callers == 1 else {"S2": 3.5, "hop": 5, "S3": 0.9}
    if callers not in (1, 64):
        wanted = {}
    yield _rate(took, "S2", who, THREADS, THREADS_EACH)
    yield _rate(took, "S2", who, TASKS, TASKS_EACH)
    yield _rate(took, "S1", who, THREADS, FLOOR, wanted.get("S1"))
    yield _rate(took, "S2", who, TASKS, FLOOR, wanted.get("S2"))
    yield _rate(took, "S2", who, TASKS, HOP, wanted.get("hop"))
    yield _rate(took, "S3", who, TASKS, RELAXED, wanted.get("S3"))


def _rate(
    took: Outcome, goal: Goal, who: str, mine: str, other: str, wanted: float | None = None
) -> Line:
    detail = f"{took.median_us(mine):.0f} us, {took.median_us(other):.0f} us"
    what = f"{who}: {mine} / {other}"
    return Line(goal, what, took.times(other, mine), at_least=wanted, detail=detail)
