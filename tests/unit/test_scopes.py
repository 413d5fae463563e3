import itertools

import pytest

from holdfast.errors import CorruptRecord, InvalidArgument
from holdfast.rules.scopes import check_labels, decode_scope, encode_scope, prefix_range

LABELS = ["a", "b", "ab", "a/b", "\x01", "é", "\U0010ffff"]
SCOPES = [scope for depth in range(4) for scope in itertools.product(LABELS, repeat=depth)]


def test_scopes_come_back():
    for scope in SCOPES:
        assert decode_scope(encode_scope(scope), "s1") == scope


@pytest.mark.parametrize("prefix", [(), ("a",), ("a", "b"), ("\x01",), ("\U0010ffff",), ("é",)])
def test_a_prefix_is_label_wise(prefix):
    low, high = prefix_range(prefix)
    found = [scope for scope in SCOPES if low <= encode_scope(scope) < high]
    assert found == [scope for scope in SCOPES if scope[: len(prefix)] == prefix]


@pytest.mark.parametrize(
    ("scope", "reason"),
    [
        (("a",) * 9, "too_large"),
        (("a" * 257,), "too_large"),
        (("é" * 100,) * 6, "too_large"),
        (("",), "empty"),
        (("a\0b",), "nul"),
        (("\ud800",), "lone_surrogate"),
        ((1,), "not_text"),
        ("abc", "not_a_list"),
        (None, "not_a_list"),
    ],
)
def test_scopes_that_are_refused(scope, reason):
    with pytest.raises(InvalidArgument) as refused:
        encode_scope(scope)
    assert (refused.value.field, refused.value.reason) == ("scope", reason)


def test_the_largest_scope_is_legal():
    scope = ("x" * 256,) * 4
    assert decode_scope(encode_scope(scope), "s1") == scope


@pytest.mark.parametrize("stored", [b"a", b"\xff\0", b"a\0b"])
def test_an_unreadable_scope_is_corrupt(stored):
    with pytest.raises(CorruptRecord):
        decode_scope(stored, "s1")


@pytest.mark.parametrize(
    ("labels", "reason"),
    [
        ({str(n): "" for n in range(33)}, "too_large"),
        ({"n" * 65: ""}, "too_large"),
        ({"n": "v" * 513}, "too_large"),
        ({"": "v"}, "empty"),
        ({"n": 1}, "not_text"),
        ({1: "v"}, "not_text"),
        ({"n": "\0"}, "nul"),
        ([("n", "v")], "not_a_mapping"),
    ],
)
def test_labels_that_are_refused(labels, reason):
    with pytest.raises(InvalidArgument) as refused:
        check_labels(labels)
    assert (refused.value.field, refused.value.reason) == ("labels", reason)


def test_labels_within_the_limits():
    labels = {f"{n:064}": "v" * 512 for n in range(31)} | {"empty": ""}
    assert check_labels(labels) == labels
