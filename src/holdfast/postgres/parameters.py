"""Python values on their way to the server.

Each value carries a type of its own choosing only where the server could guess wrong. Text goes
untyped, so that the SQL around it decides (`%(at)s::jsonb`); an integer is always a bigint, or a
bare `coalesce(%(n)s, 0)` would be an int4. Nothing here ever becomes part of the SQL.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

#: The server decides what the text is.
UNKNOWN = 0
#: A null or an empty list, which says nothing of its type.
UNTYPED = -1
_BOOL, _BYTEA, _INT8, _TEXT, _FLOAT8 = 16, 17, 20, 25, 701
_TEXT_FORMAT, _BINARY_FORMAT = 0, 1


class Wire(NamedTuple):
    """One encoded value: its bytes, the type they are of, and their format."""

    data: bytes | None
    oid: int
    format: int


_NONE = Wire(None, UNTYPED, _TEXT_FORMAT)


def encode(value: Any) -> Wire:
    """A value as the server takes it. Types we do not store are a TypeError."""
    if value is None:
        return _NONE
    encoder = _ENCODERS.get(type(value))
    if encoder is None:
        raise TypeError(f"cannot be a statement's parameter: {type(value).__name__}")
    return encoder(value)


def _str(value: str) -> Wire:
    return Wire(value.encode(), UNKNOWN, _TEXT_FORMAT)


def _int(value: int) -> Wire:
    # As text, so that it also fits a parameter the server took for another number type.
    return Wire(b"%d" % value, _INT8, _TEXT_FORMAT)


def _bool(value: bool) -> Wire:
    return Wire(b"t" if value else b"f", _BOOL, _TEXT_FORMAT)


def _float(value: float) -> Wire:
    return Wire(repr(value).encode(), _FLOAT8, _TEXT_FORMAT)


def _bytes(value: bytes) -> Wire:
    return Wire(value, _BYTEA, _BINARY_FORMAT)


class _Element(NamedTuple):
    array_oid: int
    oid: int
    pack: Callable[[Any], bytes]


_ELEMENTS: dict[type, _Element] = {
    str: _Element(1009, _TEXT, str.encode),
    int: _Element(1016, _INT8, struct.Struct("!q").pack),
    bytes: _Element(1001, _BYTEA, bytes),
    bool: _Element(1000, _BOOL, struct.Struct("!?").pack),
    float: _Element(1022, _FLOAT8, struct.Struct("!d").pack),
}
_HEADER = struct.Struct("!iiIii")
_LENGTH = struct.Struct("!i").pack
_NULL = _LENGTH(-1)


def _list(values: Sequence[Any]) -> Wire:
    """An array in binary form; its element type is that of the first value that has one."""
    kind = next((type(value) for value in values if value is not None), None)
    if kind is None:
        return Wire(b"{%s}" % b",".join([b"NULL"] * len(values)), UNTYPED, _TEXT_FORMAT)
    element = _ELEMENTS.get(kind)
    if element is None:
        raise TypeError(f"cannot be an element of a parameter: {kind.__name__}")
    pieces = [_HEADER.pack(1, int(None in values), element.oid, len(values), 1)]
    for value in values:
        if value is None:
            pieces.append(_NULL)
        else:
            packed = element.pack(value)
            pieces += (_LENGTH(len(packed)), packed)
    return Wire(b"".join(pieces), element.array_oid, _BINARY_FORMAT)


_ENCODERS: dict[type, Callable[[Any], Wire]] = {
    str: _str,
    int: _int,
    bool: _bool,
    float: _float,
    bytes: _bytes,
    list: _list,
    tuple: _list,
}
