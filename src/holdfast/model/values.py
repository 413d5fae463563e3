"""Values a caller hands over: JSON, opaque payloads, and the words for "leave it alone"."""

from __future__ import annotations

import enum
from typing import Any, Final, TypeAlias

import msgspec

#: A JSON value: null, bool, int, finite float, str, list or tuple, dict with str keys.
JsonValue: TypeAlias = Any


class Payload(msgspec.Struct, frozen=True):
    r"""Bytes or text the store keeps exactly as given, under a tag of 1 to 64 characters.

    >>> from holdfast import Payload
    >>> Payload(b"\x80\x04", tag="vendor/blob").tag
    'vendor/blob'
    """

    data: bytes | str
    tag: str


class Keep(enum.Enum):
    """The type of `KEEP`: leave the stored part as the section finds it."""

    KEEP = "keep"

    def __repr__(self) -> str:
        return "KEEP"


class Any_(enum.Enum):
    """The type of `ANY`: do not check the head."""

    ANY = "any"

    def __repr__(self) -> str:
        return "ANY"


class CurrentLeaf(enum.Enum):
    """The type of `CURRENT_LEAF`: the leaf stored when the session's section was entered."""

    CURRENT_LEAF = "current_leaf"

    def __repr__(self) -> str:
        return "CURRENT_LEAF"


class Previous(enum.Enum):
    """The type of `PREVIOUS`: the node before it in the list; for the first, the current leaf."""

    PREVIOUS = "previous"

    def __repr__(self) -> str:
        return "PREVIOUS"


KEEP: Final = Keep.KEEP
ANY: Final = Any_.ANY
CURRENT_LEAF: Final = CurrentLeaf.CURRENT_LEAF
PREVIOUS: Final = Previous.PREVIOUS


class Tag(msgspec.Struct, frozen=True):
    """An expectation about the head's tag; `Tag(None)` expects that there is none."""

    text: str | None


class Durability(enum.Enum):
    """Whether an acknowledged write outlives the process that made it."""

    INLINE = "inline"
    DURABLE = "durable"
