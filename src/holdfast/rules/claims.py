"""Claims of queued work and of turn inputs: what a commit may settle with them.

Both families follow the same rules (QUE-19, QUE-20, INP-12) and differ in names only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from holdfast.errors import (
    HoldfastError,
    InvalidArgument,
    QueuedWorkClaimSuperseded,
    TurnInputClaimSuperseded,
    UnsettledQueuedWorkClaim,
    UnsettledTurnInputClaim,
)
from holdfast.model.inputs import PendingTurnInput, TurnInputClaim, TurnInputCompletion
from holdfast.model.queue import QueuedWorkBatch, QueuedWorkClaim, QueuedWorkCompletion
from holdfast.rules import checks


class Family(NamedTuple):
    """One family of claims, by its names."""

    #: Of a commit's field, of the ids within a completion, and of the records within a claim.
    field: str
    ids: str
    records: str
    record: type
    claim: type
    completion: type
    superseded: Callable[[str, str, list[str]], HoldfastError]
    unsettled: Callable[[str, str], HoldfastError]

    def has(self, given: Any) -> bool:
        """Whether something is a claim of this family, or its completion."""
        return isinstance(given, (self.claim, self.completion))


WORK: Final = Family(
    "completed_queue_claims",
    "batch_ids",
    "batches",
    QueuedWorkBatch,
    QueuedWorkClaim,
    QueuedWorkCompletion,
    QueuedWorkClaimSuperseded,
    UnsettledQueuedWorkClaim,
)
INPUTS: Final = Family(
    "completed_turn_input_claims",
    "input_ids",
    "inputs",
    PendingTurnInput,
    TurnInputClaim,
    TurnInputCompletion,
    TurnInputClaimSuperseded,
    UnsettledTurnInputClaim,
)
FAMILIES: Final = (WORK, INPUTS)


class Completion(NamedTuple):
    """What a commit says it settles of one claim."""

    claim_id: str
    token: str
    ids: list[str]


Row: TypeAlias = Mapping[str, Any]


def completions(family: Family, given: Any, session_id: str) -> list[Completion]:
    """The static part (COM-1, 1): every completion is of this session and names each row once."""
    found = [
        _completion(family, each, session_id, f"{family.field}[{index}]")
        for index, each in enumerate(checks.listed(given, family.field))
    ]
    must_differ([each.claim_id for each in found], family.field)
    return found


def _completion(family: Family, given: Any, session_id: str, field: str) -> Completion:
    if not family.has(given):
        raise InvalidArgument(field, "not a claim or completion")
    ids = _ids(family, given, field)
    if given.session_id != session_id:
        raise family.superseded(session_id, given.claim_id, ids)
    if not ids:
        raise InvalidArgument(f"{field}.{family.ids}", "empty")
    for each in ids:
        checks.identifier(each, f"{field}.{family.ids}")
    must_differ(ids, f"{field}.{family.ids}")
    checks.identifier(given.claim_id, f"{field}.claim_id")
    checks.text(given.claim_token, f"{field}.claim_token", checks.KEY_BYTES)
    return Completion(given.claim_id, given.claim_token, ids)


def _ids(family: Family, given: Any, field: str) -> list[Any]:
    """What a completion lists, or what the records of a claim are called."""
    if isinstance(given, family.claim):
        within = f"{field}.{family.records}"
        for index, each in enumerate(checks.listed(getattr(given, family.records), within)):
            checks.record(each, family.record, f"{within}[{index}]")
    return checks.listed(getattr(given, family.ids), f"{field}.{family.ids}")


def presented(family: Family, given: Any, field: str) -> dict[str, str]:
    """A claim as a statement recognises it: by its session, id and token."""
    if not family.has(given):
        raise InvalidArgument(field, "not a claim or completion")
    return {
        "session_id": checks.identifier(given.session_id, f"{field}.session_id"),
        "claim_id": checks.identifier(given.claim_id, f"{field}.claim_id"),
        "claim_token": checks.text(given.claim_token, f"{field}.claim_token", checks.KEY_BYTES),
    }


def must_differ(ids: list[str], field: str) -> None:
    """Refuse a list that names something twice."""
    if len(set(ids)) != len(ids):
        raise InvalidArgument(field, "repeated")


def must_be_settled(
    originating: Any, session_id: str, settled: Mapping[Family, list[Completion]]
) -> None:
    """Every claim whose content a commit contains is among those it completes."""
    for index, claim in enumerate(checks.listed(originating, "originating_claims")):
        family = next((each for each in FAMILIES if each.has(claim)), None)
        if family is None:
            raise InvalidArgument(f"originating_claims[{index}]", "not a claim or completion")
        claim_ids = [each.claim_id for each in settled[family]]
        if claim.session_id != session_id or claim.claim_id not in claim_ids:
            raise family.unsettled(claim.session_id, claim.claim_id)


def owned(
    family: Family, session_id: str, settled: Iterable[Completion], rows: Iterable[Row], id: str
) -> list[int]:
    """The sequence numbers of what is completed, where each claim owns exactly what is listed.

    Generations do not count: what nobody took since can still be settled (QUE-20).
    """
    by_claim: dict[tuple[str, str], dict[str, int]] = {}
    for row in rows:
        by_claim.setdefault((row["claim_id"], row["claim_token"]), {})[row[id]] = row["seq"]
    found: list[int] = []
    for each in settled:
        has = by_claim.get((each.claim_id, each.token), {})
        unowned = [listed for listed in each.ids if listed not in has]
        if unowned:
            raise family.superseded(session_id, each.claim_id, unowned)
        if len(has) > len(each.ids):
            raise InvalidArgument(family.ids, "partial completion")
        found += has.values()
    return found
