"""Which file a URL names, and which settings are refused at once (FAC-19)."""

from __future__ import annotations

from pathlib import Path

import pytest

import holdfast
from holdfast import InvalidArgument


@pytest.mark.parametrize(
    "url",
    [
        "sqlite:///a%00b",
        "sqlite:///a%ffb",
        "sqlite:///a.db?mode=ro",
        "sqlite:///a.db#part",
        "sqlite:///:memory:",
        "sqlite:///",
        "sqlite:/a.db",
    ],
)
def test_what_only_looks_like_a_file_is_refused(url: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        holdfast.open(url)
    assert refused.value.field == "url"


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("a%20b", "a b"),
        ("a%3Fb", "a?b"),
        ("a%23b", "a#b"),
        ("%C3%A4", "ä"),
        ("ä", "ä"),
        ("a+b", "a+b"),
    ],
)
def test_a_file_has_the_name_that_is_written(tmp_path: Path, written: str, name: str) -> None:
    with holdfast.open(f"sqlite:///{tmp_path}/{written}") as store:
        assert store.sessions.list().sessions == []
        assert (tmp_path / name).exists()


@pytest.mark.parametrize("setting", ["wait_ms", "lock_timeout_ms", "pool_timeout_ms"])
def test_no_wait_is_longer_than_threads_and_servers_can_be_told(setting: str) -> None:
    holdfast.open("sqlite://", **{setting: 2**31 - 1}).close()
    with pytest.raises(InvalidArgument) as refused:
        holdfast.open("sqlite://", **{setting: 2**31})
    assert (refused.value.field, refused.value.reason) == (setting, "too_large")
