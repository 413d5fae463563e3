"""Values as bytes: canonical JSON, the hashes made from it, and how payloads are stored.

Canonical JSON is what msgspec writes in deterministic order, so there is one fast encoder and no
second one. It converts some foreign types silently and writes NaN as null; a walk over the value
before encoding keeps it from doing so.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from hashlib import sha256
from math import isfinite
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from holdfast.errors import CorruptRecord, InvalidArgument
from holdfast.model.values import JsonValue, Payload
from holdfast.rules.checks import at_most, label
from holdfast.settings import MAX_VALUE_BYTES

T = TypeVar("T")

#: How deep values may nest: half of what the interpreter allows, so that what was written in one
#: place can be read in any other.
MAX_DEPTH: Final = 500
#: How many digits an integer may have: as many as Python's own decoder reads, since spelling and
#: reading take time quadratic in them.
MAX_DIGITS: Final = 4_300
_MAX_INTEGER: Final = 10**MAX_DIGITS - 1
#: What any interpreter prints: the limit on digits cannot be set lower than 640.
_PRINTABLE_BITS: Final = 2_000
_HASHED_BYTES: Final = 512 * 1024 * 1024
_HASHED_DEPTH: Final = MAX_DEPTH + 16

JSON: Final = 0
PAYLOAD_BYTES: Final = 1
PAYLOAD_TEXT: Final = 2

_LEAVES: Final = frozenset({str, bool, type(None)})
_encode = msgspec.json.Encoder(order="deterministic").encode
_decode = msgspec.json.Decoder().decode


class Encoded(NamedTuple):
    """A value as it is stored: how, under which tag (payloads only), and its bytes."""

    enc: int
    tag: str | None
    body: bytes


def canonical(value: JsonValue, field: str = "value", max_bytes: int = MAX_VALUE_BYTES) -> bytes:
    """The canonical JSON of a value; `InvalidArgument(field)` for whatever is no JSON value."""
    return _canonical(value, field, max_bytes, MAX_DEPTH)


def parse(data: bytes) -> JsonValue:
    """The value of a JSON text, integers and floats exact; `ValueError` if it is none."""
    try:
        return _on_any_stack(_parse, data)
    except RecursionError:
        raise ValueError("nested too deep") from None


def sha256_hex(data: bytes) -> str:
    """The lower-case hexadecimal SHA-256 of some bytes."""
    return sha256(data).hexdigest()


def digest(domain: str, *parts: JsonValue) -> str:
    """The hash of some values under a domain, so that no two domains share one."""
    return sha256_hex(_canonical([domain, 1, *parts], domain, _HASHED_BYTES, _HASHED_DEPTH))


def encode_value(
    value: JsonValue | Payload, field: str, max_bytes: int = MAX_VALUE_BYTES
) -> Encoded:
    """A JSON value as canonical text, or a payload exactly as given with its tag."""
    if type(value) is not Payload:
        return Encoded(JSON, None, _canonical(value, field, max_bytes, MAX_DEPTH))
    tag = label(value.tag, f"{field}.tag")
    enc, body = _payload_bytes(value.data, field)
    at_most(len(body), max_bytes, field)
    return Encoded(enc, tag, body)


def decode_value(
    enc: int, tag: str | None, body: bytes, record_kind: str, key: str
) -> JsonValue | Payload:
    """What `encode_value` was given; `CorruptRecord(record_kind, key)` if that cannot be told."""
    try:
        if enc == JSON:
            return parse(body)
        if tag is not None and enc == PAYLOAD_BYTES:
            return Payload(body, tag)
        if tag is not None and enc == PAYLOAD_TEXT:
            return Payload(body.decode(), tag)
    except ValueError as error:
        raise CorruptRecord(record_kind, key, "unparsable") from error
    raise CorruptRecord(record_kind, key, "unknown_encoding")


def identity(enc: int, tag: str | None, body: bytes) -> tuple[str | None, str]:
    """What decides whether two stored values are the same: the tag, and the hash of the bytes.

    A payload is never equal to a JSON value, which has no tag; text and bytes count alike.
    """
    return (None if enc == JSON else tag, sha256_hex(body))


def _canonical(value: JsonValue, field: str, max_bytes: int, max_depth: int) -> bytes:
    _walk(value, field, max_bytes, max_depth)
    try:
        data = _on_any_stack(_spell, value)
    except RecursionError:
        raise InvalidArgument(field, "too_deep") from None
    except UnicodeEncodeError:
        raise InvalidArgument(field, "lone_surrogate") from None
    at_most(len(data), max_bytes, field)
    return data


def _walk(value: JsonValue, field: str, max_items: int, max_depth: int) -> None:
    """Refuse what the encoder would convert; level by level, so that cycles end too."""
    level: list[Any] = [value]
    for _ in range(max_depth + 1):
        level = _children(level, field, max_items)
        if not level:
            return
    raise InvalidArgument(field, "too_deep")


def _children(level: list[Any], field: str, max_items: int) -> list[Any]:
    deeper: list[Any] = []
    for value in level:
        kind = type(value)
        if kind in _LEAVES:
            continue
        if kind is int:
            if not -_MAX_INTEGER <= value <= _MAX_INTEGER:
                raise InvalidArgument(field, "too_large")
        elif kind is dict:
            for name in value:
                if type(name) is not str:
                    raise InvalidArgument(field, "key_not_text")
            deeper += value.values()
        elif kind is list or kind is tuple:
            deeper += value
        elif kind is not float:
            raise InvalidArgument(field, "not_json")
        elif not isfinite(value):
            raise InvalidArgument(field, "not_finite")
        if len(deeper) > max_items:
            raise InvalidArgument(field, "too_large")
    return deeper


def _payload_bytes(data: object, field: str) -> tuple[int, bytes]:
    if isinstance(data, bytes):
        return PAYLOAD_BYTES, bytes(data)
    if not isinstance(data, str):
        raise InvalidArgument(field, "not_bytes_or_text")
    try:
        return PAYLOAD_TEXT, data.encode()
    except UnicodeEncodeError:
        raise InvalidArgument(field, "lone_surrogate") from None


def _on_any_stack(function: Callable[[Any], T], argument: Any) -> T:
    # Whether a value can be read must not depend on how deep its caller already stands.
    try:
        return function(argument)
    except RecursionError:
        with ThreadPoolExecutor(max_workers=1) as fresh:
            return fresh.submit(function, argument).result()


def _spell(value: JsonValue) -> bytes:
    try:
        return _encode(value)
    except UnicodeEncodeError:
        raise
    except ValueError:
        return _encode(_spell_out(value))


def _spell_out(value: JsonValue) -> JsonValue:
    """Integers that the interpreter may refuse to print, as text the encoder takes over."""
    if type(value) is int and value.bit_length() > _PRINTABLE_BITS:
        return msgspec.Raw(str(Decimal(value)).encode())
    if type(value) is dict:
        return dict(zip(value, map(_spell_out, value.values()), strict=True))
    if type(value) in (list, tuple):
        # A comprehension would take two frames a level, and there is room for one.
        return list(map(_spell_out, value))
    return value


def _parse(data: bytes) -> JsonValue:
    try:
        return _decode(data)
    except msgspec.ValidationError:
        # Slower, for integers of more digits than the interpreter is set to read.
        return json.loads(
            data.decode(),
            parse_int=_integer,
            parse_float=_finite,
            parse_constant=_finite,
        )


def _integer(text: str) -> int:
    if len(text.removeprefix("-")) > MAX_DIGITS:
        raise ValueError("an integer of too many digits")
    return int(Decimal(text))


def _finite(text: str) -> float:
    number = float(text)
    if not isfinite(number):
        raise ValueError(f"{text} is not finite")
    return number
