"""The pytest plugin of the shipped contract suite.

`pytest -p holdfast.testing.plugin --pyargs holdfast.testing.contract` runs it where the package
is installed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from holdfast.testing.clock import ManualClock
from holdfast.testing.world import COLOURS, DATABASES, World, make_world

MARKERS = [
    "scenario(*ids): the contract scenarios this test shows; see docs/contract",
    "invariant(*ids): the invariants this test defends; see docs/invariants.md",
]
WORLDS = [(database, colour) for database in DATABASES for colour in COLOURS]


def pytest_configure(config: pytest.Config) -> None:
    """Make the suite's markers known."""
    for marker in MARKERS:
        config.addinivalue_line("markers", marker)


@pytest.fixture(params=WORLDS, ids="-".join)
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    """A fresh database in one of the six ways the contract is held to."""
    with make_world(*request.param) as made:
        yield made


@pytest.fixture
def store(world: World) -> Any:
    """An open store of the world."""
    return world.open()


@pytest.fixture
def clock(world: World) -> ManualClock:
    """The clock of the world's stores."""
    return world.clock


@pytest.fixture(params=[made for made in WORLDS if made[0] != "memory"], ids="-".join)
def durable(request: pytest.FixtureRequest) -> Iterator[World]:
    """A world whose database can be opened again: for what is about nothing else."""
    with make_world(*request.param) as made:
        yield made
