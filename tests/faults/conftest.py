"""The stage, on a file and on a server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from holdfast.testing.world import make_world
from tests.faults.stage import Stage


@pytest.fixture(scope="module", params=["file", "postgres"])
def stage(request: pytest.FixtureRequest) -> Iterator[Stage]:
    """A stage of each kind."""
    with make_world(request.param, "blocking") as world, ExitStack() as stack:
        yield Stage(world, stack)
