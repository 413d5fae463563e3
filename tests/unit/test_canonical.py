import datetime
import enum
import math
import random
import struct
import sys
from collections import OrderedDict
from decimal import Decimal
from typing import NamedTuple

import msgspec
import pytest

from holdfast.errors import CorruptRecord, InvalidArgument
from holdfast.model.values import Payload
from holdfast.rules.canonical import (
    MAX_DEPTH,
    PAYLOAD_BYTES,
    PAYLOAD_TEXT,
    canonical,
    decode_value,
    digest,
    encode_value,
    identity,
    parse,
    sha256_hex,
)


class Colour(enum.StrEnum):
    RED = "red"


class Point(NamedTuple):
    x: int


class Word(str):
    pass


class Record(msgspec.Struct):
    name: str


def nested(depth, leaf=1):
    for _ in range(depth):
        leaf = [leaf]
    return leaf


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (True, "true"),
        ([1, 1.0, 1e16, 1e-7, -0.0], "[1,1.0,1e16,1e-7,-0.0]"),
        ([0.1, 1e-5, 9e-6, 1.5e-7], "[0.1,0.00001,9e-6,1.5e-7]"),
        (
            [9999999999999998.0, 1.5e300, 5e-324, 2**64],
            "[9999999999999998.0,1.5e300,5e-324,18446744073709551616]",
        ),
        ('\0\b\x1f"\\/\x7fé\u2028', '"\\u0000\\b\\u001f\\"\\\\/\x7fé\u2028"'),
        ({"\U0001f600": 1, "\uffff": 2, "a": {"c": (), "b": {}}}, None),
        ((1, (2, [3])), "[1,[2,[3]]]"),
        (-(2**63) - 1, str(-(2**63) - 1)),
    ],
)
def test_canonical_text(value, text):
    if text is None:
        text = '{"a":{"b":{},"c":[]},"\uffff":2,"\U0001f600":1}'
    assert canonical(value).decode() == text


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (math.nan, "not_finite"),
        ([1, {"a": math.inf}], "not_finite"),
        ({"a": -math.inf}, "not_finite"),
        ("\ud800", "lone_surrogate"),
        ({"\udfff": 1}, "lone_surrogate"),
        ({1: 2}, "key_not_text"),
        ({None: 2}, "key_not_text"),
        ({Colour.RED: 2}, "key_not_text"),
        ({Word("a"): 2}, "key_not_text"),
        (Colour.RED, "not_json"),
        (Word("a"), "not_json"),
        (OrderedDict(a=1), "not_json"),
        (Point(1), "not_json"),
        (b"bytes", "not_json"),
        ([{1, 2}], "not_json"),
        (datetime.date(2020, 1, 1), "not_json"),
        (Decimal(1), "not_json"),
        (Record("a"), "not_json"),
        (msgspec.Raw(b"1"), "not_json"),
        ({"a": Payload(b"", "t")}, "not_json"),
        (object(), "not_json"),
        ([10**4300], "too_large"),
        ([{"a": -(10**4300)}], "too_large"),
        ((1, 1 << 100_000_000), "too_large"),
        (nested(MAX_DEPTH + 1), "too_deep"),
        (nested(100_000), "too_deep"),
    ],
)
def test_what_is_no_json_value_is_refused(value, reason):
    with pytest.raises(InvalidArgument) as refused:
        canonical(value, "body")
    assert (refused.value.field, refused.value.reason) == ("body", reason)


def test_cycles_end():
    narrow: list = []
    narrow.append(narrow)
    with pytest.raises(InvalidArgument, match="too_deep"):
        canonical(narrow, max_bytes=10_000)
    wide: dict = {}
    wide.update(a=wide, b=wide, c=[wide] * 10)
    with pytest.raises(InvalidArgument, match="too_large"):
        canonical(wide, max_bytes=10_000)


def test_the_size_limit_counts_canonical_bytes():
    assert canonical("é" * 4, max_bytes=10) == '"éééé"'.encode()
    with pytest.raises(InvalidArgument, match="too_large"):
        canonical("é" * 4, max_bytes=9)


NINES = 10**4300 - 1


@pytest.mark.parametrize("digits", [0, 640, 4_300])
def test_integers_come_back_whatever_the_interpreter_is_set_to_print(digits):
    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(digits)
    try:
        for number in (2**64, 10**639, 10**640, -(10**3000) - 1, 10**4299 + 1, NINES, -NINES):
            value = [number, {"a": (number,)}, 0.5]
            assert parse(canonical(value)) == [number, {"a": [number]}, 0.5]
    finally:
        sys.set_int_max_str_digits(before)


def test_floats_come_back_exactly():
    chosen = random.Random(7)
    for _ in range(2_000):
        (number,) = struct.unpack("d", chosen.randbytes(8))
        if math.isfinite(number):
            assert struct.pack("d", parse(canonical(number))) == struct.pack("d", number)


