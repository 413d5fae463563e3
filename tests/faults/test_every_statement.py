"""Every statement of every write fails once, before and after it ran: what is left is whole.

Nobody chooses where to fail, so no place is forgotten. A first run, undisturbed, looks at the
database from outside at every moment: what is committed then has to be there, and nothing else,
when the same run fails at that moment.
"""

from __future__ import annotations

import itertools

import pytest

from tests.faults import scenarios, work_scenarios
from tests.faults.scenarios import Scenario
from tests.faults.stage import Dump, Hook, InjectedFault, Stage

WRITES = scenarios.WRITES | work_scenarios.WRITES
LEVERS = scenarios.LEVERS | work_scenarios.LEVERS


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


@pytest.mark.invariant("INV-2")
@pytest.mark.parametrize("name", WRITES)
def test_a_failed_write_leaves_nothing_or_everything(stage: Stage, name: str) -> None:
    states = _fails_everywhere(stage, WRITES[name])

    assert len(states) == 2, "it wrote nothing, or it could be seen half done"


@pytest.mark.parametrize("name", LEVERS)
def test_a_failed_lever_leaves_whole_batches(stage: Stage, name: str) -> None:
    states = _fails_everywhere(stage, LEVERS[name])

    assert len(states) >= 3, "too little to do for two batches"
