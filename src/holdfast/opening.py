"""`holdfast.open`: from a URL and settings to a store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import unquote

import msgspec

from holdfast.attachments.backend import ByteBackend
from holdfast.core import Core
from holdfast.engine import Backend
from holdfast.errors import DurableStoreRequired, InvalidArgument
from holdfast.model.checkpoints import Compression
from holdfast.model.leases import LeaseTimings
from holdfast.model.values import Durability
from holdfast.rules import checks
from holdfast.settings import Clock, Ids, RandomIds, Settings
from holdfast.store import Store

if TYPE_CHECKING:
    from psycopg_pool import ConnectionPool

_FILE = "sqlite:///"
_MEMORY = "sqlite://"
#: About 24 days; more than this neither threads nor PostgreSQL can be told.
_LONGEST_MS = 2**31 - 1
_SERVER = ("postgresql://", "postgres://")


def open(
    url: str | None = None,
    *,
    pool: ConnectionPool[Any] | None = None,
    create: bool = True,
    read_only: bool = False,
    migrate: bool = True,
    require_durable: bool = False,
    schema: str = "holdfast",
    sync: Literal["full", "relaxed"] = "full",
    wait_ms: int = 15_000,
    compression: Compression | str | None = None,
    gc_every_commits: int | None = None,
    lease_timings: LeaseTimings = LeaseTimings(),
    max_value_bytes: int = Settings().max_value_bytes,
    max_blob_bytes: int = Settings().max_blob_bytes,
    pool_size: int = 16,
    pool_timeout_ms: int = 30_000,
    pool_max_idle_ms: int = 600_000,
    pool_max_lifetime_ms: int = 1_800_000,
    lock_timeout_ms: int = 10_000,
    statement_timeout_ms: int = 30_000,
    idle_in_transaction_ms: int = 5_000,
    clock: Clock | None = None,
    ids: Ids = RandomIds(),
    attachments: ByteBackend | None = None,
) -> Store:
    """A store: `sqlite:///path`, `sqlite://` (in memory), `postgresql://...`, or a pool of yours.

    Arguments are checked at once; the database is opened by the `with` statement, by
    `Store.open`, or by the first operation, whichever comes first.

    >>> import holdfast
    >>> with holdfast.open("sqlite://") as store:
    ...     view = store.sessions.create(holdfast.SessionCreate(session_id="chat-1"))
    ...     view.load_meta().session_name
    'chat-1'
    """
    given = dict(locals())
    del given["url"], given["pool"]
    settings = _settings(given)
    backend = _backend(url, pool, settings)
    if require_durable and backend.tier is Durability.INLINE:
        raise DurableStoreRequired("store")
    core = Core(backend, backend.settings)
    if require_durable and core.bytes.persistence is Durability.INLINE:
        raise DurableStoreRequired("attachments")
    return Store(core)


def _settings(given: dict[str, Any]) -> Settings:
    for name in ("create", "read_only", "migrate", "require_durable"):
        checks.flag(given[name], name)
    for name, value in given.items():
        if name.endswith(("_ms", "_bytes", "_size")):
            checks.limit(value, name, _LONGEST_MS)
    defaults = Settings()
    for name in ("max_value_bytes", "max_blob_bytes"):
        checks.at_most(given[name], getattr(defaults, name), name)
    if given["pool_size"] < 1:
        raise InvalidArgument("pool_size", "not_positive")
    if given["sync"] not in ("full", "relaxed"):
        raise InvalidArgument("sync", "full or relaxed")
    checks.text(given["schema"], "schema", max_bytes=63, allow_empty=False)
    if given["gc_every_commits"] is not None:
        checks.count(given["gc_every_commits"], "gc_every_commits")
    if not isinstance(given["lease_timings"], LeaseTimings):
        raise InvalidArgument("lease_timings", "not_lease_timings")
    if not isinstance(given["attachments"], ByteBackend | None):
        raise InvalidArgument("attachments", "not_a_byte_backend")
    return Settings(**given | {"compression": _compression(given["compression"])})


def _compression(given: Compression | str | None) -> Compression | None:
    try:
        return None if given is None else Compression(given)
    except ValueError:
        raise InvalidArgument("compression", "low_latency, balanced or compact") from None


def _backend(url: str | None, pool: ConnectionPool[Any] | None, settings: Settings) -> Backend:
    if (url is None) == (pool is None):
        raise InvalidArgument("url", "give a URL or a pool, not both")
    if pool is not None:
        return _postgres(pool, settings)
    checks.text(url, "url")
    assert url is not None
    if url.startswith(_SERVER):
        return _postgres(url, settings)
    if url == _MEMORY:
        return _sqlite(None, settings)
    if url.startswith(_FILE) and len(url) > len(_FILE):
        return _sqlite(_path(url[len(_FILE) :]), settings)
    raise InvalidArgument("url", "sqlite:///path, sqlite:// or postgresql://...")


def _path(given: str) -> str:
    """The file a URL names; what would only look like one is refused."""
    if given == ":memory:":
        raise InvalidArgument("url", "a store in memory is sqlite://")
    if "?" in given or "#" in given:
        raise InvalidArgument("url", "takes no options; in a file's name write ? as %3F, # as %23")
    try:
        path = unquote(given, errors="strict")
    except UnicodeDecodeError:
        raise InvalidArgument("url", "is not UTF-8 behind its percent signs") from None
    return checks.text(path, "url")


def _sqlite(path: str | None, settings: Settings) -> Backend:
    from holdfast.sqlite.driver import SqliteBackend

    if settings.compression is None and path is None:
        # Nothing is written to disk, so nothing is gained by making it smaller.
        settings = msgspec.structs.replace(settings, compression=Compression.LOW_LATENCY)
    return SqliteBackend(path, settings)


def _postgres(target: str | ConnectionPool[Any], settings: Settings) -> Backend:
    from holdfast.postgres.driver import PostgresBackend

    return PostgresBackend(target, settings)
