"""Group commit on a SQLite file at full sync, against one transaction for each operation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import holdfast
from benchmarks import samples
from benchmarks.databases import Bench, Database
from benchmarks.floors import SqliteFloor, slower_sync
from benchmarks.measure import Contestant, Outcome, interleaved, tasks, threads
from benchmarks.table import Line, print_lines

CALLERS = (1, 8, 64)
FLOOR, HOP = "floor", "a thread hop each"
GROUPED, GROUPED_TASKS = "holdfast, threads", "holdfast, tasks"
ONE_EACH, ONE_EACH_TASKS = "groups of one, threads", "groups of one, tasks"
RELAXED = "holdfast, tasks, relaxed sync"


def run(*, quick: bool) -> None:
    """Measure and print."""
    rounds, seconds = (3, 0.15) if quick else (7, 0.5)
    lines: list[Line] = []
    for callers in CALLERS[:: 2 if quick else 1]:
        lines += _lines(callers, _measure(callers, rounds, seconds))
    with slower_sync(0.001):
        lines += _lines_when_slower(_measure(64, rounds, seconds, only=(GROUPED_TASKS, FLOOR)))
    print_lines("Group commit, SQLite file, full sync: rates of a small durable commit", lines)


def _measure(
    callers: int, rounds: int, seconds: float, only: tuple[str, ...] | None = None
) -> Outcome:
    with Bench() as bench:
        found = _contestants(bench, callers)
        chosen = {name: found[name] for name in only or found}
        return interleaved(f"{callers} callers", chosen, rounds, seconds)


def _contestants(bench: Bench, callers: int) -> dict[str, Contestant]:
    names = samples.names(callers)
    store, relaxed = _store(bench, names), _store(bench, names, sync="relaxed")
    hand_written = bench.database("sqlite")
    _begin(bench, hand_written, names)
    floor = SqliteFloor(hand_written)
    bench.callback(floor.close)
    return {
        GROUPED: threads(callers, _commit(store, names)),
        GROUPED_TASKS: tasks(callers, _commit(store.aio, names)),
        ONE_EACH: _ungrouped(threads(callers, _commit(store, names))),
        ONE_EACH_TASKS: _ungrouped(tasks(callers, _commit(store.aio, names))),
        RELAXED: tasks(callers, _commit(relaxed.aio, names)),
        FLOOR: threads(1, lambda _: floor.append(names[0])),
        HOP: tasks(callers, lambda number: floor.append_on_thread(names[number])),
    }


def _store(bench: Bench, names: list[str], **settings: Any) -> holdfast.Store:
    place = bench.database("sqlite")
    _begin(bench, place, names)
    return bench.open(place, **settings)


def _begin(bench: Bench, place: Database, names: list[str]) -> None:
    """Make the sessions, with a first message in each."""
    with holdfast.open(place.url) as store:
        for name in names:
            store.sessions.commit_with_fresh_lease(samples.small(name))


def _commit(store: Any, names: list[str]) -> Any:
    views = [store.session(name) for name in names]
    return lambda number: views[number].commit_with_fresh_lease(samples.small(names[number]))


def _ungrouped(contestant: Contestant) -> Contestant:
    def run(seconds: float) -> float:
        with patch("holdfast.sqlite.group.GROUP_SIZE", 1):
            return contestant(seconds)

    return run


def _lines(callers: int, took: Outcome) -> Iterator[Line]:
    """Rates: the other one's time over ours."""

    def line(goal: str, mine: str, other: str, wanted: float | None = None) -> Line:
        detail = f"{took.median_us(mine):.0f} us, {took.median_us(other):.0f} us"
        what = f"{callers:2} callers: {mine} / {other}"
        return Line(goal, what, took.times(other, mine), at_least=wanted, detail=detail)

    yield line("", GROUPED, ONE_EACH)
    yield line("", GROUPED_TASKS, ONE_EACH_TASKS)
    if callers == 1:
        yield line("S1", GROUPED, FLOOR, 0.6)
    most = callers == 64
    yield line("S2" if most else "", GROUPED_TASKS, FLOOR, 3.5 if most else None)
    yield line("S2" if most else "", GROUPED_TASKS, HOP, 5 if most else None)
    if most:
        yield line("S3", GROUPED_TASKS, RELAXED, 0.9)


def _lines_when_slower(took: Outcome) -> Iterator[Line]:
    yield Line(
        "S2",
        f"64 callers, sync 1 ms slower: {GROUPED_TASKS} / {FLOOR}",
        took.times(FLOOR, GROUPED_TASKS),
        at_least=15,
        detail=f"{took.median_us(GROUPED_TASKS):.0f} us, {took.median_us(FLOOR):.0f} us",
    )
