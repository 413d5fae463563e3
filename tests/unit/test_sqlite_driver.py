"""The SQLite backend at work: groups, snapshots, waiting, faults, closing."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor

import apsw
import pytest

from holdfast.errors import Contention, NotAStore, ReadOnlyStore, StoreClosed, StoreUnavailable
from holdfast.model.values import Durability
from holdfast.transaction import LostRace, Mode, bulk, call
from tests.unit.sqlite_kit import (
    Held,
    balance,
    names,
    opened,
    put,
    put_many,
    read_names,
    work,
)


@pytest.fixture(params=["file", "memory"])
def backend(request, tmp_path):
    path = tmp_path / "a.db" if request.param == "file" else None
    made = opened(path, tmp_path)
    yield made
    made.close()


@pytest.fixture
def on_file(tmp_path):
    made = opened(tmp_path / "a.db", tmp_path, wait_ms=2_000)
    yield made
    made.close()


def test_the_tier_says_what_survives(backend):
    assert backend.tier is (Durability.INLINE if backend._path is None else Durability.DURABLE)


def test_a_reader_sees_what_was_acknowledged(backend):
    for number in range(50):
        assert backend.run(work(put, f"n{number}"))["id"] == number + 1
        assert backend.submit(work(read_names, mode=Mode.SMALL_READ)).result(5)[-1] == f"n{number}"
        assert len(names(backend)) == number + 1


def test_statements_take_lists_parts_and_rows(backend):
    async def use(tx):
        two, *_ = await tx.trip(call("put_two", a="x", b="y"))
        await tx.trip(bulk("put_stamped", [(f"s{n}", n) for n in range(450)]), bulk("put_many", []))
        found = await tx.all("among", names=["y", "x", "s449", "none"])
        return two, [row["name"] for row in found]

    backend.counts.clear()
    answer = backend.run(work(use))

    assert answer == ([{"name": "x"}, {"other": "y"}], ["s449", "x", "y"])
    assert backend.counts == {"transactions": 1, "put_two": 2, "put_stamped": 3, "among": 1}


@pytest.mark.parametrize("params", [{}, {"nam": "x"}, {"name": "x", "more": 1}, {"now_ms": 1}])
def test_wrong_parameters_are_loud(backend, params):
    async def wrong(tx):
        await tx.all("put", **params)

    with pytest.raises(KeyError):
        backend.run(work(wrong))
    assert names(backend) == []


def test_a_failure_in_a_group_leaves_its_neighbours(backend):
    async def fail(tx):
        await tx.maybe("put", name="lost")
        raise ValueError("mine alone")

    held = Held(backend)
    backend.counts.clear()
    futures = [backend.submit(w) for w in (work(put, "a"), work(fail), work(put, "b"))]
    held.release()

    assert futures[0].result(5)["id"] == 1
    with pytest.raises(ValueError, match="mine alone"):
        futures[1].result(5)
    assert futures[2].result(5)["id"] == 2
    assert names(backend) == ["a", "b"]
    assert backend.counts["transactions"] == 2  # the group's, and that of the read


def test_none_is_answered_before_the_commit(backend):
    async def refuse(tx):
        raise ValueError

    answered = []
    backend.on_statement = lambda name, moment: (
        answered.append([f.done() for f in futures]) if (name, moment) == ("commit", "after") else 0
    )
    held = Held(backend)
    futures = [backend.submit(w) for w in (work(put, "a"), work(refuse))]
    held.release()
    with pytest.raises(ValueError):  # noqa: PT011
        futures[1].result(5)

    assert answered[-1] == [False, False]


def test_what_has_not_begun_can_be_withdrawn(backend):
    held = Held(backend)
    first, second = backend.submit(work(put, "a")), backend.submit(work(put, "b"))

    assert first.cancel()
    assert not held.future.cancel()
    held.release()

    assert second.result(5)
    assert names(backend) == ["b"]


@pytest.mark.parametrize("mode", [Mode.WRITE, Mode.READ])
def test_a_lost_race_is_run_again_until_the_wait_is_over(tmp_path, mode):
    runs = []

    async def lose(tx, times):
        if mode is Mode.WRITE:
            await put(tx, "lost")
        runs.append(tx)
        if len(runs) <= times:
            raise LostRace

    made = opened(None, tmp_path, wait_ms=100)
    made.run(work(lose, 3, mode=mode))
    assert len(runs) == 4
    with pytest.raises(Contention) as refused:
        made.run(work(lose, 10**9, mode=mode))
    assert refused.value.operation == "lose"
    assert refused.value.attempts > 1
    assert len(names(made)) == (mode is Mode.WRITE)
    made.close()


def test_a_lock_of_others_is_waited_for_and_the_clock_read_behind_it(tmp_path):
    class Clock:
        now = 1_000

        def now_ms(self):
            return self.now

    made = opened(tmp_path / "a.db", tmp_path, clock=Clock())
    other = apsw.Connection(str(tmp_path / "a.db"))
    other.execute("BEGIN IMMEDIATE")
    future = made.submit(work(put, "a"))
    time.sleep(0.02)
    assert names(made) == []
    Clock.now = 2_000
    other.execute("COMMIT")

    assert future.result(5)["at"] == 2_000
    made.close()


@pytest.mark.parametrize("wait_ms", [0, 60])
def test_a_lock_that_stays_is_contention(tmp_path, wait_ms):
    made = opened(tmp_path / "a.db", tmp_path, wait_ms=wait_ms)
    made.run(work(put, "a"))
    other = apsw.Connection(str(tmp_path / "a.db"))
    other.execute("BEGIN IMMEDIATE")
    futures = [made.submit(work(put, name)) for name in "bc"]

    for future in futures:
        with pytest.raises(Contention) as refused:
            future.result(5)
        assert refused.value.retryable
        assert refused.value.attempts >= 1
    other.close()
    made.close()


@pytest.mark.invariant("INV-4")
def test_a_read_sees_one_snapshot_and_blocks_no_write(on_file):
    async def read_twice(tx):
        before = await read_names(tx)
        on_file.run(work(put, "meanwhile"))
        return before, await read_names(tx)

    assert on_file.run(work(read_twice, mode=Mode.READ)) == ([], [])
    assert names(on_file) == ["meanwhile"]


def test_readers_and_writers_side_by_side_see_whole_transactions(backend):
    async def move(tx):
        await tx.all("move")

    seen, over = set(), threading.Event()

    def read():
        seen.add(backend.run(work(balance, mode=Mode.SMALL_READ)))
        while not over.is_set():
            seen.add(backend.run(work(balance, mode=Mode.SMALL_READ)))

    with ThreadPoolExecutor(4) as readers:
        reading = [readers.submit(read) for _ in range(4)]
        try:
            for _ in range(50):
                backend.run(work(move))
        finally:
            over.set()
        for each in reading:
            each.result()

    assert seen == {200}


def test_a_read_cannot_write(backend):
    with pytest.raises(StoreUnavailable):
        backend.run(work(put, "x", mode=Mode.READ))
    assert names(backend) == []


def test_a_clock_is_read_once_in_an_operation(tmp_path):
    class Clock:
        reads = 0

        def now_ms(self):
            self.reads += 1
            return self.reads

    async def twice(tx):
        return (await put(tx, "a"))["at"], (await put(tx, "b"))["at"]

    made = opened(None, tmp_path, clock=Clock())
    first, second = made.run(work(twice))
    assert first == second
    made.close()


async def three(tx):
    await put(tx, "a")
    await tx.trip(call("put_two", a="b", b="c"))
    await tx.conclude(bulk("put_many", [("d",)]))


def test_a_fault_at_any_statement_leaves_nothing_or_everything(backend):
    class Injected(Exception):
        pass

    moments = iter(range(100))
    for nth in range(12):
        backend.on_statement = None
        before = names(backend)
        moments = iter(range(100))

        def hook(name, moment, nth=nth, moments=moments):
            if next(moments) == nth:
                raise Injected(f"{name} {moment}")

        backend.on_statement = hook
        try:
            backend.run(work(three))
        except Injected as fault:
            durable = str(fault) == "commit after"
            backend.on_statement = None
            assert names(backend) == before + ["a", "b", "c", "d"] * durable
        else:
            assert nth == 10  # five statements or commits, before and after each
            return
    pytest.fail("the operation never ended")


def test_what_breaks_the_transaction_of_a_group_breaks_only_itself(on_file):
    """A full database makes SQLite give up the transaction, with what others wrote in it."""

    async def put_large(tx, name):
        await tx.all("put_large", name=name, size=400_000)

    on_file._writer._connection.raw.pragma("max_page_count", 60)
    held = Held(on_file)
    works = (work(put, "a"), work(put_large, "large"), work(put, "b"))
    futures = [on_file.submit(w) for w in works]
    held.release()

    with pytest.raises(StoreUnavailable) as refused:
        futures[1].result(5)
    assert refused.value.retryable
    assert not refused.value.maybe_written
    assert [futures[0].result(5)["id"], futures[2].result(5)["id"]] == [1, 2]
    assert names(on_file) == ["a", "b"]


def test_what_breaks_the_commit_of_a_group_breaks_only_itself(backend):
    async def orphan(tx):
        await tx.all("orphan")

    held = Held(backend)
    futures = [backend.submit(w) for w in (work(put, "a"), work(orphan), work(put, "b"))]
    held.release()

    with pytest.raises(StoreUnavailable, match="FOREIGN KEY"):
        futures[1].result(5)
    futures[0].result(5)
    futures[2].result(5)
    assert names(backend) == ["a", "b"]


def test_actions_follow_the_commit_and_only_the_commit(backend, caplog):
    done = []

    async def put_then(tx, name, fails):
        await put(tx, name)
        tx.after_commit(lambda: done.append((name, names(backend))))
        tx.after_commit(lambda: 1 / 0)
        if fails:
            raise ValueError

    backend.run(work(put_then, "a", False))
    with pytest.raises(ValueError):  # noqa: PT011
        backend.run(work(put_then, "b", True))
    backend._writer.close()

    assert done == [("a", ["a"])]
    assert "ZeroDivisionError" in caplog.text


@pytest.mark.parametrize(("sync", "level"), [("full", 2), ("relaxed", 1)])
def test_an_acknowledged_commit_is_as_durable_as_was_asked(tmp_path, sync, level):
    made = opened(tmp_path / "a.db", tmp_path, sync=sync)
    raw = made._writer._connection.raw
    settings = [raw.pragma(name) for name in ("synchronous", "journal_mode", "foreign_keys")]
    assert settings == [level, "wal", 1]
    made.close()


def test_the_writer_outlives_what_should_not_happen(backend, monkeypatch, caplog):
    held = Held(backend)
    futures = [backend.submit(work(put, name)) for name in "ab"]
    with monkeypatch.context() as broken:
        broken.setattr(type(backend._writer._group), "_finish", lambda group: 1 / 0)
        held.released.set()
        for future in (held.future, *futures):
            with pytest.raises(ZeroDivisionError):
                future.result(5)

    assert backend.run(work(put, "c"))["id"] == 1
    assert names(backend) == ["c"]


def test_nothing_follows_a_conclusion(backend):
    async def go_on(tx):
        await tx.conclude()
        await put(tx, "late")

    with pytest.raises(RuntimeError, match="put"):
        backend.run(work(go_on))


def test_the_log_is_copied_back_behind_the_answers(on_file, tmp_path):
    file, log = tmp_path / "a.db", tmp_path / "a.db-wal"

    async def put_large(tx):
        await tx.all("put_large", name="x", size=500_000)

    for _ in range(24):
        on_file.run(work(put_large))
    on_file.run(work(put, "last"))

    assert file.stat().st_size > 4_000_000
    assert log.stat().st_size < 9_000_000


def test_closing_finishes_what_was_accepted(on_file, tmp_path):
    held = Held(on_file)
    futures = [on_file.submit(work(put, str(number))) for number in range(300)]
    threading.Timer(0.02, held.released.set).start()
    on_file.close()
    on_file.close()

    assert all(future.done() for future in futures)
    assert sorted(path.name for path in tmp_path.glob("a.db*")) == ["a.db"]
    for operation, mode in ((put, Mode.WRITE), (read_names, Mode.READ)):
        with pytest.raises(StoreClosed):
            on_file.submit(work(operation, mode=mode))
    again = opened(tmp_path / "a.db", tmp_path, read_only=True)
    assert len(names(again)) == 300
    with pytest.raises(ReadOnlyStore):
        again.submit(work(put, "x"))
    again.close()


def test_a_store_in_memory_cannot_be_found_read_only(tmp_path):
    with pytest.raises(NotAStore):
        opened(None, tmp_path, read_only=True)


def test_many_callers_share_few_transactions(on_file):
    on_file.counts.clear()
    futures = [on_file.submit(work(put_many, [str(number)])) for number in range(600)]
    for future in futures:
        future.result(5)

    assert on_file.counts["put_many"] == 600
    assert on_file.counts["transactions"] < 200


def test_a_write_interrupted_before_its_turn_is_not_made(backend, monkeypatch):
    def interrupted(_: Future, timeout: float | None = None) -> None:
        raise KeyboardInterrupt

    held = Held(backend)
    monkeypatch.setattr(Future, "result", interrupted)
    with pytest.raises(KeyboardInterrupt):
        backend.run(work(put, "unwanted"))
    monkeypatch.undo()
    held.release()

    backend.run(work(put, "wanted"))
    assert names(backend) == ["wanted"]


def test_a_read_in_memory_never_sits_through_a_write_on_a_loop(tmp_path):
    file, memory = opened(tmp_path / "a.db", tmp_path), opened(None, tmp_path)

    assert file.runs_inline(Mode.SMALL_READ)
    assert not memory.runs_inline(Mode.SMALL_READ)
    file.close()
    memory.close()


def test_a_read_that_outlasts_its_store_closes_its_connection(tmp_path):
    made = opened(tmp_path / "a.db", tmp_path)
    entered, go_on = threading.Event(), threading.Event()
    connections = []

    async def linger(tx):
        connections.append(tx._connection)
        entered.set()
        assert go_on.wait(5)

    with ThreadPoolExecutor(1) as threads:
        reading = threads.submit(made.run, work(linger, mode=Mode.READ))
        assert entered.wait(5)
        made.close()
        go_on.set()
        reading.result(5)

    with pytest.raises(apsw.ConnectionClosedError):
        connections[0].raw.pragma("user_version")
