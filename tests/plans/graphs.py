"""Long sessions for the plans: one with branches, a fork of it; what a page of them may read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.plans.work import Reads

#: The first session has two branches, the second leaving the first; its fork sees them both.
LONG, FORK = 3_000_001, 3_000_002
FIRST, SECOND, OWN = 3_000_001, 3_000_002, 3_000_003
#: What the first one had before it replaced its graph, user messages all of them.
DETACHED = 3_000_004
#: Nodes of each branch; where the second one leaves the first.
NODES, BASE = 10_000, 5_000
#: Nodes at the beginning that the first session does not see.
HIDDEN = 20


def rows() -> Iterator[tuple[str, str, list[tuple[Any, ...]]]]:
    """Table, columns and rows."""
    yield (
        "session",
        "key, id, head_revision, branch, length, leaf_id",
        [
            (LONG, "long", 1, SECOND, BASE + NODES, f"{SECOND}-{BASE + NODES - 1}"),
            (FORK, "fork", 1, OWN, BASE + 2 * NODES, f"{OWN}-{BASE + 2 * NODES - 1}"),
        ],
    )
    yield (
        "branch",
        "id, parent, base, owner, detached",
        [
            (FIRST, None, 0, LONG, 0),
            (SECOND, FIRST, BASE, LONG, 0),
            (OWN, SECOND, BASE + NODES, FORK, 0),
            (DETACHED, None, 0, LONG, 1),
        ],
    )
    yield (
        "inherited",
        "session, branch, owner, start, upto",
        [(FORK, FIRST, LONG, 0, BASE), (FORK, SECOND, LONG, BASE, BASE + NODES)],
    )
    yield "hidden", "session, branch, ordinal, gone", [(LONG, FIRST, n, 0) for n in range(HIDDEN)]


def nodes() -> Iterator[tuple[Any, ...]]:
    """As `data.nodes`."""
    for place, (branch, base, owner) in enumerate(
        [(FIRST, 0, LONG), (SECOND, BASE, LONG), (OWN, BASE + NODES, FORK)]
    ):
        for n in range(NODES):
            row = (owner, place * NODES + n + 1, f"{branch}-{base + n}", "message", 0, b"{}", None)
            yield (branch, base + n, *row)
    for n in range(NODES):
        yield (DETACHED, n, LONG, 0, f"{DETACHED}-{n}", "message", 0, b"{}", "hello")


#: A page of 100 nodes may cost as many of each branch, and a few rows to find the branches.
_PAGE = {"limit": 100, "after_us": None}

READS = {
    "a tombstone of what is not the first message": Reads(
        "replace_first_user", 20, {"session_id": "long", "node_ids": [f"{SECOND}-{NODES}"]}
    ),
    "a page of nodes": Reads(
        "list_nodes",
        2 * 100 + 3 * HIDDEN + 50,
        {"session_id": "long", "after_sequence": 0, **_PAGE},
    ),
    "a late page": Reads(
        "list_nodes", 2 * 100 + 50, {"session_id": "long", "after_sequence": NODES, **_PAGE}
    ),
    "a page of a fork": Reads(
        "list_nodes", 4 * 100 + 50, {"session_id": "fork", "after_sequence": 0, **_PAGE}
    ),
    "a late page of a fork": Reads(
        "list_nodes", 3 * 100 + 50, {"session_id": "fork", "after_sequence": NODES + BASE, **_PAGE}
    ),
    "a page of a fork behind what it shares of a branch": Reads(
        "list_nodes", 3 * 100 + 50, {"session_id": "fork", "after_sequence": BASE, **_PAGE}
    ),
}
