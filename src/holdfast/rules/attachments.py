"""What an attachment is called, who may own an intent, and what a caller may say of it."""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

from holdfast.errors import InvalidArgument, StoreUnavailable
from holdfast.model.attachments import URI_PREFIX, AttachmentRef
from holdfast.rules import checks
from holdfast.rules.canonical import canonical

OWNER_KINDS: Final = ("turn", "process")

_SHA256 = re.compile(r"[0-9a-f]{64}")


class Owner(NamedTuple):
    """Whose death lets an uncommitted intent be forgotten; nobody's: only age protects it."""

    kind: str | None = None
    id: str | None = None


NOBODY: Final = Owner()


def is_attachment_id(value: object) -> bool:
    """Whether this is a SHA-256 in lowercase hexadecimal."""
    return isinstance(value, str) and _SHA256.fullmatch(value) is not None


def attachment_id(value: object, field: str = "attachment_id") -> str:
    """The id of an attachment. A backend makes a path or a key of it, so nothing else passes."""
    if not isinstance(value, str):
        raise InvalidArgument(field, "not_text")
    if not is_attachment_id(value):
        raise InvalidArgument(field, "not_a_sha256")
    return str.__str__(value)


def attachment_ids(values: Any, field: str) -> list[str]:
    """Ids given to one call, each once, in order."""
    return sorted({attachment_id(each, field) for each in checks.listed(values, field)})


def canonical_uri(id: str) -> str:
    """The name of an attachment outside the store.

    >>> from holdfast.rules.attachments import canonical_uri
    >>> canonical_uri("0" * 64)[:33]
    'holdfast-attachment://sha256/0000'
    """
    return URI_PREFIX + attachment_id(id)


def staging_swept() -> StoreUnavailable:
    """What is wrong with a put that took longer than a sweep's grace period."""
    return StoreUnavailable("attachments.put", "its staging was swept", retryable=True)


def owner(kind: object, id: object) -> Owner:
    """The owner of an intent: both parts, or neither."""
    if kind is None and id is None:
        return NOBODY
    if kind is None or id is None:
        raise InvalidArgument("owner_id" if id is None else "owner_kind", "given_together")
    if kind not in OWNER_KINDS:
        raise InvalidArgument("owner_kind", "turn or process")
    return Owner(str(kind), checks.identifier(id, "owner_id"))


def callback(value: Any, field: str) -> Any:
    """Something to call with how far it is, or none."""
    if value is not None and not callable(value):
        raise InvalidArgument(field, "not_callable")
    return value


def describe(media_type: str, label: str, type_metadata: Any) -> AttachmentRef:
    """A caller's description, checked before any I/O; id and length are still to come."""
    if type_metadata is not None:
        canonical(type_metadata, "type_metadata")
    return AttachmentRef(
        id="",
        media_type=checks.text(media_type, "media_type"),
        byte_len=0,
        label=checks.text(label, "label"),
        type_metadata=type_metadata,
    )
