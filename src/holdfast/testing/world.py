"""The world a contract test runs in: one database, stores on it, a clock, and a way beneath.

Six worlds exist: three databases in two colours. A test asks for `world` (or for `store` and
`clock`), says what it needs, and is run in each.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import apsw

import holdfast
from holdfast.store import Store
from holdfast.testing.calm import Calm, Loop
from holdfast.testing.clock import ManualClock
from holdfast.testing.server import fresh_schema, postgres_url

DATABASES = ("file", "memory", "postgres")
COLOURS = ("blocking", "async")


class World:
    """One database and what a test does with it."""

    def __init__(self, database: str, colour: str, stack: ExitStack) -> None:
        self.database = database
        self.colour = colour
        self.clock = ManualClock()
        self._stack = stack
        self._loop = Loop() if colour == "async" else None
        self._real: list[Store] = []
        self.url = "sqlite://"
        self.schema = "holdfast"
        if database == "file":
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="holdfast-"))
            self.url = f"sqlite:///{Path(folder) / 'store.db'}"
        if database == "postgres":
            self.url = postgres_url()
            self.schema = stack.enter_context(fresh_schema(self.url))
        if self._loop is not None:
            stack.callback(self._loop.close)

    @property
    def is_durable(self) -> bool:
        """Whether a second store, also of another process, can open the same database."""
        return self.database != "memory"

    @property
    def is_server(self) -> bool:
        """Whether the database is a PostgreSQL server."""
        return self.database == "postgres"

    @property
    def path(self) -> Path:
        """The database file."""
        assert self.database == "file"
        return Path(self.url.removeprefix("sqlite:///"))

    # --- stores ------------------------------------------------------------------------

    def open(self, *, migrations: Path | None = None, **settings: Any) -> Any:
        """Another store on this database, with the world's clock unless told otherwise.

        In memory every store is a database of its own. With a folder of `migrations` it is that
        of a library that has those.
        """
        given = {"clock": self.clock} | settings
        if self.is_server:
            given.setdefault("schema", self.schema)
        store = holdfast.open(self.url, **given)
        if migrations is not None:
            backend: Any = store._core.backend
            backend._migrations_from = backend._migrations_in = migrations
        self._stack.callback(store.close)
        self._real.append(store)
        return self.calm(store)

    def calm(self, store: Store) -> Any:
        """The store in this world's colour, looking blocking."""
        return store if self._loop is None else Calm(store.aio, self._loop)

    def real(self, store: Any) -> Store:
        """The store object behind what `open` returned."""
        if isinstance(store, Store):
            return store
        real: Store = store._target.blocking
        return real

    def backend(self, store: Any) -> Any:
        """The backend under a store: its `counts` and its `on_statement` hook."""
        return self.real(store)._core.backend

    def defer(self, action: Callable[[], object]) -> None:
        """Do something when the world ends, before its stores are closed."""
        self._stack.callback(action)

    # --- beneath -----------------------------------------------------------------------

    def sql(self, store: Any, text: str, *values: Any) -> list[tuple[Any, ...]]:
        """Run SQL beneath the store, committed at once: to look, or to damage something.

        Tables are written `{node}`, values `?`.
        """
        with self.beneath(store) as run:
            return run(text, *values)

    @contextmanager
    def beneath(self, store: Any) -> Iterator[Callable[..., list[tuple[Any, ...]]]]:
        """A connection beneath the store, which runs SQL as `sql` does; BEGIN keeps it open."""
        connection = self._connect(store)
        try:
            yield lambda text, *values: self._run(connection, text, values)
        finally:
            connection.close()

    def tables(self, store: Any) -> list[str]:
        """The names of the store's tables, but for the record of its migrations."""
        listed = (
            self.sql(store, "SELECT tablename FROM pg_tables WHERE schemaname = ?", self.schema)
            if self.is_server
            else self.sql(
                store,
                "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%'",
            )
        )
        return sorted(name for (name,) in listed if name != "migration")

    def dump(self, store: Any) -> dict[str, list[tuple[Any, ...]]]:
        """Every row of every table: what there is to see of what an operation wrote."""
        names = self.tables(store)
        with self.beneath(store) as run:
            rows = {name: run(f"SELECT * FROM {{{name}}}") for name in names}  # noqa: S608
            return {name: sorted(found, key=repr) for name, found in rows.items()}

    @contextmanager
    def held(self, store: Any, session_id: str) -> Iterator[None]:
        """A stranger in the section of a session, who changes nothing."""
        with self.beneath(store) as run:
            run("BEGIN" if self.is_server else "BEGIN IMMEDIATE")
            if self.is_server:
                run("SELECT key FROM {session} WHERE id = ? FOR UPDATE", session_id)
            yield
            run("ROLLBACK")

    def _connect(self, store: Any) -> Any:
        if self.is_server:
            import psycopg

            return psycopg.connect(self.url, autocommit=True)
        name = str(self.path) if self.database == "file" else self.backend(store)._memory
        flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_URI
        connection = apsw.Connection(name, flags=flags)
        connection.set_busy_timeout(5_000)
        return connection

    def _run(self, connection: Any, text: str, values: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        if not self.is_server:
            return list(connection.execute(re.sub(r"\{(\w+)\}", r"\1", text), values))
        placed = re.sub(r"\{(\w+)\}", rf'"{self.schema}".\1', text).replace("?", "%s")
        cursor = connection.execute(placed, values)
        return cursor.fetchall() if cursor.description else []


@contextmanager
def make_world(database: str, colour: str) -> Iterator[World]:
    """A fresh world; everything it opened is closed and removed afterwards."""
    with ExitStack() as stack:
        yield World(database, colour, stack)


def racing(count: int, action: Callable[[int], Any]) -> list[Any]:
    """What `action(0..count-1)` returned or raised, all started at the same moment on threads."""
    import threading
    from concurrent.futures import ThreadPoolExecutor

    barrier = threading.Barrier(count)

    def one(number: int) -> Any:
        barrier.wait()
        try:
            return action(number)
        except Exception as error:
            return error

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(one, range(count)))
