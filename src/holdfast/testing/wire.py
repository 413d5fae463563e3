"""A proxy that stands between a client and a server and counts how often they take turns.

One turn is one round trip: whatever the client sends until the server has answered, and the
client speaks again. It sees the bytes themselves, so no driver's own counting has to be trusted.
It can also add distance, cut connections, and lose answers.
"""

from __future__ import annotations

import select
import socket
import threading
import time
from contextlib import suppress
from types import TracebackType
from urllib.parse import quote, urlencode

Address = tuple[str, int] | str


class CountingProxy:
    """Stands before the PostgreSQL server of a URL; `url` is the way through it.

    `delay_s` is added to every change of direction, twice a round trip. While `loses_answers`
    is set, what the client sends still arrives, but instead of the answer it gets cut off.
    """

    def __init__(self, url: str, *, delay_s: float = 0.0) -> None:
        self.delay_s = delay_s
        self.turns = 0
        self.loses_answers = False
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._server, self.url = _through(url, self._listener.getsockname()[1])
        threading.Thread(target=self._accept, name="wire-accept", daemon=True).start()

    def __enter__(self) -> CountingProxy:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop listening and cut what is connected."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()

    def cut(self) -> None:
        """Cut every connection that is open now, as a failing network would."""
        with self._lock:
            for end in self._open:
                with suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        family = socket.AF_UNIX if isinstance(self._server, str) else socket.AF_INET
        with client, socket.socket(family, socket.SOCK_STREAM) as server, suppress(OSError):
            server.connect(self._server)
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._lock:
                self._open |= {client, server}
            try:
                self._forward(client, server)
            finally:
                with self._lock:
                    self._open -= {client, server}

    def _forward(self, client: socket.socket, server: socket.socket) -> None:
        speaker = server
        while True:
            for ready in select.select([client, server], [], [])[0]:
                data = ready.recv(1 << 16)
                if not data or (ready is server and self.loses_answers):
                    return
                if ready is not speaker:
                    self._turn(by_client=ready is client)
                speaker = ready
                (server if ready is client else client).sendall(data)

    def _turn(self, *, by_client: bool) -> None:
        with self._lock:
            self.turns += by_client
        if self.delay_s:
            time.sleep(self.delay_s)


def _through(url: str, port: int) -> tuple[Address, str]:
    """Where the server of a URL listens, and the URL by which the proxy is reached."""
    from psycopg.conninfo import conninfo_to_dict

    given = conninfo_to_dict(url)
    host, its_port = str(given.get("host") or "localhost"), int(given.get("port") or 5432)
    server = f"{host}/.s.PGSQL.{its_port}" if host.startswith("/") else (host, its_port)
    # Encryption would be negotiated anew, and is nothing the proxy could count.
    changed = {"host": "127.0.0.1", "port": port, "sslmode": "disable", "gssencmode": "disable"}
    return server, f"postgresql:///?{urlencode(given | changed, quote_via=quote)}"
