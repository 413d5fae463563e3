"""FAC-10 and GEN-20: removal in batches that nobody else has to wait for."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from holdfast.testing.contract.lanes import enqueue, settle
from holdfast.testing.contract.samples import chain, create, lease_on, put, turn
from holdfast.testing.world import World

LONG = 100_000
BATCH = 1_000
PATIENCE_S = 10


_ON_SERVER = """
INSERT INTO {node} (branch, ordinal, owner, sequence, node_id, kind, enc, body)
SELECT branch, i, owner, i + 1, 'n' || i, kind, enc, body
  FROM generate_series(1, ?) i CROSS JOIN {node} WHERE branch = ?
"""
_EMBEDDED = """
WITH RECURSIVE count (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM count WHERE i < ?)
INSERT INTO {node} (key, owner, sequence, node_id, kind, enc, body)
SELECT branch << 28 | i, owner, i + 1, 'n' || i, kind, enc, body
  FROM count CROSS JOIN {node} WHERE branch = ?
"""


def lengthen(world: World, store: Any, upto: int) -> None:
    """Make the one-node session that is alone in the database this many nodes long, beneath."""
    branch = world.sql(store, "SELECT branch FROM {session}")[0][0]
    world.sql(store, _ON_SERVER if world.is_server else _EMBEDDED, upto - 1, branch)
    head = "UPDATE {session} SET length = ?, node_count = ?, next_sequence = ?, leaf_id = ?"
    world.sql(store, head, upto, upto, upto + 1, f"n{upto - 1}")


def nodes(world: World, store: Any) -> int:
    """How many node rows there are."""
    found: int = world.sql(store, "SELECT count(*) FROM {node}")[0][0]
    return found


def after_each(world: World, store: Any, name: str, act: Callable[[], None]) -> None:
    """Do something whenever an operation has ended, before whoever asked for it goes on."""
    backend = world.backend(store)
    run = backend.run

    def then_act(work: Any) -> Any:
        found = run(work)
        if work.name == name:
            act()
        return found

    backend.run = then_act


@pytest.mark.invariant("INV-10")
@pytest.mark.scenario("FAC-T20")
def test_a_long_session_goes_in_batches_between_which_others_write(
    world: World, store: Any
) -> None:
    put(store, "s1", graph=chain("a"))
    lengthen(world, store, LONG)
    assert len(store.sessions.load("s1", last=3).graph.nodes) == 3

    store.sessions.delete("s1")

    assert store.sessions.load("s1") is None
    assert nodes(world, store) == LONG, "the deletion itself took nodes along"
    left = [LONG]
    create(store, "other")

    with ThreadPoolExecutor(1) as others:

        def write() -> None:
            left.append(nodes(world, store))
            written = others.submit(put, store, "other", config={"turn": len(left)})
            assert written.result(PATIENCE_S).head_revision == len(left) - 1

        after_each(world, store, "trim_branches", write)
        store.maintenance.vacuum()

    assert left[-1] == 0
    assert max(before - after for before, after in itertools.pairwise(left)) == BATCH


@pytest.mark.scenario("GEN-T12")
def test_an_interrupted_removal_has_done_what_it_did(world: World, store: Any) -> None:
    put(store, "s1", graph=chain("a"))
    lengthen(world, store, 50)
    store.sessions.delete("s1")

    _interrupted(world, store, "trim_branches", lambda: store.maintenance.vacuum(limit=20))
    assert nodes(world, store) == 30

    assert store.maintenance.vacuum(limit=20).removed_unreachable_count == 30
    assert not any(world.dump(store).values())


@pytest.mark.scenario("GEN-T12")
def test_an_interrupted_vacuum_has_done_what_it_did(world: World, store: Any) -> None:
    ids = [f"n{number}" for number in range(50)]
    put(store, "s1", graph=chain("a", *ids))
    store.sessions.tombstone("s1", ids)

    _interrupted(world, store, "vacuum_hidden", lambda: store.sessions.vacuum("s1", limit=20))
    assert nodes(world, store) == 31

    assert store.sessions.vacuum("s1", limit=20).removed_node_count == 30
    assert nodes(world, store) == 1


@pytest.mark.scenario("GEN-T12")
def test_an_interrupted_collection_has_done_what_it_did(world: World, store: Any) -> None:
    for number in range(5):
        store.blobs.put(b"content %d" % number)

    _interrupted(world, store, "collect_blobs", lambda: store.maintenance.collect_garbage(limit=2))
    assert world.sql(store, "SELECT count(*) FROM {blob}") == [(3,)]

    assert store.maintenance.collect_garbage(limit=2).deleted_blob_count == 3


@pytest.mark.scenario("GEN-T12")
def test_an_interrupted_pruning_has_done_what_it_did(world: World, store: Any) -> None:
    for number in range(6):
        put(store, "s1", turn_commit=turn(f"t{number}"))
    later = world.clock.now_ms() + 1

    _interrupted(
        world,
        store,
        "prune_turn_commits",
        lambda: store.sessions.prune_turn_commits("s1", later, limit=2),
    )
    assert world.sql(store, "SELECT count(*) FROM {turn_commit}") == [(4,)]

    assert store.sessions.prune_turn_commits("s1", later, limit=2) == 3
    assert store.sessions.load_turn_commit("s1", "t5") is not None


@pytest.mark.scenario("GEN-T12")
def test_an_interrupted_forgetting_of_receipts_has_done_what_it_did(
    world: World, store: Any
) -> None:
    lease = lease_on(store, "s1")
    for key in "abcde":
        enqueue(store, key, source_key=key)
        settle(store, lease, completed_queue_claims=[store.queue.claim(lease)])
    later = world.clock.now_ms() + 1

    _interrupted(
        world,
        store,
        "prune_receipts",
        lambda: store.sessions.prune_settled_source_keys("s1", later, limit=2),
    )
    assert world.sql(store, "SELECT count(*) FROM {work}") == [(3,)]

    assert store.sessions.prune_settled_source_keys("s1", later, limit=2) == 3
    assert enqueue(store, "a", source_key="a").created


@pytest.mark.scenario("GEN-T12")
def test_an_interrupted_forgetting_of_intents_has_done_what_it_did(
    world: World, store: Any
) -> None:
    ids = [f"{number:064x}" for number in range(5)]
    for id in ids:
        store.attachments.record_intent("s1", id)
    now = world.clock.now_ms()

    _interrupted(
        world,
        store,
        "forget_dead_intents",
        lambda: store.maintenance.forget_aged_intents(now, limit=2),
    )
    assert len(store.attachments.list_refs()) == 3

    assert store.maintenance.forget_aged_intents(now, limit=2) == 3
    assert store.attachments.list_refs() == []


def _interrupted(world: World, store: Any, statement: str, lever: Callable[[], Any]) -> None:
    """Pull a lever whose second batch fails."""
    past: set[tuple[str, str]] = set()

    def fail(name: str, moment: str) -> None:
        if name == statement or (statement, "after") in past:
            past.add((name, moment))
        if (name, moment) == (statement, "before") and ("commit", "after") in past:
            raise InterruptedError

    world.backend(store).on_statement = fail
    with pytest.raises(InterruptedError):
        lever()
    world.backend(store).on_statement = None
