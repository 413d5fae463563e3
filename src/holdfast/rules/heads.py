"""What a caller may expect of a head (COM-4, EXT-8)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.errors import HeadRevisionConflict, InvalidArgument
from holdfast.model.commits import Expectation
from holdfast.model.values import ANY, Any_, Tag
from holdfast.rules import checks

TAG_BYTES = 128


def check_expectation(expected: Expectation, field: str = "expected_head_revision") -> None:
    """An expectation is a revision, `ANY`, or a `Tag`."""
    if isinstance(expected, Tag):
        if expected.text is not None:
            checks.text(expected.text, field, TAG_BYTES)
    elif not isinstance(expected, Any_):
        if expected is None:
            raise InvalidArgument(field, "required; say ANY to check nothing")
        checks.count(expected, field)


def must_match(session_id: str, expected: Expectation, row: Mapping[str, Any] | None) -> None:
    """Refuse with the true revision and tag; an absent session has revision 0 and no tag."""
    revision = 0 if row is None else row["head_revision"]
    tag = None if row is None else row["head_tag"]
    if expected is ANY:
        return
    if expected != (Tag(tag) if isinstance(expected, Tag) else revision):
        raise HeadRevisionConflict(session_id, expected, revision, tag)
