"""Measuring side by side: all contestants in every round, and ratios within a round.

What one round costs depends on what else the machine does, so contestants never run one after
the other, and a ratio is the median of the ratios of each round. The first round is not counted.
"""

from __future__ import annotations

import asyncio
import gc
import statistics
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Mapping

#: Runs for about so many seconds; the seconds one operation took.
Contestant = Callable[[float], float]


class Outcome:
    """What each contestant took in each round, in seconds an operation."""

    def __init__(self, samples: Mapping[str, list[float]]) -> None:
        self.samples = samples

    def median_us(self, name: str) -> float:
        """Microseconds an operation."""
        return statistics.median(self.samples[name]) * 1e6

    def times(self, name: str, other: str) -> float:
        """How many times as long as the other one it took."""
        pairs = zip(self.samples[name], self.samples[other], strict=True)
        return statistics.median(mine / theirs for mine, theirs in pairs)


def interleaved(
    what: str, contestants: Mapping[str, Contestant], rounds: int, seconds: float
) -> Outcome:
    """Let all contestants run in every round, each round in another order."""
    samples: dict[str, list[float]] = {name: [] for name in contestants}
    names = list(contestants)
    for number in range(rounds + 1):
        tell(f"{what}: round {number} of {rounds}")
        for name in names[number % len(names) :] + names[: number % len(names)]:
            gc.collect()
            took = contestants[name](seconds)
            if number:
                samples[name].append(took)
    return Outcome(samples)


def alone(operation: Callable[[], object]) -> Contestant:
    """One caller, who does it again and again."""

    def run(seconds: float) -> float:
        count, began = 0, time.perf_counter()
        now = began
        while not count or now < began + seconds:
            operation()
            count += 1
            now = time.perf_counter()
        return (now - began) / count

    return run


def timed(
    operation: Callable[[], object],
    *,
    before: Callable[[], object] = lambda: None,
    after: Callable[[], object] = lambda: None,
) -> Contestant:
    """As `alone`, where each operation needs something done around it that does not count."""

    def run(seconds: float) -> float:
        count, spent = 0, 0.0
        while not count or spent < seconds:
            before()
            began = time.perf_counter()
            operation()
            spent += time.perf_counter() - began
            after()
            count += 1
        return spent / count

    return run


def threads(callers: int, operation: Callable[[int], object]) -> Contestant:
    """So many threads, each doing it again and again; `operation` is told which one asks."""

    def run(seconds: float) -> float:
        gate = threading.Barrier(callers + 1)
        counts = [0] * callers
        ends = 0.0

        def call(number: int) -> None:
            gate.wait()
            while not counts[number] or time.perf_counter() < ends:
                operation(number)
                counts[number] += 1

        crowd = [threading.Thread(target=call, args=(number,)) for number in range(callers)]
        for thread in crowd:
            thread.start()
        began = time.perf_counter()
        ends = began + seconds
        gate.wait()
        for thread in crowd:
            thread.join()
        return (time.perf_counter() - began) / sum(counts)

    return run


def tasks(callers: int, operation: Callable[[int], Awaitable[object]]) -> Contestant:
    """So many tasks of one event loop, each doing it again and again."""

    async def gathered(seconds: float) -> float:
        counts = [0] * callers
        began = time.perf_counter()
        ends = began + seconds

        async def call(number: int) -> None:
            while not counts[number] or time.perf_counter() < ends:
                await operation(number)
                counts[number] += 1

        await asyncio.gather(*map(call, range(callers)))
        return (time.perf_counter() - began) / sum(counts)

    return lambda seconds: asyncio.run(gathered(seconds))


def tell(line: str) -> None:
    """Say how far it has got."""
    print(f"   {line}", file=sys.stderr, flush=True)
