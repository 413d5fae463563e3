"""Attachments: files under the hash of their bytes, and who refers to them."""

from __future__ import annotations

from typing import Literal

import msgspec

from holdfast.model.values import JsonValue

OwnerKind = Literal["turn", "process"]

URI_PREFIX = "holdfast-attachment://sha256/"


class AttachmentRef(msgspec.Struct, frozen=True, kw_only=True):
    """What a put returns: the id of the bytes, and how this caller describes them."""

    id: str
    media_type: str
    byte_len: int
    label: str = ""
    type_metadata: JsonValue = None


class AttachmentIntent(msgspec.Struct, frozen=True, kw_only=True):
    """A session's reference to an attachment that no commit has confirmed yet."""

    session_id: str
    attachment_id: str
    intent_at_ms: int
    #: The head's revision then; 0 without a head.
    intent_revision: int
    owner_kind: OwnerKind | None = None
    owner_id: str | None = None

    @property
    def canonical_uri(self) -> str:
        """The attachment's name outside the store."""
        return URI_PREFIX + self.attachment_id


class ByteEntry(msgspec.Struct, frozen=True, kw_only=True):
    """What a byte backend knows of stored bytes; a time that is not known is none."""

    id: str
    byte_len: int
    modified_at_ms: int | None


class ReclaimReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a sweep of attachments found and removed; each list has at most 10,000 ids."""

    scanned_blob_count: int
    reclaimed_count: int
    failed_ids: list[str]
    #: Ids to which a reference appeared while their bytes were deleted: put them again.
    deleted_while_referenced: list[str]
    #: What unfinished puts left behind.
    removed_staging_count: int = 0
