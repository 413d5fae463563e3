import enum

import pytest

from holdfast.errors import InvalidArgument
from holdfast.rules import checks


class Name(enum.StrEnum):
    ONE = "one"


NAMES = [
    ("", "empty"),
    (" \t\n\u2003", "empty"),
    ("a\0b", "nul"),
    ("\udc00", "lone_surrogate"),
    (5, "not_text"),
    (None, "not_text"),
    (b"a", "not_text"),
    ("é" * 257, "too_large"),
]


@pytest.mark.parametrize(("value", "reason"), NAMES)
def test_what_is_no_identifier(value, reason):
    with pytest.raises(InvalidArgument) as refused:
        checks.identifier(value, "session_id")
    assert (refused.value.field, refused.value.reason) == ("session_id", reason)


@pytest.mark.parametrize("value", [" a ", "é" * 256, "a#b/c%\n", "\U0001f600"])
def test_identifiers_are_kept_exactly(value):
    assert checks.identifier(value, "session_id") == value


def test_keys_may_be_longer():
    assert checks.key("é" * 512, "source_key")
    with pytest.raises(InvalidArgument, match="too_large"):
        checks.key("é" * 512 + "x", "source_key")


def test_subclasses_become_plain_text_and_integers():
    assert type(checks.identifier(Name.ONE, "id")) is str
    assert checks.identifier(Name.ONE, "id") == "one"
    assert type(checks.count(enum.IntEnum("N", "A").A, "n")) is int


@pytest.mark.parametrize(
    ("check", "value", "reason"),
    [
        (checks.text, "a\0", "nul"),
        (checks.text, "\ud800", "lone_surrogate"),
        (checks.kind, "", "empty"),
        (checks.kind, "k" * 65, "too_large"),
        (checks.count, -1, "negative"),
        (checks.count, True, "not_an_integer"),
        (checks.count, 1.0, "not_an_integer"),
        (checks.count, "1", "not_an_integer"),
        (checks.count, 2**63, "too_large"),
        (checks.limit, 10_001, "too_large"),
        (checks.limit, -1, "negative"),
        (checks.instant, 2**63, "too_large"),
        (checks.instant, -(2**63) - 1, "too_large"),
        (checks.instant, None, "not_an_integer"),
        (checks.duration, 2**62 + 1, "too_large"),
        (checks.duration, -1, "negative"),
        (checks.listed, "abc", "not_a_list"),
        (checks.listed, b"abc", "not_a_list"),
        (checks.listed, {"a": 1}, "not_a_list"),
        (checks.listed, iter([1]), "not_a_list"),
        (checks.listed, None, "not_a_list"),
        (checks.listed, [0] * 10_001, "too_large"),
    ],
)
def test_refused(check, value, reason):
    with pytest.raises(InvalidArgument) as refused:
        check(value, "field")
    assert (refused.value.field, refused.value.reason) == ("field", reason)


@pytest.mark.parametrize(
    ("check", "value"),
    [
        (checks.text, ""),
        (checks.kind, "é" * 64),
        (checks.count, 2**63 - 1),
        (checks.limit, 10_000),
        (checks.limit, 0),
        (checks.instant, -1),
        (checks.duration, 0),
        (checks.listed, [0] * 10_000),
    ],
)
def test_accepted(check, value):
    assert check(value, "field") == value


def test_text_with_a_limit_counts_bytes():
    assert checks.text("é" * 64, "tag", 128)
    with pytest.raises(InvalidArgument, match="too_large"):
        checks.text("é" * 65, "tag", 128)
    with pytest.raises(InvalidArgument, match="empty"):
        checks.text("", "tag", allow_empty=False)


def test_any_collection_becomes_a_list():
    assert checks.listed((1, 2), "ids") == [1, 2]
    assert checks.listed({3}, "ids") == [3]
