"""Bytes in a bucket that speaks S3, through `obstore`: the extra `holdfast[s3]`.

An object appears under its key whole or not at all, so what is published needs no care. A stream
is uploaded in parts under `staging/`, where nobody reads, and copied within the bucket once its
hash is known; what dies in between is an object there, which a sweep removes. An upload that was
cut off before its end is no object yet: only a rule of the bucket can remove its parts, so set
one (`AbortIncompleteMultipartUpload`).

What obstore was used for in a process is of no use to one that is forked from it: there everything
is refused. A process that forks before it uses a bucket may use it on both sides.

No request is given up while it gets anywhere: a reader may be slow and a copy long. A stream that
breaks off is gone on with where it broke off, and its hash is checked at its end as any other's.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from holdfast.attachments.backend import ByteBackend, Staged, is_private_name, private_name
from holdfast.attachments.intake import PIECE_BYTES
from holdfast.errors import AttachmentNotFound, InvalidArgument, StoreUnavailable
from holdfast.model.attachments import ByteEntry
from holdfast.rules import checks
from holdfast.rules.attachments import is_attachment_id, staging_swept

if TYPE_CHECKING:
    from obstore import GetOptions, ObjectMeta
    from obstore.store import S3Store

log = logging.getLogger("holdfast")

#: What one copy within a bucket may move.
MAX_BYTES: Final = 5 * 1024**3
#: Parts of an upload, and how many are on their way at once: what bounds the memory of a put.
_PART_BYTES: Final = 8 * 1024 * 1024
_PARTS: Final = 2
#: Of its own, obstore ends a request after 30 s, with all of its body. Here only silence ends one,
#: before an answer (a long copy) or in the middle of it.
_PATIENCE: Final = {"timeout": "30days", "connect_timeout": "10s", "read_timeout": "5min"}
#: How often in a row a stream may break off without another piece.
_BREAKS: Final = 3
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
#: In which process obstore was used first.
_process: Final[dict[str, int]] = {}


class S3Bytes(ByteBackend):
    """Bytes in a bucket, below a prefix; further options are those of `obstore.store.S3Store`.

    `S3Bytes("bucket", "agents", region="eu-west-1")` takes its credentials from the environment;
    another server than Amazon's is named by `endpoint`. A request ends after 5 minutes without an
    answer, or without more of one; `client_options` may say otherwise.
    """

    max_bytes = MAX_BYTES

    def __init__(self, bucket: str, prefix: str = "", **options: Any) -> None:
        checks.text(bucket, "bucket", allow_empty=False)
        self._prefix = _folder(prefix)
        self._store = _connect(bucket, options)

    def stage(self) -> Staged:
        """An upload in parts, under a key of its own."""
        return _Upload(self, self.key("staging", private_name()))

    def put_small(self, id: str, body: bytes) -> None:
        """One request."""
        import obstore

        with _told("put"):
            obstore.put(self._store, self._place(id), body)

    def read(self, id: str) -> Iterator[bytes]:
        """The object as it arrives."""
        from obstore.exceptions import BaseError

        offset = breaks = 0
        with _told("get", id):
            size, pieces = self._get(id, offset)
            while offset < size:
                try:
                    piece = bytes(next(pieces, b""))
                except (BaseError, OSError) as error:
                    if breaks == _BREAKS:
                        raise
                    breaks += 1
                    log.info("attachment %s broke off at byte %d: %s", id, offset, error)
                    size, pieces = self._get(id, offset)
                else:
                    if not piece:
                        return  # less than was promised, as the hash will tell
                    breaks = 0
                    offset += len(piece)
                    yield piece

    def delete(self, id: str) -> None:
        """Remove the object."""
        self.remove(self._place(id))

    def list(self, after: str = "", limit: int = 1_000) -> list[ByteEntry]:
        """Objects by id; strays are passed over."""
        return [*itertools.islice(self._entries(self._place(after) if after else None), limit)]

    def head(self, id: str) -> ByteEntry | None:
        """What is known of an object."""
        import obstore

        try:
            with _told("head", id):
                return _entry(id, obstore.head(self._store, self._place(id)))
        except AttachmentNotFound:
            # This answer has no body to say whether it is the bucket that is missing.
            next(self._objects("stores", None), None)
            return None

    def sweep_staging(self, before_ms: int) -> int:
        """Remove uploads that were finished and never given their id."""
        removed = 0
        for name, seen in self._named("staging"):
            if _modified_at_ms(seen) <= before_ms:
                self.remove(self.key("staging", name))
                removed += 1
        return removed

    def join(self, store_name: str) -> None:
        """An empty object of the store's name."""
        import obstore

        with _told("put"):
            obstore.put(self._store, self.key("stores", store_name), b"")

    def stores(self) -> set[str]:
        """The names of these objects."""
        return {name for name, _ in self._named("stores")}

    def key(self, *parts: str) -> str:
        """A key below the prefix."""
        return "/".join((self._prefix, *parts) if self._prefix else parts)

    def open(self, key: str) -> Any:
        """An upload in parts."""
        import obstore

        with _told("put"):
            return obstore.open_writer(
                self._store, key, buffer_size=_PART_BYTES, max_concurrency=_PARTS
            )

    def rename(self, key: str, id: str) -> None:
        """Give an object its id."""
        import obstore

        with _told("put"):
            obstore.copy(self._store, key, self._place(id))
        try:
            self.remove(key)
        except StoreUnavailable:
            log.warning("a staging is left to the sweep", exc_info=True)

    def remove(self, key: str) -> None:
        """Delete an object, which need not be there."""
        import obstore

        with contextlib.suppress(AttachmentNotFound), _told("delete", key):
            obstore.delete(self._store, key)

    def _get(self, id: str, offset: int) -> tuple[int, Iterator[Any]]:
        """How long an object is, and its pieces from a byte on."""
        import obstore

        # An empty object has no byte that a range could begin with.
        options: GetOptions = {"range": {"offset": offset}} if offset else {}
        found = obstore.get(self._store, self._place(id), options=options)
        return found.meta["size"], iter(found.stream(min_chunk_size=PIECE_BYTES))

    def _place(self, id: str) -> str:
        return self.key("sha256", id[:2], id)

    def _named(self, folder: str) -> Iterator[tuple[str, ObjectMeta]]:
        """Objects directly below a folder that have a name of our making."""
        for seen in self._objects(folder, None):
            name = seen["path"].removeprefix(self.key(folder) + "/")
            if is_private_name(name):
                yield name, seen

    def _entries(self, offset: str | None) -> Iterator[ByteEntry]:
        for seen in self._objects("sha256", offset):
            id = seen["path"].rpartition("/")[2]
            if is_attachment_id(id) and seen["path"] == self._place(id):
                yield _entry(id, seen)

    def _objects(self, folder: str, offset: str | None) -> Iterator[ObjectMeta]:
        import obstore

        with _told("list"):
            pages = obstore.list(
                self._store, self.key(folder) + "/", offset=offset, chunk_size=1_000
            )
            for page in pages:
                yield from page


