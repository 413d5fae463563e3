"""The benchmarks run, if only just, and the crash check notices what it is there to notice."""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

import holdfast
from benchmarks import drain_crew, files, groups, queues, samples, single, sizes, trips
from benchmarks.crash import ABSENT, EARLY_KILLS, KILLS, MANY_KILLS, TURNS, WHOLE, Watch, report
from benchmarks.crash_script import SESSIONS, SHAPES, Expected, turn
from benchmarks.databases import KINDS, Bench, Database
from benchmarks.drain import FAILED, Drain
from benchmarks.drain import SESSIONS as LANES
from benchmarks.measure import Outcome
from benchmarks.table import Goal, Line
from benchmarks.trips_kit import perform
from holdfast import CheckpointWork
from holdfast.testing.contract.catalogue import EVERY

ROOT = Path(__file__).parents[2]
FREE = SESSIONS[-1]


#: Makes every owner opaque, as where the system does not say which processes run.
OPAQUE = """
import holdfast.owners
holdfast.owners.ProcessTable.host_id = lambda self: None
"""


def python(*arguments: str, first: Path | None = None) -> str:
    paths = [*([str(first)] if first else []), *sys.path]
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


# --- surviving -------------------------------------------------------------------------------


def test_the_demo_survives() -> None:
    assert "OK: every acknowledged turn is there once" in python("examples/survive.py")


@pytest.mark.parametrize("kind", KINDS)
def test_a_few_kills_lose_nothing(kind: str) -> None:
    report = python("-m", "benchmarks.crash", "--kills", "3", "--store", kind)
    assert "OK: every acknowledged turn is there, once and whole" in report


CRASH = ("-m", "benchmarks.crash", "--kills", "12", "--store", "sqlite")
DRAIN = ("-m", "benchmarks.drain", "--items", "200", "--store", "sqlite")
TOLD = "import holdfast; print(type(holdfast.local_process('me').liveness).__name__)"


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (("-c", TOLD), "Opaque"),
        (("examples/survive.py",), "OK: every acknowledged turn is there once"),
        (CRASH, "OK: every acknowledged turn is there, once and whole"),
        (DRAIN, "OK: every item was settled exactly once"),
    ],
    ids=["the pretence", "demo", "crash", "drain"],
)
def test_all_survive_where_no_death_can_be_proved(
    tmp_path: Path, command: tuple[str, ...], told: str
) -> None:
    (tmp_path / "sitecustomize.py").write_text(OPAQUE)
    assert told in python(*command, first=tmp_path)


@pytest.fixture
def watch(tmp_path: Path) -> Watch:
    """A watch that was told of every shape of turn, on a store that holds them."""
    made = Watch(f"sqlite:///{tmp_path / 'store.db'}", "holdfast", random.Random(0))
    for number in range(1, 2 * len(SHAPES)):
        commit_turn(made, number)
        made.hear("done", FREE, f"{number} new")
    return made


def commit_turn(watch: Watch, number: int) -> None:
    with holdfast.open(watch.url) as store:
        store.sessions.commit_with_fresh_lease(turn(FREE, number))


def found(watch: Watch) -> set[str]:
    watch.look()
    return {problem.split(": ")[2] for problem in watch.problems}


def test_every_shape_of_turn_leaves_what_is_expected(watch: Watch) -> None:
    assert found(watch) == set()
    assert not watch.victims[FREE].ahead


def test_a_turn_nobody_was_told_of_may_be_there(watch: Watch) -> None:
    commit_turn(watch, 2 * len(SHAPES))
    assert found(watch) == set()
    assert watch.victims[FREE].ahead


def test_a_lost_turn_is_noticed(watch: Watch) -> None:
    watch.hear("done", FREE, f"{2 * len(SHAPES)} new")
    assert found(watch) == {"lost"}


def test_turns_too_many_are_noticed(watch: Watch) -> None:
    for number in (0, 1):
        commit_turn(watch, 2 * len(SHAPES) + number)
    assert found(watch) == {"doubled"}


def test_a_turn_applied_again_is_noticed(watch: Watch) -> None:
    commit_turn(watch, 2 * len(SHAPES))
    watch.look()
    for victim in watch.victims.values():
        victim.next_round()
    watch.hear("done", FREE, f"{2 * len(SHAPES)} new")
    assert {problem.split(": ")[2] for problem in watch.problems} == {"doubled"}


@pytest.mark.parametrize("table", ["usage", "node", "turn_commit", "blob_ref", "head_state"])
def test_a_torn_turn_is_noticed(watch: Watch, table: str) -> None:
    import apsw

    raw = apsw.Connection(watch.url.removeprefix("sqlite:///"))
    raw.execute(f"DELETE FROM {table}")
    raw.close()
    assert found(watch) == {"torn"}


