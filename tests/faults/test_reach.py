"""No writing statement is left out: each is one that some scenario makes fail."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from holdfast import statements
from tests.faults.scenarios import Scenario
from tests.faults.stage import Stage
from tests.faults.test_attachments import PUTS, name_store, prepare_sweep, put_broken, sweep
from tests.faults.test_every_statement import LEVERS, WRITES

_WRITING = re.compile(r"\b(INSERT INTO|DELETE FROM|UPDATE [a-z{])")


def _alone(act: Callable[[Any], Any]) -> Scenario:
    return Scenario(lambda _store: None, lambda store, _given: act(store))


#: What `test_attachments` plays.
_ATTACHMENTS = {
    **{f"put_{name}": _alone(put) for name, put in PUTS.items()},
    "put_broken": _alone(put_broken),
    "name_store": _alone(name_store),
    "sweep": Scenario(prepare_sweep, lambda store, _: sweep(store)),
}


def _writing(dialect: str) -> set[str]:
    found = statements.load(f"holdfast.{dialect}.statements")
    return {name for name, each in found.items() if _WRITING.search(statements.code(each.sql))}


def test_every_writing_statement_is_made_to_fail(stage: Stage) -> None:
    reached = set[str]()
    for scenario in (WRITES | LEVERS | _ATTACHMENTS).values():
        stage.play(scenario, lambda name, _when: reached.add(name))

    writing = _writing("postgres" if stage.world.is_server else "sqlite")
    assert len(writing) > 50
    assert writing - reached == set()
