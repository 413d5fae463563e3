"""Whether what a commit and a read cost depends on how much a session holds.

Two shapes of session: one long path, and a wide graph of which a short path is active.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from typing import TypeAlias

import holdfast
from benchmarks import samples
from benchmarks.databases import KINDS, Bench
from benchmarks.measure import Outcome, tell
from benchmarks.table import Line, print_lines
from holdfast import ANY, Node, ReplaceFull, RuntimeCommit, SessionView
from holdfast.face import Blocking

View: TypeAlias = SessionView[Blocking]

#: How many nodes are read.
PATH = 10
SHAPES = ("long", "wide")


def run(*, quick: bool) -> None:
    """Measure and print."""
    sizes, rounds = ((100, 1_000, 10_000), 60) if quick else ((100, 10_000, 100_000), 300)
    for kind in KINDS:
        lines: list[Line] = []
        for shape in SHAPES:
            with Bench() as bench:
                tell(f"{kind}: making {shape} sessions")
                views = {size: _session(bench, kind, shape, size) for size in sizes}
                tell(f"{kind}: {shape} sessions: {rounds} rounds")
                lines += _lines(shape, views, rounds)
        title = (
            f"A commit and a read of {PATH} nodes, against a session of {sizes[0]} nodes: {kind}"
        )
        print_lines(title, lines)


def _session(bench: Bench, kind: str, shape: str, size: int) -> View:
    """A session of so many nodes, in a store of its own: a scan of a whole table shows too."""
    view = _unflushed(bench, kind).session("s")
    path = _chain("path", size if shape == "long" else PATH)
    branches = [_node(f"branch-{n}", f"path-{n % PATH}") for n in range(size - len(path))]
    everything = ReplaceFull([*path, *branches], leaf=path[-1].node_id)
    view.commit_with_fresh_lease(
        RuntimeCommit(session_id="s", expected_head_revision=ANY, graph=everything)
    )
    return view


def _unflushed(bench: Bench, kind: str) -> holdfast.Store:
    """A store that does not wait for the disk.

    That takes as long in every session, and longer than all the rest: it would hide what is
    looked for.
    """
    place = bench.database(kind)
    if kind == "postgres":
        option = "options=-csynchronous_commit%3Doff"
        place = place._replace(url=f"{place.url}{'&' if '?' in place.url else '?'}{option}")
    return bench.open(place, sync="relaxed")


def _chain(stem: str, length: int) -> list[Node]:
    parents = [None, *(f"{stem}-{n}" for n in range(length - 1))]
    return [_node(f"{stem}-{n}", parent) for n, parent in enumerate(parents)]


def _node(node_id: str, parent: str | None) -> Node:
    return Node(node_id=node_id, parent_node_id=parent, body=samples.SMALL)


def _lines(shape: str, views: dict[int, View], rounds: int) -> Iterator[Line]:
    # First the reads: commits make the path longer.
    yield from _compare(
        f"{shape}: read the path's last {PATH} nodes",
        {size: _reading(view) for size, view in views.items()},
        rounds,
    )
    yield from _compare(
        f"{shape}: light commit",
        {size: _committing(view, samples.small) for size, view in views.items()},
        rounds,
    )
    yield from _compare(
        f"{shape}: stamped commit",
        {size: _committing(view, samples.stamped) for size, view in views.items()},
        rounds,
    )


def _reading(view: View) -> Callable[[], None]:
    def read() -> None:
        session = view.load(last=PATH)
        assert session is not None
        assert len(session.graph.nodes) == PATH

    return read


def _committing(view: View, made: Callable[[str], RuntimeCommit]) -> Callable[[], None]:
    def commit() -> None:
        view.commit_with_fresh_lease(made(view.session_id))

    return commit


def _compare(what: str, operations: dict[int, Callable[[], None]], rounds: int) -> Iterator[Line]:
    took = _one_by_one({str(size): call for size, call in operations.items()}, rounds)
    first, *others = took.samples
    for other in others:
        yield Line(
            goal="S8",
            what=f"{what}, {int(other):,} nodes",
            ratio=took.times(other, first),
            at_most=1.5,
            detail=f"{took.median_us(other):.0f} us, {took.median_us(first):.0f} us",
        )


def _one_by_one(operations: dict[str, Callable[[], None]], rounds: int) -> Outcome:
    """Time single operations, each round in another order."""
    took: dict[str, list[float]] = {name: [] for name in operations}
    names = list(operations)
    for number in range(-5, rounds):
        random.shuffle(names)
        for name in names:
            began = time.perf_counter()
            operations[name]()
            if number >= 0:
                took[name].append(time.perf_counter() - began)
    return Outcome(took)
