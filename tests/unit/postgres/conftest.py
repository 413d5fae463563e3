"""Backends on a real server, each test in a schema of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.postgres.driver import PostgresBackend
from holdfast.testing.server import fresh_schema, postgres_url
from holdfast.testing.wire import CountingProxy
from tests.unit.postgres.kit import Make, unopened, write_files


@pytest.fixture(scope="module")
def url() -> str:
    return postgres_url()


@pytest.fixture
def schema(url: str) -> Iterator[str]:
    with fresh_schema(url) as name:
        yield name


@pytest.fixture
def make(url: str, schema: str, tmp_path: Path) -> Iterator[Make]:
    """Opened backends on one schema, closed at the end."""
    made: list[PostgresBackend] = []
    write_files(tmp_path)

    def open_backend(target: Any = None, **settings: Any) -> PostgresBackend:
        backend = unopened(target or url, tmp_path, **{"schema": schema, **settings})
        made.append(backend)
        backend.open()
        return backend

    yield open_backend
    for backend in made:
        backend.close()


@pytest.fixture
def backend(make: Make) -> PostgresBackend:
    return make()


@pytest.fixture
def proxy(url: str) -> Iterator[CountingProxy]:
    with CountingProxy(url) as between:
        yield between
