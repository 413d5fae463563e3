"""Empty databases to try things on, gone afterwards."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import holdfast
from holdfast.testing.server import fresh_schema, postgres_url

KINDS = ("sqlite", "postgres")


class Database(NamedTuple):
    """Where it is, and the schema to use there."""

    url: str
    schema: str

    @property
    def path(self) -> str:
        """The file, where it is one."""
        return self.url.removeprefix("sqlite:///")


@contextmanager
def database(kind: str) -> Iterator[Database]:
    """An empty SQLite file, or an empty schema of a PostgreSQL server."""
    if kind == "sqlite":
        with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as folder:
            yield Database(f"sqlite:///{Path(folder) / 'store.db'}", "holdfast")
    else:
        url = postgres_url()
        with fresh_schema(url, "bench") as schema:
            yield Database(url, schema)


class Bench(ExitStack):
    """Databases and stores that are closed together."""

    def database(self, kind: str) -> Database:
        """An empty database."""
        return self.enter_context(database(kind))

    def open(self, place: Database, **settings: Any) -> holdfast.Store:
        """A store on a database."""
        return self.enter_context(holdfast.open(place.url, schema=place.schema, **settings))

    def store(self, kind: str, **settings: Any) -> holdfast.Store:
        """A store on an empty database of its own."""
        return self.open(self.database(kind), **settings)
