"""Bytes in the store's own database: small files, so that the default needs nothing else."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar

from holdfast.attachments.backend import ByteBackend, Host, Staged
from holdfast.engine import prepared
from holdfast.errors import AttachmentNotFound, Fault, InvalidArgument
from holdfast.model.attachments import ByteEntry
from holdfast.operations import attachment_bytes
from holdfast.operations.attachment_bytes import CHUNK_BYTES
from holdfast.rules import checks
from holdfast.transaction import Done, Steps

T = TypeVar("T")

log = logging.getLogger("holdfast")

DEFAULT_MAX_BYTES: Final = 64 * 1024 * 1024


class DatabaseBytes(ByteBackend):
    """Bytes in chunk rows of the store that it is given to; more than `max_bytes` is refused.

    >>> import holdfast
    >>> with holdfast.open("sqlite://", attachments=holdfast.DatabaseBytes(1_000)) as store:
    ...     view = store.session("chat-1")
    ...     view.attachments.get(view.attachments.put(b"some bytes").id)
    b'some bytes'
    """

    shareable = False

    def __init__(self, max_bytes: int = DEFAULT_MAX_BYTES) -> None:
        self.max_bytes = checks.count(max_bytes, "max_bytes")
        self._host: Host | None = None

    def attach(self, host: Host) -> DatabaseBytes:
        """These bytes, in that store."""
        attached = copy.copy(self)
        attached._host = host
        attached.persistence = host.tier
        return attached

    def stage(self) -> Staged:
        """A staging row; chunks follow it."""
        return _Chunks(self, self.do(attachment_bytes.stage))

    def put_small(self, id: str, body: bytes) -> None:
        """One chunk and its id, in one transaction."""
        self.do(attachment_bytes.store_small, id, body)

    def read(self, id: str) -> Iterator[bytes]:
        """The chunks, each read by itself."""
        number = 0
        while True:
            found = self.do(attachment_bytes.read_chunk, id, number)
            if found is None:
                raise AttachmentNotFound(id)
            byte_len, body = found
            if body:
                yield body
            number += 1
            if number * CHUNK_BYTES >= byte_len:
                return

    def delete(self, id: str) -> None:
        """Hide the bytes, then remove them in batches."""
        attachment_bytes.delete(self.host.run, id)

    def list(self, after: str = "", limit: int = 1_000) -> list[ByteEntry]:
        """Bytes by id."""
        return self.do(attachment_bytes.list_bytes, after, limit)

    def head(self, id: str) -> ByteEntry | None:
        """What is known of bytes."""
        return self.do(attachment_bytes.head, id)

    def sweep_staging(self, before_ms: int) -> int:
        """Remove stagings that nobody writes to any more."""
        return attachment_bytes.sweep(self.host.run, before_ms)

    def stores(self) -> set[str]:
        """None beside the one whose database it is."""
        _ = self.host  # which there has to be
        return set()

    def let_go(self, replaced: int) -> None:
        """Remove chunks that others took the place of; the put has succeeded whatever happens."""
        try:
            attachment_bytes.remove(self.host.run, replaced)
        except Fault:
            log.warning("chunks that were replaced are left to the sweep", exc_info=True)

    @property
    def host(self) -> Host:
        """The store these bytes are in."""
        if self._host is None:
            raise InvalidArgument("backend", "in no database: give it to holdfast.open first")
        return self._host

    def do(self, operation: Callable[..., Steps[T]], *args: Any) -> T:
        """Finish an operation of the store."""
        work = prepared(operation, self.host.settings, *args)
        if isinstance(work, Done):
            found: T = work.value
            return found
        return self.host.run(work)


class _Chunks(Staged):
    """Pieces of any size, cut into chunks of one."""

    def __init__(self, backend: DatabaseBytes, staging: int) -> None:
        self._backend = backend
        self._staging = staging
        self._number = 0
        self._rest = b""

    def write(self, piece: bytes) -> None:
        rest = self._rest + piece
        while len(rest) >= CHUNK_BYTES:
            self._store(rest[:CHUNK_BYTES])
            rest = rest[CHUNK_BYTES:]
        self._rest = rest

    def publish(self, id: str) -> None:
        if self._rest:
            self._store(self._rest)
        replaced = self._backend.do(attachment_bytes.publish, self._staging, id)
        if replaced is not None:
            self._backend.let_go(replaced)

    def discard(self) -> None:
        attachment_bytes.discard(self._backend.host.run, self._staging)

    def _store(self, body: bytes) -> None:
        self._backend.do(attachment_bytes.write_chunk, self._staging, self._number, body)
        self._number += 1
