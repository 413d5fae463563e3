"""Nobody else's functions run in our role: not in a database where anybody may create some."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import psycopg_pool
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

import holdfast
from holdfast.postgres.driver import PostgresBackend
from holdfast.testing.contract.samples import chain, put
from holdfast.testing.wire import CountingProxy
from tests.unit.postgres.everything import do_everything
from tests.unit.postgres.kit import changed_url

# Each fits its arguments better than the server's own function of that name.
TRAPS = (
    "cardinality(text[]) RETURNS int",
    "unnest(text[]) RETURNS SETOF text",
    "unnest(bigint[]) RETURNS SETOF bigint",
    "unnest(bytea[]) RETURNS SETOF bytea",
    "concat_ws(text, text, text) RETURNS text",
    "concat_ws(text, text, text, text, text, text, text) RETURNS text",
    "generate_series(int, bigint) RETURNS SETOF bigint",
    "join_up(text, bigint) RETURNS text",
)
SPRING = " LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'trapped'; END $$"
OPERATOR = (
    "CREATE OPERATOR public.|| (FUNCTION = public.join_up, LEFTARG = text, RIGHTARG = bigint)"
)


@pytest.fixture(scope="module")
def hostile(url: str) -> Iterator[str]:
    """A database whose `public` is full of traps."""
    name = a_name("hostile")
    quoted = sql.Identifier(name)
    with psycopg.connect(url, autocommit=True) as server:
        server.execute(sql.SQL("CREATE DATABASE {}").format(quoted))
        its_url = changed_url(url, dbname=name)
        with psycopg.connect(its_url, autocommit=True) as stranger:
            for trap in TRAPS:
                stranger.execute(f"CREATE FUNCTION public.{trap}{SPRING}")
            stranger.execute(OPERATOR)
        yield its_url
        server.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(quoted))


@pytest.fixture
def without_options(monkeypatch: pytest.MonkeyPatch) -> Callable[[bool], None]:
    """Poolers stand between: they refuse what a connection wants set, or ignore it."""
    connect = psycopg.Connection.connect

    def put_between(refuses: bool) -> None:
        def through(conninfo: str = "", **given: Any) -> Any:
            if refuses and "search_path" in conninfo:
                raise psycopg.OperationalError("unsupported startup parameter: options")
            return connect(make_conninfo(conninfo, options=""), **given)

        monkeypatch.setattr(psycopg, "connect", through)
        monkeypatch.setattr(psycopg.Connection, "connect", through)

    return put_between


def a_name(stem: str) -> str:
    return f"{stem}_{secrets.token_hex(6)}"


def backend_of(store: Any) -> PostgresBackend:
    backend: PostgresBackend = store._core.backend
    return backend


def test_the_traps_work(hostile: str) -> None:
    with psycopg.connect(hostile, autocommit=True) as unguarded:
        for text in ("SELECT cardinality('{a}'::text[])", "SELECT 'a'::text || 1::bigint"):
            with pytest.raises(psycopg.errors.RaiseException, match="trapped"):
                unguarded.execute(text)


def test_a_connection_of_our_own_steps_into_no_trap(hostile: str) -> None:
    with holdfast.open(hostile, schema=a_name("own")) as store:
        do_everything(store)
        assert backend_of(store)._shared.inherited, "a lone statement needs nothing beside it"


def test_a_lent_connection_steps_into_no_trap_and_stays_as_it_is(hostile: str) -> None:
    with psycopg_pool.ConnectionPool(hostile, min_size=1, max_size=1, open=True) as pool:
        with holdfast.open(pool=pool, schema=a_name("lent")) as store:
            do_everything(store)
        with pool.connection() as connection:
            for name, before in (("search_path", '"$user", public'), ("lock_timeout", "0")):
                assert connection.execute(f"SHOW {name}").fetchone() == (before,)


@pytest.mark.parametrize("refuses", [True, False])
def test_a_poolers_connection_steps_into_no_trap(
    hostile: str, without_options: Callable[[bool], None], refuses: bool
) -> None:
    without_options(refuses)
    with holdfast.open(hostile, schema=a_name("pooled")) as store:
        do_everything(store)


def test_what_has_to_be_set_for_a_statement_takes_no_trip(
    hostile: str, without_options: Callable[[bool], None]
) -> None:
    without_options(False)
    with CountingProxy(hostile) as proxy, holdfast.open(proxy.url, schema=a_name("turns")) as store:
        put(store, "s1", graph=chain("a"))
        for number in range(3):
            turns = proxy.turns
            put(store, "s1", graph=chain(f"n{number}"))
            store.sessions.load_meta("s1")
            assert proxy.turns - turns == 2
