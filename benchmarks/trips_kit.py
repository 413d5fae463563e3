"""What is counted, and for whom."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from holdfast import LeaseOwner

OWNER = LeaseOwner("bench", "bench-1")
#: As many items as may be carried without another trip.
MANY = 200
#: Later than anything that happens here.
LATER = 2**62

#: Makes, from a store, the arguments of one call; what that takes is not counted.
Given = Callable[[Any], tuple[Any, ...]]

_ids = itertools.count()


class Row(NamedTuple):
    """An operation, and the arguments it is counted on."""

    title: str
    #: Its place on the store: `sessions.load`.
    operation: str
    #: The trips that the contract allows; none where it names no number.
    budget: int | None
    given: Given


def always(*arguments: Any) -> Given:
    """The same arguments for every call."""
    return lambda _: arguments


def perform(store: Any, operation: str, *arguments: Any) -> Any:
    """Call an operation by its place on the store, and read its answer to the end."""
    area, _, name = operation.partition(".")
    answer = getattr(getattr(store, area), name)(*arguments)
    if isinstance(answer, Iterator):
        deque(answer, maxlen=0)
    return answer


def new(what: str) -> str:
    """A name that nothing has yet."""
    return f"{what}-{next(_ids)}"
