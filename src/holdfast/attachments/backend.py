"""Byte backends: where the bytes of attachments are. They know nothing of sessions (ATT-1 to 4).

A backend supplies a few primitives; hashing, verification and the order in which bytes are
staged and published are written once, here and in `intake`. Its methods block and are called
from several threads at once. What they raise is a `HoldfastError` where they can tell what
happened: `AttachmentNotFound`, or `StoreUnavailable`.
"""

from __future__ import annotations

import abc
import hashlib
import re
import secrets
from collections.abc import Callable, Iterable, Iterator
from typing import BinaryIO, Final, NamedTuple

from holdfast.attachments.intake import Intake, put_bytes
from holdfast.attachments.port import Here
from holdfast.errors import BlobCorrupt
from holdfast.model.attachments import AttachmentRef, ByteEntry
from holdfast.model.values import Durability, JsonValue
from holdfast.operations.levers import Run
from holdfast.rules import attachments
from holdfast.settings import Settings
from holdfast.transaction import run_blocking


class Host(NamedTuple):
    """What a backend may use of the store it serves."""

    run: Run
    settings: Settings
    tier: Durability


_PRIVATE: Final = re.compile(r"[0-9a-f]{32}")


def private_name() -> str:
    """A name for bytes that have no id yet."""
    return secrets.token_hex(16)


def is_private_name(name: str) -> bool:
    """Whether it is such a name, or a store's: anything else beside the bytes is not ours."""
    return _PRIVATE.fullmatch(name) is not None


class Staged(abc.ABC):
    """Bytes on their way in: under a private name, never listed, never readable."""

    @abc.abstractmethod
    def write(self, piece: bytes) -> None:
        """The next bytes."""

    @abc.abstractmethod
    def publish(self, id: str) -> None:
        """Make all of it readable under its id, for good, and as if written now."""

    @abc.abstractmethod
    def discard(self) -> None:
        """Give it up; nothing if it was published or given up before."""


class ByteBackend(abc.ABC):
    """Where the bytes of attachments are."""

    #: Whether what was published outlives the process.
    persistence: Durability = Durability.DURABLE
    #: More than this is refused; none means as much as there is room for.
    max_bytes: int | None = None
    #: Whether other stores may keep bytes here too.
    shareable: bool = True

    # --- what a backend supplies -----------------------------------------------------------

    @abc.abstractmethod
    def stage(self) -> Staged:
        """Room for bytes that come in."""

    @abc.abstractmethod
    def read(self, id: str) -> Iterator[bytes]:
        """The bytes in pieces of about a MiB, unchecked; `AttachmentNotFound` without them."""

    @abc.abstractmethod
    def delete(self, id: str) -> None:
        """Remove bytes; nothing where there are none."""

    @abc.abstractmethod
    def list(self, after: str = "", limit: int = 1_000) -> list[ByteEntry]:
        """Published bytes behind an id, in the order of ids; an empty page is the end."""

    @abc.abstractmethod
    def head(self, id: str) -> ByteEntry | None:
        """What is known of published bytes, or none."""

    @abc.abstractmethod
    def sweep_staging(self, before_ms: int) -> int:
        """Remove what unfinished puts left and nobody has written to since; how many."""

    def attach(self, host: Host) -> ByteBackend:  # noqa: ARG002
        """The backend as the store that it is given to uses it."""
        return self

    def join(self, store_name: str) -> None:  # noqa: B027  (a backend of one's own need not)
        """Leave word that a store keeps bytes here; nothing if it did so before."""

    def stores(self) -> set[str]:
        """The names of the stores that left word. Bytes may be theirs, so no other may sweep."""
        return set()

    def put_small(self, id: str, body: bytes) -> None:
        """Bytes of at most a MiB, whose id is known; as staging, writing and publishing."""
        staged = self.stage()
        try:
            staged.write(body)
            staged.publish(id)
        except BaseException:
            staged.discard()
            raise

    # --- what every backend has ------------------------------------------------------------

    def put(
        self,
        data: bytes | bytearray | memoryview | BinaryIO | Iterable[bytes],
        *,
        media_type: str = "application/octet-stream",
        label: str = "",
        type_metadata: JsonValue = None,
        progress: Callable[[int], object] | None = None,
    ) -> AttachmentRef:
        """Store bytes under their hash, whoever refers to them; a session's way is its facade."""
        meta = attachments.describe(media_type, label, type_metadata)
        intake = Intake(Here(), self, data, progress)
        return run_blocking(put_bytes(intake, meta, _nothing_before))

    def get(self, id: str) -> bytes:
        """All bytes of an id, checked against it."""
        return b"".join(self.stream(id))

    def stream(self, id: str) -> Iterator[bytes]:
        """The bytes of an id in pieces; `BlobCorrupt` at the end if they are not what it says."""
        attachments.attachment_id(id, "id")
        hashed = hashlib.sha256()
        for piece in self.read(id):
            hashed.update(piece)
            yield piece
        if hashed.hexdigest() != id:
            raise BlobCorrupt(id, "the bytes have another hash")


async def _nothing_before(_id: str) -> None:
    """Bytes without a manifest: nothing has to be written down first."""
