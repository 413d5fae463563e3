"""Holding a session's lease for the length of a turn (LEA-13)."""

from __future__ import annotations

from typing import Any

from holdfast.model.leases import LeaseOwner, LeaseTimings


class Guard:
    def __init__(self, view: Any, owner: LeaseOwner, timings: LeaseTimings) -> None: ...


class AsyncGuard:
    def __init__(self, view: Any, owner: LeaseOwner, timings: LeaseTimings) -> None: ...
