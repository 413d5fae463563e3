"""Every statement of every write fails once, before and after it ran: what is left is whole.

Nobody chooses where to fail, so no place is forgotten. A first run, undisturbed, looks at the
database from outside at every moment: what is committed then has to be there, and nothing else,
when the same run fails at that moment.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from holdfast.testing.world import World, make_world
from tests.faults.scenarios import LEVERS, WRITES, Scenario

Dump = dict[str, list[tuple[Any, ...]]]
Hook = Callable[[str, str], None]


#: Of the server's tables: whatever draws from one would differ from run to run.
SEQUENCES = (
    "session_key_seq",
    "branch_id_seq",
    "blob_key_seq",
    "work_seq_seq",
    "turn_input_seq_seq",
    "attachment_staging_key_seq",
)


class InjectedFault(Exception):
    """The operation goes no further."""


class Tokens:
    """Tokens that are the same in every run."""

    def __init__(self) -> None:
        self.numbers = itertools.count()

    def token(self) -> str:
        return f"token {next(self.numbers)}"


class Stage:
    """A store on which a scenario is played again and again, from the same beginning."""

    def __init__(self, world: World, stack: ExitStack) -> None:
        self.world = world
        self.tokens = Tokens()
        self.store = world.open(ids=self.tokens)
        self.store.sessions.list()
        self.tables = world.tables(self.store)
        self.run = stack.enter_context(world.beneath(self.store))

    def play(self, scenario: Scenario, hook: Hook | None) -> None:
        self._clear()
        given = scenario.prepare(self.store)
        backend = self.world.backend(self.store)
        backend.on_statement = hook
        try:
            scenario.act(self.store, given)
        finally:
            backend.on_statement = None

    def dump(self) -> Dump:
        found = {name: self.run(f"SELECT * FROM {{{name}}}") for name in self.tables}
        return {name: sorted(rows, key=repr) for name, rows in found.items()}

    def _clear(self) -> None:
        self.tokens.numbers = itertools.count()
        self.run("BEGIN" if self.world.is_server else "BEGIN IMMEDIATE")
        for name in self.tables:
            self.run(f"DELETE FROM {{{name}}}")
        if self.world.is_server:
            for sequence in SEQUENCES:
                self.run(f"ALTER SEQUENCE {{{sequence}}} RESTART")
        else:
            self.run("DELETE FROM sqlite_sequence")
        self.run("COMMIT")


@pytest.fixture(scope="module", params=["file", "postgres"])
def stage(request: pytest.FixtureRequest) -> Iterator[Stage]:
    with make_world(request.param, "blocking") as world, ExitStack() as stack:
        yield Stage(world, stack)


def _undisturbed(stage: Stage, scenario: Scenario) -> tuple[list[tuple[str, str]], list[Dump]]:
    """The moments of a scenario, and what is committed at each; at last, when it has ended."""
    moments: list[tuple[str, str]] = []
    committed: list[Dump] = []

    def look(name: str, when: str) -> None:
        moments.append((name, when))
        committed.append(stage.dump())

    stage.play(scenario, look)
    return moments, [*committed, stage.dump()]


def _failing_at(moment: int) -> Hook:
    moments = itertools.count()

    def fail(_name: str, _when: str) -> None:
        if next(moments) == moment:
            raise InjectedFault

    return fail


def _fails_everywhere(stage: Stage, scenario: Scenario) -> list[Dump]:
    """Fail at every moment; the states of the database there were, in order."""
    moments, committed = _undisturbed(stage, scenario)
    for moment, (name, when) in enumerate(moments):
        with pytest.raises(InjectedFault):
            stage.play(scenario, _failing_at(moment))
        assert stage.dump() == committed[moment], f"failed {when} {name}, moment {moment}"
    assert moments[-1][1] == "after"
    assert committed[-2] == committed[-1], "a failure behind the commit takes nothing back"
    return [state for state, _ in itertools.groupby(committed)]


@pytest.mark.parametrize("name", WRITES)
def test_a_failed_write_leaves_nothing_or_everything(stage: Stage, name: str) -> None:
    states = _fails_everywhere(stage, WRITES[name])

    assert len(states) == 2, "it wrote nothing, or it could be seen half done"


@pytest.mark.parametrize("name", LEVERS)
def test_a_failed_lever_leaves_whole_batches(stage: Stage, name: str) -> None:
    states = _fails_everywhere(stage, LEVERS[name])

    assert len(states) >= 3, "too little to do for two batches"
