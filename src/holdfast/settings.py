"""What a store can be told at opening; everything else is fixed."""

from __future__ import annotations

import secrets
import time
from typing import Any, Literal, Protocol

import msgspec

from holdfast.model.checkpoints import Compression
from holdfast.model.leases import LeaseTimings

MAX_VALUE_BYTES = 16 * 1024 * 1024
MAX_BLOB_BYTES = 256 * 1024 * 1024


class Clock(Protocol):
    """A source of the current time, in milliseconds since the Unix epoch."""

    def now_ms(self) -> int:
        """The current instant."""
        ...


class Ids(Protocol):
    """A source of unguessable text."""

    def token(self) -> str:
        """At least 128 random bits, as text."""
        ...


class SystemClock:
    """The wall clock of this process."""

    def now_ms(self) -> int:
        """The current instant."""
        return time.time_ns() // 1_000_000


class RandomIds:
    """Tokens from the operating system's random source."""

    def token(self) -> str:
        """128 random bits in hexadecimal."""
        return secrets.token_hex(16)


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The typed settings of one store; `holdfast.open` documents each of them."""

    create: bool = True
    read_only: bool = False
    migrate: bool = True
    require_durable: bool = False
    schema: str = "holdfast"
    sync: Literal["full", "relaxed"] = "full"
    wait_ms: int = 15_000
    compression: Compression | None = None
    gc_every_commits: int | None = None
    lease_timings: LeaseTimings = LeaseTimings()
    max_value_bytes: int = MAX_VALUE_BYTES
    max_blob_bytes: int = MAX_BLOB_BYTES
    pool_size: int = 16
    pool_timeout_ms: int = 30_000
    pool_max_idle_ms: int = 600_000
    pool_max_lifetime_ms: int = 1_800_000
    lock_timeout_ms: int = 10_000
    statement_timeout_ms: int = 30_000
    idle_in_transaction_ms: int = 5_000
    #: None means: the wall clock on SQLite, the database's clock on PostgreSQL.
    clock: Clock | None = None
    ids: Ids = RandomIds()
    #: The `ByteBackend` of attachments; none means the database itself.
    attachments: Any = None

    @property
    def profile(self) -> Compression:
        """The compression profile in force; `holdfast.open` fills in the store's default."""
        return self.compression or Compression.BALANCED
