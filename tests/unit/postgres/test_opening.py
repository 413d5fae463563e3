"""Opening: versions, racing openers, what is no store."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import psycopg
import psycopg_pool
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from holdfast.errors import (
    InvalidArgument,
    NotAStore,
    StoreUnavailable,
    UnsupportedStoreVersion,
)
from holdfast.postgres import conninfo
from holdfast.postgres import pool as postgres_pool
from holdfast.postgres.driver import PostgresBackend
from holdfast.postgres.errors import fault
from holdfast.postgres.migrate import Opening
from holdfast.testing.wire import CountingProxy
from holdfast.transaction import Mode
from tests.unit.postgres.kit import Make, get, put, python_path, single, unopened, write_files


def test_racing_openers_all_succeed(url: str, schema: str, tmp_path: Path) -> None:
    write_files(tmp_path, "CREATE TABLE holdfast.second (k text)")
    backends = [unopened(url, tmp_path, schema=schema) for _ in range(16)]
    with ThreadPoolExecutor(16) as threads:
        list(threads.map(PostgresBackend.open, backends))
    for n, backend in enumerate(backends):
        backend.run(put(str(n)))
    assert len(backends[0].run(single(Mode.SMALL_READ, "pairs"))) == 16
    for backend in backends:
        backend.close()


def test_an_absent_store_is_not_made_unasked(url: str, schema: str, tmp_path: Path) -> None:
    write_files(tmp_path)
    for settings in ({"create": False}, {"read_only": True}):
        with pytest.raises(NotAStore):
            unopened(url, tmp_path, schema=schema, **settings).open()
    with psycopg.connect(url) as connection:
        found = connection.execute("SELECT FROM pg_namespace WHERE nspname = %s", [schema])
        assert found.fetchone() is None


@pytest.mark.parametrize(
    ("other", "relations"),
    [
        ("TABLE {}.migration (id int)", 1),
        ("TABLE {}.t (id int)", 1),
        ("TYPE {}.mood AS ENUM ('fine')", 0),
        ("DOMAIN {}.count AS int", 0),
        ("FUNCTION {}.f() RETURNS int LANGUAGE sql AS 'SELECT 1'", 0),
    ],
)
def test_a_schema_of_another_program_is_left_alone(
    url: str, schema: str, tmp_path: Path, other: str, relations: int
) -> None:
    write_files(tmp_path)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(schema)))
        connection.execute(sql.SQL(f"CREATE {other}").format(sql.Identifier(schema)))
        with pytest.raises(NotAStore):
            unopened(url, tmp_path, schema=schema).open()
        count = "SELECT count(*) FROM pg_class WHERE relnamespace = %s::regnamespace"
        assert connection.execute(count, [schema]).fetchone() == (relations,)


@pytest.mark.parametrize(
    "made",
    ["CREATE SCHEMA {0} AUTHORIZATION {1}", "CREATE SCHEMA {0}; GRANT ALL ON SCHEMA {0} TO {1}"],
)
def test_an_empty_schema_made_for_us_is_enough(
    url: str, schema: str, tmp_path: Path, made: str
) -> None:
    """The role may not create schemas in the database."""
    write_files(tmp_path)
    role = sql.Identifier(f"role_{schema}")
    prepared = sql.SQL(made).format(sql.Identifier(schema), role)
    with psycopg.connect(url, autocommit=True) as dba:
        dba.execute(sql.SQL("CREATE ROLE {} LOGIN").format(role))
        try:
            dba.execute(prepared)
            backend = unopened(changed_url(url, user=f"role_{schema}"), tmp_path, schema=schema)
            backend.open()
            assert backend.run(put("a"))["n"] == 1
            backend.close()
        finally:
            dba.execute(sql.SQL("DROP OWNED BY {0} CASCADE; DROP ROLE {0}").format(role))


def changed_url(url: str, **changed: str) -> str:
    """The URL with other parameters."""
    return f"postgresql:///?{urlencode(conninfo_to_dict(url) | changed, quote_via=quote)}"


def test_migrating_is_under_the_idle_timeout_too(
    url: str, schema: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_files(tmp_path)
    applying = Opening._apply

    def look_aside(self: Opening, migration: Any) -> None:
        seen.append(self._rows("limit", "SHOW idle_in_transaction_session_timeout")[0])
        applying(self, migration)

    seen: list[Any] = []
    monkeypatch.setattr(Opening, "_apply", look_aside)
    unopened(url, tmp_path, schema=schema, idle_in_transaction_ms=700).open()
    assert seen == [{"idle_in_transaction_session_timeout": "700ms"}]


def test_schema_numbers_decide_how_a_store_opens(
    make: Make, url: str, schema: str, tmp_path: Path
) -> None:
    make().run(put("a", 1))
    newer = tmp_path / "newer"
    newer.mkdir()
    write_files(newer, "CREATE TABLE holdfast.second (k text)", reader=1, writer=2)
    for settings in ({"migrate": False}, {"read_only": True}):
        with pytest.raises(UnsupportedStoreVersion) as old:
            unopened(url, newer, schema=schema, **settings).open()
        assert (old.value.component, old.value.found) == ("schema", 1)
    migrated = unopened(url, newer, schema=schema)
    migrated.open()
    assert (migrated.read_only, migrated.run(get("a"))["n"]) == (False, 1)
    older = make()
    assert (older.read_only, older.run(get("a"))["n"]) == (True, 1)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            sql.SQL("UPDATE {}.migration SET oldest_reader = 2 WHERE number = 2").format(
                sql.Identifier(schema)
            )
        )
    with pytest.raises(UnsupportedStoreVersion) as new:
        make()
    assert (new.value.found, new.value.supported_max) == (2, 1)
    migrated.close()


def test_a_migration_that_fails_leaves_nothing(url: str, schema: str, tmp_path: Path) -> None:
    write_files(tmp_path, "CREATE TABLE holdfast.second (k text); SELECT 1/0;")
    with pytest.raises(StoreUnavailable):
        unopened(url, tmp_path, schema=schema).open()
    with psycopg.connect(url) as connection:
        found = connection.execute("SELECT FROM pg_namespace WHERE nspname = %s", [schema])
        assert found.fetchone() is None


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ("postgresql://h:port/x", "its port is not a number from 1 to 65535"),
        ("postgresql://h:99999/x", "its port is not a number from 1 to 65535"),
        ("postgresql://h:0/x", "its port is not a number from 1 to 65535"),
        ("postgresql:///x?host=a,b,c&port=1,2", "has another number of ports than of hosts"),
        ("postgresql://u:%zz@h/x", "is not a valid PostgreSQL URL"),
        ("postgresql://u:secret@h/x?nonsense=secret", "is not a valid PostgreSQL URL"),
        ("postgresql://h/x?application_name=%ff", "is not a valid PostgreSQL URL"),
        ("postgresql://u:sec@ret@h/x", "has an @ in its host; in a password it is written %40"),
        ("postgresql://a..b/x", "its host is not a name"),
        ("postgresql://u:secret@h/x?connect_timeout=secret", "its connect_timeout is not a number"),
        ("postgresql://h/x?keepalives_idle=1s", "its keepalives_idle is not a number"),
        ("postgresql://u:secret@h/x?sslmode=secret", "its sslmode is not valid"),
        (
            "postgresql://h/x?target_session_attrs=any-at-all",
            "its target_session_attrs is not valid",
        ),
        ("postgresql:///?service=nobody_defined_it", "its service is not valid"),
        (7, "must be a URL or a psycopg_pool.ConnectionPool"),
    ],
)
def test_a_wrong_url_is_an_invalid_argument(wrong: Any, reason: str, tmp_path: Path) -> None:
    write_files(tmp_path)
    with pytest.raises(InvalidArgument) as refused:
        unopened(wrong, tmp_path)
    assert (refused.value.field, refused.value.reason) == ("url", reason)


@pytest.mark.parametrize(
    "right",
    [
        "postgresql://[::1]:5432/x",
        "postgresql://a,b:5433/x?connect_timeout=-1&sslmode=require",
        "postgres://u:p%40ss@host.example/x?options=-c%20geqo%3Doff",
        "postgresql:///x?host=@abstract",
        "postgresql:///x?hostaddr=10.0.0.1",
    ],
)
def test_a_right_url_is_accepted_without_connecting(right: str, tmp_path: Path) -> None:
    write_files(tmp_path)
    unopened(right, tmp_path).close()


def test_an_unreachable_server_is_told_at_once(url: str, tmp_path: Path) -> None:
    write_files(tmp_path)
    with CountingProxy(url) as gone:
        pass
    begun = time.monotonic()
    with pytest.raises(StoreUnavailable) as told:
        unopened(gone.url, tmp_path).open()
    assert told.value.retryable
    assert time.monotonic() - begun < 2


@pytest.mark.parametrize(
    ("changed", "cause"),
    [({"dbname": "no_such"}, "database"), ({"user": "no_such"}, "role")],
)
def test_what_waiting_does_not_help_is_not_to_be_tried_again(
    url: str, tmp_path: Path, changed: dict[str, str], cause: str
) -> None:
    write_files(tmp_path)
    with pytest.raises(StoreUnavailable, match=f'{cause} "no_such" does not exist') as told:
        unopened(changed_url(url, **changed), tmp_path).open()
    assert not told.value.retryable


@pytest.mark.parametrize(
    ("words", "may_pass"),
    [
        ('FATAL:  password authentication failed for user "u"', False),
        ('FATAL:  no pg_hba.conf entry for host "1.2.3.4"', False),
        ("fe_sendauth: no password supplied", False),
        ('FATAL:  permission denied for database "x"', False),
        ("FATAL:  no such database: x", False),
        ("server does not support SSL, but SSL was required", False),
        ("FATAL:  the database system is starting up", True),
        ("FATAL:  sorry, too many clients already", True),
        ("failed to resolve host 'h': Name or service not known", True),
        ("connection timeout expired", True),
    ],
)
def test_the_words_of_a_refusal_say_whether_it_may_pass(words: str, may_pass: bool) -> None:
    assert fault(conninfo.refused(words), "open").retryable is may_pass  # type: ignore[attr-defined]


def test_a_lent_pool_without_a_server_says_so(tmp_path: Path, url: str) -> None:
    write_files(tmp_path)
    with CountingProxy(url) as gone:
        pass
    with (
        psycopg_pool.ConnectionPool(gone.url, min_size=1, timeout=30, open=True) as pool,
        pytest.raises(StoreUnavailable, match="Connection refused") as told,
    ):
        unopened(pool, tmp_path).open()
    assert told.value.retryable


def test_a_lent_pool_that_is_only_busy_is_waited_for(
    make: Make, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.postgres.pool._PATIENCE_S", 0.05)
    with psycopg_pool.ConnectionPool(url, min_size=1, max_size=1, open=True) as pool:
        connection = pool.getconn()

        def give_back(asked: Any) -> Any:
            pool.putconn(connection)
            return another_of(asked)

        another_of = postgres_pool._another_of
        monkeypatch.setattr(postgres_pool, "_another_of", give_back)
        assert make(pool).run(put("a"))["n"] == 1


def test_a_pooler_that_takes_no_options_is_given_none(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refusing(conninfo: str, **kwargs: Any) -> Any:
        if "lock_timeout" in conninfo:
            raise psycopg.OperationalError("unsupported startup parameter in options: lock_timeout")
        return psycopg.Connection.connect(conninfo, **kwargs)

    monkeypatch.setattr(psycopg, "connect", refusing)
    assert make().run(put("a"))["n"] == 1


def test_a_server_too_old_is_refused(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_files(tmp_path)
    monkeypatch.setattr("holdfast.postgres.migrate.server_version", lambda link: 13)
    with pytest.raises(UnsupportedStoreVersion) as refused:
        unopened(url, tmp_path).open()
    assert (refused.value.component, refused.value.found) == ("server", 13)


def test_without_psycopg_the_url_is_refused_and_says_why() -> None:
    script = """
        import sys
        sys.modules["psycopg"] = None
        from holdfast.postgres.driver import PostgresBackend
        from holdfast.settings import Settings
        try:
            PostgresBackend("postgresql://x", Settings())
        except ValueError as refused:
            assert "holdfast[postgres]" in str(refused)
            sys.exit(7)
    """
    ran = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], check=False, env=python_path()
    )
    assert ran.returncode == 7
