"""One validator per kind of argument; each returns the value or raises `InvalidArgument`.

The reasons are few and stable: `not_text`, `not_an_integer`, `not_a_bool`, `not_a_list`,
`wrong_type`, `empty`, `nul`, `lone_surrogate`, `negative`, `too_large`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final, TypeVar

from holdfast.errors import InvalidArgument

T = TypeVar("T")

IDENTIFIER_BYTES: Final = 512
KEY_BYTES: Final = 1024
#: Names, models, roles and other text that is neither an identifier nor a value.
TEXT_BYTES: Final = 4096
LABEL_CHARACTERS: Final = 64
MAX_ITEMS: Final = 10_000
MIN_INTEGER: Final = -(2**63)
MAX_INTEGER: Final = 2**63 - 1
#: A duration is added to the current time, and the sum has to fit as well.
MAX_DURATION_MS: Final = 2**62


def identifier(value: object, field: str) -> str:
    """An identifier: 1 to 512 UTF-8 bytes, not all white space."""
    return _name(value, field, IDENTIFIER_BYTES)


def key(value: object, field: str) -> str:
    """A key: as an identifier, up to 1024 bytes."""
    return _name(value, field, KEY_BYTES)


def text(value: object, field: str, max_bytes: int | None = None, allow_empty: bool = True) -> str:
    """Text without NUL and lone surrogates."""
    plain = _plain(value, field)
    if not plain and not allow_empty:
        raise InvalidArgument(field, "empty")
    size = _utf8_length(plain, field)
    if max_bytes is not None:
        at_most(size, max_bytes, field)
    return plain


def label(value: object, field: str, max_characters: int = LABEL_CHARACTERS) -> str:
    """Text of 1 to 64 characters: a node's kind, a payload's tag."""
    plain = text(value, field, allow_empty=False)
    at_most(len(plain), max_characters, field)
    return plain


def kind(value: object, field: str) -> str:
    """A node's kind."""
    return label(value, field)


def count(value: object, field: str) -> int:
    """A non-negative integer; a bool is none."""
    number = integer(value, field)
    if number < 0:
        raise InvalidArgument(field, "negative")
    return number


def limit(value: object, field: str = "limit", maximum: int = MAX_ITEMS) -> int:
    """How many items a call may return or touch at most."""
    number = count(value, field)
    at_most(number, maximum, field)
    return number


def instant(value: object, field: str) -> int:
    """A point in time; one before 1970 is legal."""
    return integer(value, field)


def duration(value: object, field: str) -> int:
    """A length of time; zero is legal."""
    return limit(value, field, MAX_DURATION_MS)


def integer(value: object, field: str) -> int:
    """An integer that the databases can hold."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidArgument(field, "not_an_integer")
    if not MIN_INTEGER <= value <= MAX_INTEGER:
        raise InvalidArgument(field, "too_large")
    return int(value)


def flag(value: object, field: str) -> bool:
    """True or false, and nothing that merely counts as either."""
    if not isinstance(value, bool):
        raise InvalidArgument(field, "not_a_bool")
    return value


def record(value: object, kind: type[T], field: str) -> T:
    """A record of ours, where anything else would fail later and less clearly."""
    if not isinstance(value, kind):
        raise InvalidArgument(field, "wrong_type")
    return value


def listed(values: Any, field: str, maximum: int = MAX_ITEMS) -> list[Any]:
    """A collection given to one call, as a list."""
    if isinstance(values, (str, bytes, bytearray, Mapping)) or not isinstance(values, Collection):
        raise InvalidArgument(field, "not_a_list")
    at_most(len(values), maximum, field)
    return list(values)


def one_of(value: object, field: str, allowed: tuple[str, ...]) -> Any:
    """One of a few words."""
    if not isinstance(value, str) or value not in allowed:
        raise InvalidArgument(field, f"one of {', '.join(allowed)}")
    return value


def at_most(number: int, maximum: int, field: str) -> None:
    """Refuse what is more than allowed."""
    if number > maximum:
        raise InvalidArgument(field, "too_large")


def _name(value: object, field: str, max_bytes: int) -> str:
    plain = _plain(value, field)
    if not plain or plain.isspace():
        raise InvalidArgument(field, "empty")
    at_most(_utf8_length(plain, field), max_bytes, field)
    return plain


def _plain(value: object, field: str) -> str:
    if not isinstance(value, str):
        raise InvalidArgument(field, "not_text")
    if "\0" in value:
        raise InvalidArgument(field, "nul")
    # A subclass (an enum, say) may print as something else; drivers shall see only its text.
    return str.__str__(value)


def _utf8_length(value: str, field: str) -> int:
    if value.isascii():
        return len(value)
    try:
        return len(value.encode())
    except UnicodeEncodeError:
        raise InvalidArgument(field, "lone_surrogate") from None
