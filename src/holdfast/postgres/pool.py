"""The connections of one store: a pool of its own, or one its host lent it."""

from __future__ import annotations

from typing import Any

import psycopg
import psycopg_pool
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from holdfast.errors import InvalidArgument
from holdfast.postgres import limits
from holdfast.postgres.errors import Failure
from holdfast.postgres.link import Connection, Link, Memory, memories
from holdfast.settings import Settings

Pool = psycopg_pool.ConnectionPool[Any]

_CONNECT_TIMEOUT_S = 5
# A server that vanished without a word is noticed within a minute.
_KEEPALIVES = {
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 60_000,
}


class Connections:
    """Hands out living connections and takes them back."""

    def __init__(self, target: str | Pool, settings: Settings) -> None:
        self._settings = settings
        #: Whether the pool is the host's, whose connections it may use for other things.
        self.lent = not isinstance(target, str)
        if isinstance(target, str):
            self._conninfo = _conninfo(target, settings)
            self._pool: Pool | None = None
        elif isinstance(target, psycopg_pool.ConnectionPool):
            self._pool = target
        else:
            raise InvalidArgument("url", "must be a URL or a psycopg_pool.ConnectionPool")

    def first(self) -> Link:
        """A connection to look at the database with, before anything else; close with `done`."""
        if self._pool is not None:
            return self.take()
        try:
            return self._remember(self._connect())
        except psycopg.Error as error:
            raise Failure(" ".join(str(error).split()), lost=True) from None

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

    def take(self) -> Link:
        """A connection that is alive; waits for one as long as the settings allow."""
        assert self._pool is not None
        while True:
            try:
                connection = self._pool.getconn()
            except (psycopg_pool.PoolTimeout, psycopg_pool.TooManyRequests) as error:
                raise Failure(str(error), lost=True) from None
            except psycopg.Error as error:
                raise Failure(f"no connection: {error}") from None
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

    def _own_pool(self) -> Pool:
        settings = self._settings
        return psycopg_pool.ConnectionPool(
            self._conninfo,
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


def _conninfo(url: str, settings: Settings) -> str:
    try:
        given = conninfo_to_dict(url)
    except psycopg.ProgrammingError:
        # Without the driver's words, which may quote the password.
        raise InvalidArgument("url", "is not a valid PostgreSQL URL") from None
    if not all(port.isdigit() for port in str(given.get("port", "5432")).split(",") if port):
        raise InvalidArgument("url", "its port is not a number")
    options = [
        str(given.get("options") or ""),
        *(f"-c {name}={value}" for name, value in limits.of_connections(settings).items()),
    ]
    if settings.read_only:
        options.append("-c default_transaction_read_only=on")
    ours: dict[str, Any] = {
        "connect_timeout": _CONNECT_TIMEOUT_S,
        "application_name": "holdfast",
        **_KEEPALIVES,
        **given,
        "client_encoding": "UTF8",
        "options": " ".join(options).strip(),
    }
    return make_conninfo("", **ours)
