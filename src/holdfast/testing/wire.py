"""A proxy that stands between a client and a server and counts how often they take turns.

One turn is one round trip: whatever the client sends until the server has answered all of it, and
the client speaks again. It reads the messages themselves, so no driver's own counting has to be
trusted. It can also add distance, cut connections, and lose answers.

Where one read ends and the next begins says nothing: a long request arrives in several, and the
server may begin to answer in between. What counts is that the server says it is ready for the next
query, or has answered a client that asked it to flush.
"""

from __future__ import annotations

import select
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from types import TracebackType
from urllib.parse import quote, urlencode

Address = tuple[str, int] | str

_READY, _FLUSH = b"Z", b"H"
#: What a client may ask before it begins: to encrypt, by TLS or by GSSAPI.
_ENCRYPTIONS = (80_877_103, 80_877_104)


class Messages:
    """One direction of the wire, put together from however many reads it came in."""

    def __init__(self, *, begins: bool) -> None:
        """A client `begins` with messages without a kind; a server's all have one."""
        self._begins = begins
        self._data = bytearray()

    def feed(self, data: bytes) -> Iterator[bytes | int]:
        """Of each message that is complete now its kind, or its number if it has none."""
        self._data += data
        while (size := self._size()) is not None and len(self._data) >= size:
            yield self._kind()
            del self._data[:size]

    def _size(self) -> int | None:
        """How long the first message is, once that is known."""
        kind = 0 if self._begins else 1
        if len(self._data) < kind + 4:
            return None
        return kind + int.from_bytes(self._data[kind : kind + 4])

    def _kind(self) -> bytes | int:
        if not self._begins:
            return bytes(self._data[:1])
        number = int.from_bytes(self._data[4:8])
        self._begins = number in _ENCRYPTIONS
        return number


class Trips:
    """One connection's trips, told from what passes by. Connecting, with all it takes, is one."""

    def __init__(self) -> None:
        self._asked = Messages(begins=True)
        self._answered = Messages(begins=False)
        self._refusals = 0  # bytes by which the server is to decline to encrypt
        self._flushed = False
        self._waits = False
        self._is_silent = True

    def ask(self, data: bytes) -> bool:
        """Take note of what the client sends; whether it begins a trip."""
        begins, self._waits = not self._waits, True
        self._is_silent |= begins
        for kind in self._asked.feed(data):
            self._refusals += kind in _ENCRYPTIONS
            self._flushed = kind == _FLUSH
        return begins

    def answer(self, data: bytes) -> bool:
        """Take note of what the server sends; whether it begins to answer a trip."""
        begins, self._is_silent = self._is_silent, False
        refused, self._refusals = data[: self._refusals], max(0, self._refusals - len(data))
        if refused.strip(b"N"):
            raise ConnectionError("what is encrypted cannot be counted")
        ready = _READY in list(self._answered.feed(data[len(refused) :]))
        if ready or self._flushed:
            self._waits = False
        return begins


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
        trips = Trips()
        while True:
            for ready in select.select([client, server], [], [])[0]:
                data = ready.recv(1 << 16)
                if not data or (ready is server and self.loses_answers):
                    return
                by_client = ready is client
                if trips.ask(data) if by_client else trips.answer(data):
                    self._turn(by_client=by_client)
                (server if by_client else client).sendall(data)

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