@pytest.mark.parametrize(
    ("told", "counted"),
    [(b"", EARLY_KILLS), (b"reclaimed leased-1\n", EARLY_KILLS), (b"ready free-1\n", KILLS)],
)
def test_only_who_came_to_commit_is_killed_while_committing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: bytes, counted: str
) -> None:
    watch = Watch(f"sqlite:///{tmp_path / 'store.db'}", "holdfast", random.Random(0))
    monkeypatch.setattr(watch, "kill", lambda: told)
    watch.round()
    assert {name: watch.counts[name] for name in (KILLS, EARLY_KILLS)} == {
        KILLS: int(counted == KILLS),
        EARLY_KILLS: int(counted == EARLY_KILLS),
    }


def test_a_check_that_saw_what_it_should_complains_of_nothing(watch: Watch) -> None:
    assert list(seen(watch).unseen(MANY_KILLS)) == []


def seen(watch: Watch) -> Watch:
    """The watch, as after many kills that showed all there is to see."""
    watch.counts.update({KILLS: MANY_KILLS, TURNS: MANY_KILLS, WHOLE: 1, ABSENT: 1})
    for victim in watch.victims.values():
        victim.expected = msgspec.structs.replace(victim.expected, turns=1)
    return watch


@pytest.mark.parametrize(("count", "few"), [(KILLS, 1), (TURNS, 1), (WHOLE, 0), (ABSENT, 0)])
def test_a_check_that_saw_too_little_fails(
    watch: Watch, count: str, few: int, capsys: pytest.CaptureFixture[str]
) -> None:
    seen(watch).counts[count] = few
    (complaint,) = watch.unseen(MANY_KILLS)
    watch.problems.append(complaint)
    assert not report({"sqlite": watch})
    assert f"{complaint}\nFAILED" in capsys.readouterr().out


def test_a_session_without_any_turn_is_noticed(watch: Watch) -> None:
    seen(watch).victims[FREE].expected = Expected()
    assert list(watch.unseen(MANY_KILLS)) == [f"{TURNS}: none of {FREE}"]


def test_a_few_kills_need_not_show_every_fate(watch: Watch) -> None:
    watch.counts.update({KILLS: 3, TURNS: 3})
    assert list(watch.unseen(3)) == []
    watch.counts[TURNS] = 2
    assert list(watch.unseen(3)) == [f"{TURNS}: only 2"]


# --- draining --------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_a_short_drain_loses_and_doubles_nothing(kind: str) -> None:
    report = python("-m", "benchmarks.drain", "--items", "300", "--store", kind)
    assert "OK: every item was settled exactly once" in report


@pytest.fixture
def drained(tmp_path: Path) -> Drain:
    """A drain whose one item was enqueued and settled, without any process."""
    place = Database(f"sqlite:///{tmp_path / 'store.db'}", "holdfast")
    made = Drain(place, 0, random.Random(0), workers=0)
    made.items = 1
    with holdfast.open(place.url) as store:
        store.queue.enqueue(drain_crew.draft(0, LANES))
        settle(store)
    return made


def settle(store: holdfast.Store) -> None:
    """Claim and complete what is in the first session."""
    outcome = store.sessions.claim_lease("session-0", holdfast.LeaseOwner("o", "i"))
    assert isinstance(outcome, holdfast.Acquired)
    claim = store.queue.claim(outcome.lease, "idle", 10)
    assert claim is not None
    drain_crew._complete(store, outcome.lease, claim, random.Random(0))
    store.sessions.release_lease(outcome.lease)


def audited(drain: Drain) -> set[str]:
    drain.audit()
    wrong = ("lost", "doubled", "left in the queue", "miscounted")
    return {name for name in wrong if drain.counts[name]}


def test_a_worker_that_fails_is_noticed(drained: Drain) -> None:
    assert audited(drained) == set()
    drained.place = drained.place._replace(url="nonsense://")
    drained.workers = [drained._worker()]
    drained.workers[0].process.join(60)

    drained._replace_failed()

    assert drained.counts[FAILED] == 1
    for worker in drained.workers:
        worker.kill()
        worker.close()
    assert not drained.is_well


def test_an_item_settled_once_is_well(drained: Drain) -> None:
    assert audited(drained) == set()
    assert drained.is_well


def test_a_lost_item_is_noticed(drained: Drain) -> None:
    drained.items = 2
    assert audited(drained) == {"lost"}
    assert not drained.is_well


def test_an_item_settled_twice_is_noticed(drained: Drain) -> None:
    with holdfast.open(drained.place.url) as store:
        store.sessions.prune_settled_source_keys("session-0", 2**62)
        store.queue.enqueue(drain_crew.draft(0, LANES))
        settle(store)
    assert audited(drained) == {"doubled"}
    assert not drained.is_well


def test_an_item_left_behind_is_noticed(drained: Drain) -> None:
    with holdfast.open(drained.place.url) as store:
        store.queue.enqueue(drain_crew.draft(LANES, LANES))
    assert audited(drained) == {"left in the queue"}
    assert not drained.is_well


def test_a_receipt_that_is_gone_is_noticed(drained: Drain) -> None:
    with holdfast.open(drained.place.url) as store:
        store.sessions.prune_settled_source_keys("session-0", 2**62)
    assert audited(drained) == set()
    assert not drained.is_well


