"""The levers: how many round trips it takes to do a little, in a store with nothing else in it.

A lever is a row of transactions, some of them for every session of the store, and the contract
names no number for any.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from benchmarks import samples
from benchmarks.trips_bytes import attached, content, intended
from benchmarks.trips_kit import LATER, MANY, Row, new, perform
from benchmarks.trips_queue import Lane
from benchmarks.trips_sessions import appended

# --- what they meet --------------------------------------------------------------------------


def stamped_twice(store: Any) -> str:
    """A session with a stamp that is not its newest."""
    name = new("stamped")
    for _ in range(2):
        store.sessions.commit_with_fresh_lease(samples.turn(name))
    return name


def tombstoned(store: Any) -> str:
    """A session all of whose nodes are hidden."""
    name = new("hidden")
    turn = msgspec.structs.replace(samples.turn(name), graph=appended(MANY))
    store.sessions.commit_with_fresh_lease(turn)
    nodes = store.sessions.load(name).graph.nodes
    store.sessions.tombstone(name, [node.node_id for node in nodes])
    return name


def with_a_receipt(store: Any) -> str:
    """A session that settled a batch under a source key."""
    lane = Lane(store).filled(1, source_key="key")
    store.sessions.commit(lane.settling(lane.claim(1)))
    return lane.name


def unnamed(store: Any) -> None:
    """A blob that nobody refers to."""
    store.blobs.put(content())


def forgotten(store: Any) -> None:
    """A file that no session refers to any more."""
    store.attachments.delete(*attached(store))


# --- the levers ------------------------------------------------------------------------------


def of_session(title: str, lever: str, make: Callable[[Any], str], *arguments: Any) -> Row:
    """A lever on a session that `make` leaves behind."""
    return Row(title, f"sessions.{lever}", None, lambda store: (make(store), *arguments))


def of_store(title: str, lever: str, make: Callable[[Any], object], *arguments: Any) -> Row:
    """A lever on a store that holds nothing but what `make` leaves behind."""
    operation = f"maintenance.{lever}"

    def given(store: Any) -> tuple[Any, ...]:
        for line in store.sessions.list().sessions:
            store.sessions.delete(line.session_id, True)
        store.maintenance.vacuum()
        perform(store, operation, *arguments)
        make(store)
        return arguments

    return Row(title, operation, None, given)


ROWS = (
    of_session(f"vacuum {MANY} nodes of a session", "vacuum", tombstoned),
    of_session("prune a session's stamps", "prune_turn_commits", stamped_twice, LATER),
    of_session("prune a session's receipts", "prune_settled_source_keys", with_a_receipt, LATER),
    of_store(f"vacuum a store, {MANY} nodes of 1 session", "vacuum", tombstoned),
    of_store("prune a store's stamps, 1 session", "prune_turn_commits", stamped_twice, LATER),
    of_store(
        "prune a store's receipts, 1 session", "prune_settled_source_keys", with_a_receipt, LATER
    ),
    of_store("collect a blob that nobody refers to", "collect_garbage", unnamed),
    of_store("forget 2 aged intents", "forget_aged_intents", intended, LATER),
    of_store("reclaim 1 attachment", "reclaim_attachments", forgotten, 0),
)
