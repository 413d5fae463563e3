"""The connections of one store: a pool of its own, or one its host lent it."""

from __future__ import annotations

from collections import deque
from typing import Any

import psycopg
import psycopg_pool
from psycopg.conninfo import make_conninfo

from holdfast.errors import InvalidArgument
from holdfast.postgres import conninfo
from holdfast.postgres.errors import Failure
from holdfast.postgres.link import Connection, Link, Memory, memories
from holdfast.settings import Settings

Pool = psycopg_pool.ConnectionPool[Any]

# A pool that has nothing to give for so long is asked whether it can connect at all.
_PATIENCE_S = 3.0
# The shortest that libpq knows.
_ASKING_S = 2


class Connections:
    """Hands out living connections and takes them back."""

    def __init__(self, target: str | Pool, settings: Settings) -> None:
        self._settings = settings
        # Why the last attempt to connect of a pool of our own failed, if it did.
        self._refusal: deque[str] = deque(maxlen=1)
        #: Whether the pool is the host's, whose connections it may use for other things.
        self.lent = not isinstance(target, str)
        if isinstance(target, str):
            self._conninfo = conninfo.from_url(target, settings)
            self._pool: Pool | None = None
        elif isinstance(target, psycopg_pool.ConnectionPool):
            self._pool = target
        else:
            raise InvalidArgument("url", "must be a URL or a psycopg_pool.ConnectionPool")

    def first(self) -> Link:
        """A connection to look at the database with, before anything else; close with `done`."""
        if self._pool is not None:
            return self._first_lent(self._pool)
        conninfo.try_out(self._conninfo)
        try:
            return self._remember(self._connect())
        except psycopg.Error as error:
            raise conninfo.refused(str(error)) from None

    def done(self, link: Link) -> None:
        """Give the first connection back."""
        if self._pool is not None:
            self.give(link)
        else:
            link.discard()

    def start(self) -> int:
        """Make the pool ready; how many operations may be under way on it."""
        if self._pool is None:
            self._pool = self._own_pool()
            self._pool.open()
        # A pool that keeps no connections may know no limit to their number.
        return self._pool.max_size or self._settings.pool_size

    def take(self, timeout_s: float | None = None) -> Link:
        """A connection that is alive; waits for one as long as the pool's settings allow."""
        assert self._pool is not None
        while True:
            try:
                connection = self._pool.getconn(timeout_s)
            except psycopg.Error as error:
                raise self._none_to_give(error) from None
            try:
                link = self._remember(connection)
            except BaseException:
                self._pool.putconn(connection)
                raise
            if link.is_alive():
                return link
            link.discard()
            self._pool.putconn(connection)

    def give(self, link: Link) -> None:
        """Take a connection back; one that is broken is replaced."""
        assert self._pool is not None
        self._pool.putconn(link.connection)

    def close(self) -> None:
        """Close a pool of our own; a lent one stays as it is."""
        if self._pool is not None and not self.lent:
            self._pool.close()

    def _none_to_give(self, error: psycopg.Error) -> Failure:
        if isinstance(error, psycopg_pool.PoolClosed):
            return Failure(f"no connection: {error}")
        return conninfo.refused("; ".join([str(error), *self._refusal]))

    def _first_lent(self, pool: Pool) -> Link:
        try:
            return self.take(min(_PATIENCE_S, pool.timeout))
        except Failure as failure:
            if not failure.lost:
                raise
        # The pool tries on and keeps to itself why, so ask; where it is only busy, wait in line.
        try:
            _another_of(pool).close()
        except psycopg.Error as error:
            raise conninfo.refused(str(error)) from None
        return self.take()

    def _remember(self, connection: Connection) -> Link:
        memory = memories.get(connection)
        if memory is None:
            if connection.pgconn.parameter_status(b"client_encoding") != b"UTF8":
                raise InvalidArgument("url", "connections must have the client encoding UTF8")
            memory = memories[connection] = Memory()
        return Link(connection, memory)

    def _connect(self) -> Connection:
        try:
            return psycopg.connect(self._conninfo, autocommit=True)
        except psycopg.OperationalError as error:
            if "startup parameter" not in str(error):
                raise
        # Some poolers take no options. Each transaction then sets them for itself.
        self._conninfo = make_conninfo(self._conninfo, options="")
        return psycopg.connect(self._conninfo, autocommit=True)

    def _noticing(self) -> type[Connection]:
        """A class of connections that leave word of why they could not be made."""
        refusal = self._refusal

        class Noticing(psycopg.Connection[Any]):
            @classmethod
            def connect(cls, *args: Any, **kwargs: Any) -> Any:
                try:
                    made = super().connect(*args, **kwargs)
                except psycopg.Error as error:
                    refusal.append(str(error))
                    raise
                refusal.clear()
                return made

        return Noticing

    def _own_pool(self) -> Pool:
        settings = self._settings
        return psycopg_pool.ConnectionPool(
            self._conninfo,
            connection_class=self._noticing(),
            kwargs={"autocommit": True},
            min_size=0,
            max_size=settings.pool_size,
            timeout=settings.pool_timeout_ms / 1000,
            max_idle=settings.pool_max_idle_ms / 1000,
            max_lifetime=settings.pool_max_lifetime_ms / 1000,
            name="holdfast",
            open=False,
        )


def server_version(link: Link) -> int:
    """The server's major version."""
    return link.connection.pgconn.server_version // 10_000


def server_encoding(link: Link) -> bytes | None:
    """How the database stores text."""
    return link.connection.pgconn.parameter_status(b"server_encoding")


def _another_of(pool: Pool) -> Connection:
    """A connection made as the pool makes its own."""
    given: Any = pool.kwargs() if callable(pool.kwargs) else pool.kwargs
    where = pool.conninfo() if callable(pool.conninfo) else pool.conninfo
    given = {**(given or {}), "connect_timeout": _ASKING_S}
    made: Connection = pool.connection_class.connect(where or "", **given)
    return made
