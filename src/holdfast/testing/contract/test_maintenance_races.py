"""Levers beside each other, beside writers and beside collectors, on a server (GEN-20, GCX-5)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from holdfast.rules.blobs import ref_of
from holdfast.testing.contract.samples import chain, checkpoint, full_ids, put, turn
from holdfast.testing.world import World

#: How many backends wait for this one, or for one that does. What they do is seen at once in
#: `pg_locks`, and in `pg_stat_activity` as it was when a transaction first looked.
_WAITING = """
WITH RECURSIVE waiting (pid) AS (
    SELECT pg_backend_pid()
     UNION
    SELECT l.pid FROM pg_locks l JOIN waiting w ON w.pid = ANY (pg_blocking_pids(l.pid))
     WHERE NOT l.granted
)
SELECT count(*) FROM waiting
"""

Run = Callable[..., list[tuple[Any, ...]]]


@pytest.fixture
def server(durable: World) -> World:
    """The worlds in which two levers can be at work at once."""
    if not durable.is_server:
        pytest.skip("an embedded store has one writer at a time")
    return durable


@contextmanager
def stranger(world: World, store: Any, *statements: str) -> Iterator[Run]:
    """A transaction that has done some things and stays open, until it is rolled back."""
    with world.beneath(store) as run:
        run("BEGIN")
        for statement in statements:
            run(statement)
        yield run
        run("ROLLBACK")


def begun(run: Run, pool: ThreadPoolExecutor, act: Callable[[], Any]) -> Future[Any]:
    """An action that now waits for a stranger, or for somebody who does."""
    ((before,),) = run(_WAITING)
    future = pool.submit(act)
    while run(_WAITING)[0][0] <= before:
        assert not future.done(), "it did not wait"
    return future


def test_a_vacuum_that_waited_for_another_goes_on_where_that_one_ended(server: World) -> None:
    one, other = server.open(), server.open()
    for number in range(6):
        put(one, "s1", turn_commit=turn(f"t{number}"))
    one.sessions.delete("s1")
    batches = threading.Event()

    def end_after_a_batch(name: str, moment: str) -> None:
        if (name, moment) == ("remove_rows", "before"):
            if batches.is_set():
                raise InterruptedError
            batches.set()

    server.backend(one).on_statement = end_after_a_batch
    with (
        ThreadPoolExecutor(2) as pool,
        stranger(server, one, "SELECT * FROM {turn_commit} WHERE turn_id = 't0' FOR UPDATE") as run,
    ):
        first = begun(run, pool, lambda: one.maintenance.vacuum(limit=2))
        second = begun(run, pool, lambda: other.maintenance.vacuum(limit=2))
        run("ROLLBACK")
        with pytest.raises(InterruptedError):
            first.result()
        removed = second.result().removed_unreachable_count

    assert removed == 4
    assert not any(server.dump(one).values())


@pytest.mark.parametrize("ending", ["COMMIT", "ROLLBACK"])
def test_a_node_that_was_revived_while_a_vacuum_waited_stays(server: World, ending: str) -> None:
    store = server.open()
    put(store, "s1", graph=chain("a", "b"))
    store.sessions.tombstone("s1", ["b"])
    reviving = ("SELECT key FROM {session} FOR NO KEY UPDATE", "DELETE FROM {hidden}")

    with ThreadPoolExecutor(1) as pool, stranger(server, store, *reviving) as run:
        vacuum = begun(run, pool, store.maintenance.vacuum)
        run(ending)
        removed = vacuum.result().removed_node_count

    assert removed == (ending == "ROLLBACK")
    assert full_ids(store) == (["a"] if removed else ["a", "b"])


#: What refers to bytes, or says that somebody will at once.
REFERRING: dict[str, Callable[[Any], Any]] = {
    "blob": lambda store: store.blobs.put(b"bytes"),
    "artifact": lambda store: store.artifacts.put("space", "name", b"bytes"),
    "commit": lambda store: put(store, "s1", checkpoint=checkpoint(1, tool_state=b"bytes")),
}


@pytest.mark.scenario("GCX-T8")
@pytest.mark.parametrize("known", [True, False], ids=["known", "new"])
@pytest.mark.parametrize("way", REFERRING)
def test_whoever_refers_to_bytes_waits_for_the_batch_of_a_collector(
    server: World, way: str, known: bool
) -> None:
    store = server.open()
    ref = store.blobs.put(b"bytes" if known else b"others")
    guard = "SELECT pg_advisory_xact_lock((SELECT tableoid::bigint FROM {blob_key_seq}))"

    with ThreadPoolExecutor(1) as pool, stranger(server, store, guard) as run:
        referring = begun(run, pool, lambda: REFERRING[way](store))
        run("DELETE FROM {blob} WHERE ref = ?", ref)
        run("COMMIT")
        referring.result()

    assert store.blobs.get(ref_of(b"bytes")) == b"bytes"