def test_depth_does_not_depend_on_where_the_caller_stands():
    def deeper(levels, value):
        return deeper(levels - 1, value) if levels else parse(canonical(value))

    for leaf in (1, NINES):
        assert deeper(700, nested(MAX_DEPTH, leaf)) == nested(MAX_DEPTH, leaf)


@pytest.mark.parametrize(
    "text",
    [
        *(b"", b"{", b"NaN", b"1e400", b'"\xff"', b"[1] 2", b"9" * 5000 + b"x", b"[" * 100_000),
        *(b"1" + b"0" * 4300, b'{"a":[-1' + b"0" * 4300 + b"]}", b"1" * 16_000_000),
    ],
    ids=lambda text: f"{text[:10]!r} of {len(text)}",
)
def test_what_is_no_json_text_is_a_value_error(text):
    with pytest.raises(ValueError):  # noqa: PT011
        parse(text)


OWNER = {"type": "session", "session_id": "s1"}


@pytest.mark.parametrize(
    ("domain", "parts", "expected"),
    [
        (
            "holdfast.process-event-payload",
            ("producer.line", {"n": 7, "line": "done"}),
            "7fe29fc8a498d81a1c03df799fd3866264108bedc941e9ef81feae742130134a",
        ),
        (
            "holdfast.process-event-payload",
            ("process.cancel_requested", {"reason": "stop"}),
            "32e50325d66352b7147cf51a71b8d87c472d81165f17723fc7cbcf175d1050c3",
        ),
        (
            "holdfast.process-wake",
            ("session:root", "proc-1:2"),
            "2c8393753f41c2f667eb51ba0056ef17274244d4d287b41c0e5c8b7e0a41a081",
        ),
        (
            "holdfast.trigger-source",
            ("ui.button.pressed", {}),
            "01611cde81c0b5a4b46972963ef2b6ae88ef56d0e95a10d632308f2d6a127bf8",
        ),
        (
            "holdfast.trigger-subscription",
            (OWNER, "button-blue"),
            "f6008bfeb7f0f9b530fce75bb36142b20a8dbc2be13518ab4d86dde739291199",
        ),
        (
            "holdfast.trigger-operation-receipt",
            (OWNER, "op-1"),
            "b1fe213913850577fc5b67e117010ef35609cf2a8df10d7ffb0109f53a24d4be",
        ),
        (
            "holdfast.process-env",
            ({"plugin_options": {}, "policy": {}},),
            "3bcbc9700bc4125a63aad456c94ed27e96b7d12d276fc01c322176001a80b138",
        ),
    ],
)
def test_hash_vectors(domain, parts, expected):
    assert digest(domain, *parts) == expected


@pytest.mark.parametrize(
    ("value", "enc"),
    [
        ({"a": [1, None]}, 0),
        (Payload(b"\x80\x00\xff", "vendor/blob"), PAYLOAD_BYTES),
        (Payload('{"a":1,"a":2,"b":"\\ud800","c":NaN}  ', "json"), PAYLOAD_TEXT),
        (Payload("", "x" * 64), PAYLOAD_TEXT),
    ],
)
def test_values_and_payloads_come_back(value, enc):
    stored = encode_value(value, "body")
    assert stored.enc == enc
    assert decode_value(*stored, "node", "n1") == value


@pytest.mark.parametrize(
    ("payload", "field", "reason"),
    [
        (Payload(b"", ""), "body.tag", "empty"),
        (Payload(b"", "x" * 65), "body.tag", "too_large"),
        (Payload(b"", "a\0"), "body.tag", "nul"),
        (Payload(b"12345", "t"), "body", "too_large"),
        (Payload("\ud800", "t"), "body", "lone_surrogate"),
        (Payload(bytearray(b"1"), "t"), "body", "not_bytes_or_text"),  # type: ignore[arg-type]
    ],
)
def test_payloads_that_cannot_be_stored(payload, field, reason):
    with pytest.raises(InvalidArgument) as refused:
        encode_value(payload, "body", max_bytes=4)
    assert (refused.value.field, refused.value.reason) == (field, reason)


@pytest.mark.parametrize(
    ("enc", "tag", "body"),
    [(0, None, b"{"), (2, "t", b"\xff"), (1, None, b""), (9, "t", b""), (0, None, b"[" * 9999)],
)
def test_an_unreadable_value_is_corrupt(enc, tag, body):
    with pytest.raises(CorruptRecord) as fault:
        decode_value(enc, tag, body, "node", "n1")
    assert (fault.value.record_kind, fault.value.key) == ("node", "n1")


def test_identity_is_the_tag_and_the_hash_of_the_bytes():
    def of(value):
        return identity(*encode_value(value, "body"))

    assert of({"a": 1, "b": 2}) == of({"b": 2, "a": 1})
    assert of(Payload("abc", "t")) == of(Payload(b"abc", "t")) == ("t", sha256_hex(b"abc"))
    assert of(Payload("abc", "t")) != of(Payload("abc", "u"))
    assert of(1) != of(Payload("1", "json"))
    assert of(1) != of(1.0)
