"""From a URL to what libpq is told, and what it means when that leads to no connection."""

from __future__ import annotations

import re
from typing import Any

import psycopg
from psycopg import pq
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from holdfast.errors import InvalidArgument
from holdfast.postgres import limits
from holdfast.postgres.errors import Failure
from holdfast.settings import Settings

CONNECT_TIMEOUT_S = 5
# A server that vanished without a word is noticed within a minute.
_KEEPALIVES = {
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 60_000,
}
_NUMBERS = ("connect_timeout", "keepalives", *_KEEPALIVES)
_NOWHERE = "/holdfast/nowhere"

# libpq keeps a refused connection's SQLSTATE to itself, so these are words, of servers and of
# poolers. In another language nothing is recognized, and it looks as if waiting could help.
_HOPELESS = re.compile(
    r"(database|role) .* does not exist"
    r"|no such (database|user)"
    r"|authentication failed"
    r"|no password supplied"
    r"|no pg_hba\.conf entry"
    r"|permission denied for database"
    r"|server does not support SSL"
)


def from_url(url: str, settings: Settings) -> str:
    """What to connect with; `InvalidArgument` without the driver's words, which may quote it."""
    try:
        given = conninfo_to_dict(url)
    except (psycopg.ProgrammingError, UnicodeError):
        raise InvalidArgument("url", "is not a valid PostgreSQL URL") from None
    _check(given)
    options = [
        str(given.get("options") or ""),
        *(f"-c {name}={value}" for name, value in limits.of_connections(settings).items()),
    ]
    if settings.read_only:
        options.append("-c default_transaction_read_only=on")
    ours: dict[str, Any] = {
        "connect_timeout": CONNECT_TIMEOUT_S,
        "application_name": "holdfast",
        **_KEEPALIVES,
        **given,
        "client_encoding": "UTF8",
        "options": " ".join(options).strip(),
    }
    return make_conninfo("", **ours)


def try_out(conninfo: str) -> None:
    """Let libpq judge the rest, as it does before it connects: to a place that is not there."""
    given = conninfo_to_dict(conninfo)
    elsewhere = {**given, "host": _NOWHERE, "hostaddr": "", "port": ""}
    tried = pq.PGconn.connect_start(make_conninfo("", **elsewhere).encode())
    words = tried.get_error_message()
    tried.finish()
    if _NOWHERE not in words:
        wrong = next((f"its {name}" for name in given if name in words), "one of its parameters")
        raise InvalidArgument("url", f"{wrong} is not valid")


def refused(words: str) -> Failure:
    """An attempt to connect that failed: it may be made again, unless that is hopeless."""
    return Failure(" ".join(words.split()), lost=not _HOPELESS.search(words))


def _check(given: dict[str, Any]) -> None:
    hosts = str(given.get("host") or "").split(",")
    ports = str(given.get("port") or "").split(",")
    for host in hosts:
        _check_host(host)
    if not all(_is_between(port, 1, 65535) for port in ports if port):
        raise InvalidArgument("url", "its port is not a number from 1 to 65535")
    if len(ports) not in (1, len(hosts)):
        raise InvalidArgument("url", "has another number of ports than of hosts")
    for name in _NUMBERS:
        if not _is_between(str(given.get(name, 0)), -(2**31), 2**31 - 1):
            raise InvalidArgument("url", f"its {name} is not a number")


def _check_host(host: str) -> None:
    if host.startswith(("/", "@")):
        return
    if "@" in host:
        raise InvalidArgument("url", "has an @ in its host; in a password it is written %40")
    try:
        host.encode("idna")
    except UnicodeError:
        raise InvalidArgument("url", "its host is not a name") from None


def _is_between(text: str, lowest: int, highest: int) -> bool:
    return bool(re.fullmatch(r"-?[0-9]{1,10}", text)) and lowest <= int(text) <= highest
