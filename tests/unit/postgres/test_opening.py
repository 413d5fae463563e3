"""Opening: versions, racing openers, what is no store."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

from holdfast.errors import (
    NotAStore,
    StoreUnavailable,
    UnsupportedStoreVersion,
)
from holdfast.postgres.driver import PostgresBackend
from holdfast.postgres.migrate import Opening
from holdfast.transaction import Mode
from tests.unit.postgres.kit import (
    Make,
    changed_url,
    get,
    put,
    python_path,
    single,
    unopened,
    write_files,
)


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
