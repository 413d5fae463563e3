"""Junk for whatever an operation takes: its arguments, and the fields of the records among them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec
import pytest

from holdfast import InvalidArgument, Refused

#: What no caller means, and what some do by mistake.
JUNK = [
    *(None, True, 5, -1, 2**70, 1.5, float("nan"), b"x", object(), set()),
    *("", "x", "a\0b", "\ud800", "x" * 5000),
    *([], [5], [None], [[]], ("a",), {}, {"a": 1}, {5: 1}),
    *({"a": 1}.values(), {5}, range(1)),
]

Case = Callable[[Any, Any], Any]


def cases(records: Mapping[str, tuple[Any, Case]], arguments: Mapping[str, Case]) -> Iterator[Any]:
    """A parameter for each argument, each record, and each field of it."""
    yield from (pytest.param(case, id=name) for name, case in arguments.items())
    for name, (record, use) in records.items():
        yield pytest.param(use, id=name)
        for field in record.__struct_fields__:

            def one(store: Any, it: Any, record: Any = record, use: Any = use, f: str = field):
                return use(store, msgspec.structs.replace(record, **{f: it}))

            yield pytest.param(one, id=f"{name}.{field}")


def offer(store: Any, case: Case) -> None:
    """Give it all the junk: what is wrong is refused before any statement."""
    for junk in JUNK:
        before = store._core.backend.counts.copy()
        try:
            case(store, junk)
        except InvalidArgument as refused:
            # That a fork's target exists is only found by looking.
            looked = refused.reason == "session_exists"
            assert looked or store._core.backend.counts == before, junk
        except Refused:
            pass
