"""A store on which one scenario after the other is played, with faults or without."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from holdfast.testing.world import World
from tests.faults.scenarios import Scenario

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
        self.clear()
        given = scenario.prepare(self.store)
        backend = self.world.backend(self.store)
        backend.on_statement = hook
        try:
            scenario.act(self.store, given)
        finally:
            backend.on_statement = None

    def dump(self) -> Dump:
        """What is committed, seen from outside."""
        found = {name: self.run(f"SELECT * FROM {{{name}}}") for name in self.tables}
        return {name: sorted(rows, key=repr) for name, rows in found.items()}

    def clear(self) -> None:
        """An empty database, whose numbers begin anew."""
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
