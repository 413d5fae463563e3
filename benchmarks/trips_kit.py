"""What is counted, and for whom."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from holdfast import LeaseOwner

OWNER = LeaseOwner("bench", "bench-1")
#: As many items as may be carried without another trip.
MANY = 200


class Operation(NamedTuple):
    """Something to count. What `before` answers, uncounted, is handed to `call`."""

    name: str
    budget: int
    call: Callable[[Any], object]
    before: Callable[[], Any] = lambda: None
