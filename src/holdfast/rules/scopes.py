"""Scopes and labels of sessions: what is legal, and how a scope is stored so that it sorts.

A scope is stored as its labels in UTF-8, each followed by a NUL, which no label contains. So
equal bytes mean equal scopes, and everything below a scope is one contiguous range.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from holdfast.errors import CorruptRecord, InvalidArgument
from holdfast.rules.checks import at_most, text

MAX_DEPTH: Final = 8
LABEL_BYTES: Final = 256
SCOPE_BYTES: Final = 1024
MAX_LABELS: Final = 32
NAME_BYTES: Final = 64
VALUE_BYTES: Final = 512


def encode_scope(labels: Sequence[str], field: str = "scope") -> bytes:
    """The stored form of a scope of 0 to 8 labels."""
    if not isinstance(labels, (tuple, list)):
        raise InvalidArgument(field, "not_a_list")
    at_most(len(labels), MAX_DEPTH, field)
    encoded = [text(label, field, LABEL_BYTES, allow_empty=False).encode() for label in labels]
    at_most(sum(map(len, encoded)), SCOPE_BYTES, field)
    return b"".join(label + b"\0" for label in encoded)


def decode_scope(stored: bytes, session_id: str) -> tuple[str, ...]:
    """The labels of a session's stored scope."""
    try:
        *labels, rest = bytes(stored).split(b"\0")
        if not rest:
            return tuple(label.decode() for label in labels)
    except (UnicodeDecodeError, TypeError):
        pass
    raise CorruptRecord("session_scope", session_id, "unparsable")


def prefix_range(labels: Sequence[str], field: str = "scope_prefix") -> tuple[bytes, bytes]:
    """Bounds `low <= scope < high` that hold for exactly the scopes beginning with these labels."""
    low = encode_scope(labels, field)
    # 0xff occurs in no UTF-8 text, so nothing sorts behind it.
    return low, low[:-1] + b"\x01" if low else b"\xff"


def check_labels(labels: Mapping[Any, Any], field: str = "labels") -> dict[str, str]:
    """At most 32 pairs of a name (1 to 64 bytes) and a text (up to 512 bytes)."""
    if not isinstance(labels, Mapping):
        raise InvalidArgument(field, "not_a_mapping")
    at_most(len(labels), MAX_LABELS, field)
    return {
        text(name, field, NAME_BYTES, allow_empty=False): text(value, field, VALUE_BYTES)
        for name, value in labels.items()
    }
