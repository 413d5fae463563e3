"""PostgreSQL round trips of every operation, counted on the wire, against the budget of BAK-5.

What the budget does not name is counted all the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from benchmarks import trips_bytes, trips_levers, trips_queue, trips_sessions
from benchmarks.databases import Bench
from benchmarks.measure import tell
from benchmarks.table import print_table
from benchmarks.trips_kit import Row, perform
from holdfast.testing.wire import CountingProxy

#: What is counted in one store, and then in another: levers want one with nothing else in it.
GROUPS: tuple[tuple[Row, ...], ...] = (
    (*trips_sessions.ROWS, *trips_queue.ROWS, *trips_bytes.ROWS),
    trips_levers.ROWS,
)


def run(*, quick: bool) -> None:
    """Count and print."""
    repeats = 3 if quick else 12  # a statement is prepared on the wire after some repeats
    tell("counting round trips")
    print_table(
        "PostgreSQL round trips (BAK-5), counted on the wire",
        ("operation", "trips", "budget", ""),
        [line for rows in GROUPS for line in _lines(rows, repeats)],
    )


def _lines(rows: tuple[Row, ...], repeats: int) -> Iterator[tuple[object, ...]]:
    with Bench() as bench:
        place = bench.database("postgres")
        proxy = bench.enter_context(CountingProxy(place.url))
        store = bench.open(place._replace(url=proxy.url))
        for row in rows:
            trips = max(_count(proxy, store, row) for _ in range(repeats))
            budget = "-" if row.budget is None else row.budget
            yield row.title, trips, budget, _verdict(row, trips)


def _count(proxy: CountingProxy, store: Any, row: Row) -> int:
    arguments = row.given(store)
    turns = proxy.turns
    perform(store, row.operation, *arguments)
    return proxy.turns - turns


def _verdict(row: Row, trips: int) -> str:
    if row.budget is None:
        return ""
    return "ok" if trips <= row.budget else "OVER"
