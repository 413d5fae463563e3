"""From a URL, or from a lent pool, to a connection; and what is said when there is none."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import psycopg_pool
import pytest

from holdfast.errors import InvalidArgument, StoreUnavailable
from holdfast.postgres import conninfo
from holdfast.postgres import pool as postgres_pool
from holdfast.postgres.errors import fault
from holdfast.testing.wire import CountingProxy
from tests.unit.postgres.kit import Make, changed_url, put, unopened, write_files


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
        unopened(wrong, tmp_path).open()
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