class _Upload(Staged):
    def __init__(self, backend: S3Bytes, key: str) -> None:
        self._backend = backend
        self._key = key
        self._writer = backend.open(key)

    def write(self, piece: bytes) -> None:
        with _told("put"):
            self._writer.write(piece)

    def publish(self, id: str) -> None:
        with _told("put"):
            self._writer.close()
        self._backend.rename(self._key, id)

    def discard(self) -> None:
        # Finished, it is an object and can be removed; cut off, only the bucket could remove it.
        with _told("put"):
            if not self._writer.closed():
                self._writer.close()
        self._backend.remove(self._key)


def _folder(prefix: str) -> str:
    """A prefix without its slashes at either end, if keys can begin with it."""
    plain = checks.text(prefix, "prefix").strip("/")
    for part in plain.split("/") if plain else ():
        if part in ("", ".", "..") or _CONTROL.search(part):
            raise InvalidArgument("prefix", "not_a_key")
    return plain


def _connect(bucket: str, options: dict[str, Any]) -> S3Store:
    try:
        from obstore.exceptions import BaseError
        from obstore.store import S3Store
    except ImportError:
        raise InvalidArgument("bucket", "S3 needs obstore: pip install 'holdfast[s3]'") from None
    client = options.get("client_options")
    try:
        if client is None:
            return S3Store(bucket, **_PATIENCE | options)
        # They replace what is among the other options.
        return S3Store(bucket, **options | {"client_options": _PATIENCE | client})
    except (BaseError, TypeError, ValueError) as error:
        raise InvalidArgument("options", str(error)) from error


def _entry(id: str, seen: ObjectMeta) -> ByteEntry:
    return ByteEntry(id=id, byte_len=seen["size"], modified_at_ms=_modified_at_ms(seen))


def _modified_at_ms(seen: ObjectMeta) -> int:
    return int(seen["last_modified"].timestamp() * 1000)


@contextlib.contextmanager
def _told(operation: str, id: str | None = None) -> Iterator[None]:
    """What the server says, in our words."""
    from obstore.exceptions import BaseError

    _stay_in_process(operation)
    try:
        yield
    except (BaseError, OSError) as error:
        if _lasts(error):
            raise StoreUnavailable(f"attachments.{operation}", str(error)) from error
        if not isinstance(error, FileNotFoundError):
            raise StoreUnavailable(f"attachments.{operation}", str(error), True) from error
        if id is None:
            raise staging_swept() from error
        raise AttachmentNotFound(id) from None


def _stay_in_process(operation: str) -> None:
    """A fork leaves obstore's threads behind: whoever waits for one of them waits forever."""
    if _process.setdefault("id", os.getpid()) != os.getpid():
        raise StoreUnavailable(f"attachments.{operation}", "forked")


def _lasts(error: Exception) -> bool:
    """Whether the server will say the same again until somebody changes something there."""
    from obstore.exceptions import NotSupportedError, PermissionDeniedError, UnauthenticatedError

    # That the bucket is missing is told like a missing object.
    denied = isinstance(error, NotSupportedError | PermissionDeniedError | UnauthenticatedError)
    return denied or "<Code>NoSuchBucket</Code>" in str(error)
