"""What claims of queued work and of turn inputs have in common."""

from __future__ import annotations

import msgspec

from holdfast.model.leases import LeaseOwner


class Completion(msgspec.Struct, frozen=True, kw_only=True):
    """What a commit needs to settle a claim, but for the ids of what is settled."""

    session_id: str
    claim_id: str
    claim_token: str

    def __repr__(self) -> str:
        return _without_token(self)


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """A claim, but for what was claimed."""

    session_id: str
    claim_id: str
    owner: LeaseOwner
    claim_token: str
    claim_count: int
    session_lease_generation: int

    def __repr__(self) -> str:
        return _without_token(self)


def _without_token(given: Completion | Claim) -> str:
    # A log line must never hand out the right to complete.
    name = type(given).__name__
    return f"{name}(session_id={given.session_id!r}, claim_id={given.claim_id!r})"