# --- measuring -------------------------------------------------------------------------------


@pytest.mark.parametrize("small", groups.OPERATIONS, ids=lambda small: small.name)
def test_group_commit_is_measured(small: groups.Small) -> None:
    lines = list(groups._lines(2, groups._measure(small, 2, rounds=1, seconds=0.01)))
    assert [line.goal for line in lines] == ["S2", "S2", "S1", "S2", "S2", "S3"]
    assert all(line.ratio > 0 for line in lines)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", sizes.SHAPES)
def test_sizes_are_measured(kind: str, shape: str) -> None:
    with Bench() as bench:
        views = {size: sizes._session(bench, kind, shape, size) for size in (20, 30)}
        for size, view in views.items():
            assert view.picker_info().node_count == size
            assert view.load().graph.leaf_node_id == f"path-{size - 1 if shape == 'long' else 9}"
        lines = list(sizes._lines(shape, views, rounds=2))
    assert [(line.goal, line.wanted) for line in lines] == [("S8", "<= 1.5")] * 3


def test_reads_turns_and_light_commits_are_measured() -> None:
    lines = [*single._reads(1, 0.01), *single._light_commits(1, 0.01)]
    for kind in KINDS:
        lines += single._turns(kind, 2, 1, 0.01)
    assert [line.goal for line in lines] == ["S4"] * 3 + ["S5"] * 2 + ["S9"] * 4


def test_queued_work_is_measured() -> None:
    lines = [line for kind in KINDS for line in queues._lines(kind, 1, 0.01)]
    lines += queues._depths("sqlite", (5, 10), 1, 0.01)
    assert [line.goal for line in lines] == ["Q1"] * 12 + ["Q2"] * 4
    assert all(line.ratio > 0 for line in lines)


def test_large_files_are_measured() -> None:
    lines = list(files._lines(8, 1))
    memory = [("F1", "met")] if Path("/proc/self/status").exists() else []
    assert [(line.goal, line.verdict) for line in lines] == [*memory, ("F2", ""), ("F2", "")]
    assert all(line.ratio > 0 for line in lines)


TRIPS = [row for rows in trips.GROUPS for row in rows]
#: What answers nothing when it has done its work, and what is to find nothing to do.
SILENT = {
    "sessions.save_meta",
    "attachments.delete",
    "attachments.record_intent",
    "attachments.commit_refs",
}
IDLE = {"claim where nothing is ready", "claim at a checkpoint, nothing there"}


def test_the_trips_of_every_operation_are_counted() -> None:
    assert {row.operation for row in TRIPS} == EVERY.keys()


def test_what_trips_are_counted_on_is_really_done() -> None:
    for rows in trips.GROUPS:
        with holdfast.open("sqlite://") as store:
            answers = {row.title: perform(store, row.operation, *row.given(store)) for row in rows}
        empty = {title for title, answer in answers.items() if not answer or is_nothing(answer)}
        assert empty == {row.title for row in rows if row.operation in SILENT or row.title in IDLE}


def is_nothing(answer: Any) -> bool:
    counts = ("removed_node_count", "deleted_blob_count", "reclaimed_count")
    return answer == CheckpointWork() or 0 in [getattr(answer, name, None) for name in counts]


def test_no_operation_takes_more_trips_than_it_may(capsys: pytest.CaptureFixture[str]) -> None:
    trips.run(quick=True)
    table = capsys.readouterr().out
    assert table.count(" ok\n") == sum(row.budget is not None for row in TRIPS)
    assert "OVER" not in table


def test_every_goal_that_is_printed_is_explained() -> None:
    table = (ROOT / "benchmarks/README.md").read_text().partition("| Goal |")[2]
    explained = re.findall(r"^\| ([A-Z]\d+) \|", table, flags=re.MULTILINE)
    assert explained == list(get_args(Goal))


def test_a_ratio_is_the_median_of_the_rounds() -> None:
    took = Outcome({"ours": [1.0, 2.0, 9.0], "theirs": [1.0, 4.0, 3.0]})
    assert took.times("ours", "theirs") == 1.0
    assert took.median_us("ours") == 2e6


@pytest.mark.parametrize(
    ("line", "verdict"),
    [
        (Line("S", "w", 1.0), ""),
        (Line("S", "w", 1.0, at_most=1.0), "met"),
        (Line("S", "w", 1.1, at_most=1.0), "MISSED"),
        (Line("S", "w", 1.1, at_least=1.1), "met"),
        (Line("S", "w", 1.0, at_least=1.1), "MISSED"),
    ],
)
def test_a_line_says_whether_its_goal_was_met(line: Line, verdict: str) -> None:
    assert line.verdict == verdict


def test_a_turn_carries_28_kilobytes() -> None:
    commit = samples.turn("s")
    carried = sum(len(str(node.body)) for node in commit.graph.nodes) + len(samples.STATE)
    assert 27_000 < carried < 30_000
