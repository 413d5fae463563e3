"""Single operations: reads and light commits against floors, turns, and how even they are."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import holdfast
from benchmarks import plain, samples
from benchmarks.databases import KINDS, Bench
from benchmarks.floors import PostgresFloor, SixStatements, SqliteFloor
from benchmarks.measure import Outcome, alone, interleaved, tasks, tell, threads
from benchmarks.table import Goal, Line, print_lines
from holdfast import ANY, Append, Node, RuntimeCommit
from holdfast.testing.wire import CountingProxy


def run(*, quick: bool) -> None:
    """Measure and print."""
    rounds, seconds = (3, 0.1) if quick else (15, 0.15)
    lines = [*_reads(rounds, seconds), *_light_commits(rounds, seconds)]
    for callers, distance_ms in ((1, 0.0), (1, 0.5), (1, 1.0), (32, 0.0)):
        lines.append(_against_six(callers, distance_ms, rounds, seconds))
    for kind in KINDS:
        for callers in (1, 32):
            lines += _turns(kind, callers, rounds, seconds)
    for kind in KINDS:
        lines.append(_evenness(kind, 300 if quick else 3_000))
    print_lines("Single operations", lines)


def _reads(rounds: int, seconds: float) -> Iterator[Line]:
    """S4: one record on SQLite."""
    with Bench() as bench:
        place = bench.database("sqlite")
        store = bench.open(place)
        nodes = [Node(node_id=f"n{number}", body=samples.SMALL) for number in range(1_000)]
        view = store.session("s")
        view.commit_with_fresh_lease(
            RuntimeCommit(session_id="s", expected_head_revision=ANY, graph=Append(nodes))
        )
        floor = SqliteFloor(place)
        bench.callback(floor.close)
        aio = store.aio.session("s")
        took = interleaved(
            "reading one record",
            {
                "load_node, blocking": alone(lambda: view.load_node("n500")),
                "load_node, async": tasks(1, lambda _: aio.load_node("n500")),
                "raw select": alone(lambda: floor.read("n500")),
                "thread hop": tasks(1, lambda _: floor.on_thread(SqliteFloor.read, "n500")),
            },
            rounds,
            seconds,
        )
    yield _line(took, "S4", "SQLite:", "load_node, blocking", "raw select", at_most=4)
    yield _line(took, "S4", "SQLite:", "load_node, async", "raw select", at_most=4)
    yield _line(took, "S4", "SQLite:", "thread hop", "load_node, async", at_least=8)


def _light_commits(rounds: int, seconds: float) -> Iterator[Line]:
    """S5: a light commit on PostgreSQL."""
    with Bench() as bench:
        place = bench.database("postgres")
        store = bench.open(place)
        view, aio = store.session("s"), store.aio.session("s")
        view.commit_with_fresh_lease(samples.small("s"))
        floor = PostgresFloor(place)
        bench.callback(floor.close)
        took = interleaved(
            "light commits",
            {
                "light commit, blocking": alone(
                    lambda: view.commit_with_fresh_lease(samples.small("s"))
                ),
                "light commit, async": tasks(
                    1, lambda _: aio.commit_with_fresh_lease(samples.small("s"))
                ),
                "raw autocommit insert": alone(floor.insert),
            },
            rounds,
            seconds,
        )
    for mine in ("light commit, blocking", "light commit, async"):
        yield _line(took, "S5", "PostgreSQL:", mine, "raw autocommit insert", at_most=2)


def _against_six(callers: int, distance_ms: float, rounds: int, seconds: float) -> Line:
    """S6, by a light commit: it does more than an append, and takes one trip like it."""
    names = samples.names(callers)
    with Bench() as bench:
        place = bench.database("postgres")
        if distance_ms:
            proxy = CountingProxy(place.url, delay_s=distance_ms / 2000)
            place = place._replace(url=bench.enter_context(proxy).url)
        store = bench.open(place, pool_size=32)
        views = [store.session(name) for name in names]
        six = SixStatements(place, names)
        bench.callback(six.close)
        took = interleaved(
            f"against six statements, {callers} callers, {distance_ms} ms",
            {
                "light commit": threads(
                    callers,
                    lambda number: views[number].commit_with_fresh_lease(
                        samples.small(names[number])
                    ),
                ),
                "six statements": threads(callers, six.append),
            },
            rounds,
            seconds,
        )
    where = f"PostgreSQL, {callers:2} callers, {distance_ms or 'no'} ms away:"
    what = f"{where} rate of light commit / six statements"
    detail = f"{took.median_us('light commit'):.0f} us, {took.median_us('six statements'):.0f} us"
    wanted = 5 if distance_ms else None
    ratio = took.times("six statements", "light commit")
    return Line("S6", what, ratio, at_least=wanted, detail=detail)


def _turns(kind: str, callers: int, rounds: int, seconds: float) -> Iterator[Line]:
    """S9: turns of 28 KB."""
    names = samples.names(callers)
    with Bench() as bench:
        store = bench.store(kind)
        written = getattr(plain, f"on_{kind}")(bench, bench.database(kind), names)
        took = interleaved(
            f"turns of 28 KB, {kind}, {callers} callers",
            {
                "turn": threads(callers, _turn(store, names, new_state=True)),
                "turn, checkpoint unchanged": threads(
                    callers, _turn(store, names, new_state=False)
                ),
                "plain shape": threads(callers, written),
            },
            rounds,
            seconds,
        )
    what = f"{kind}, {callers:2} callers, 28 KB:"
    yield _rate(took, what, "turn", "plain shape", 5 if callers == 1 else 4)
    yield _rate(took, what, "turn, checkpoint unchanged", "turn", 2)


def _turn(store: holdfast.Store, names: list[str], *, new_state: bool) -> Any:
    views = [store.session(name) for name in names]
    for view in views:
        view.commit_with_fresh_lease(samples.turn(view.session_id))

    def commit(number: int) -> None:
        turn = samples.turn(names[number], new_state=new_state)
        views[number].commit_with_fresh_lease(turn)

    return commit


def _evenness(kind: str, count: int) -> Line:
    """S15: the slowest of a thousand steady turns against the usual one."""
    took = []
    with Bench() as bench:
        view = bench.store(kind).session("s")
        tell(f"evenness of {count} turns, {kind}")
        for number in range(count + 20):
            turn = samples.turn("s")
            began = time.perf_counter()
            view.commit_with_fresh_lease(turn)
            if number >= 20:
                took.append((time.perf_counter() - began) * 1e6)
    took.sort()
    usual, slowest = took[count // 2], took[int(count * 0.999)]
    what = f"{kind}: p99.9 / p50 of {count} turns of 28 KB, one caller"
    return Line("S15", what, slowest / usual, at_most=8, detail=f"{slowest:.0f} us, {usual:.0f} us")


def _line(took: Outcome, goal: Goal, where: str, mine: str, other: str, **wanted: float) -> Line:
    detail = f"{took.median_us(mine):.0f} us, {took.median_us(other):.0f} us"
    return Line(goal, f"{where} {mine} / {other}", took.times(mine, other), detail=detail, **wanted)


def _rate(took: Outcome, where: str, mine: str, other: str, wanted: float) -> Line:
    detail = f"{took.median_us(mine):.0f} us, {took.median_us(other):.0f} us"
    what = f"{where} rate of {mine} / {other}"
    return Line("S9", what, took.times(other, mine), at_least=wanted, detail=detail)
