"""Small records of the two lanes by which work reaches a session: turn inputs and queued work."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from holdfast import (
    ActiveTurn,
    Lease,
    LeaseOwner,
    LocalProcess,
    NextTurn,
    PendingTurnInput,
    PendingTurnInputDraft,
    QueuedWorkBatchDraft,
    local_process,
)
from holdfast.testing.clock import ManualClock
from holdfast.testing.contract.owners import replaced
from holdfast.testing.contract.samples import ALICE, BOB, commit, lease_on

TTL_MS = 30_000


# --- turn inputs -------------------------------------------------------------------------


def said(
    text: str = "hello",
    turn_id: str | None = None,
    boundary: Any = "after_work",
    session_id: str = "s1",
    **fields: Any,
) -> PendingTurnInputDraft:
    """A draft for a turn, or without one for the next turn."""
    ingress = NextTurn() if turn_id is None else ActiveTurn(turn_id, boundary)
    given = {"session_id": session_id, "ingress": ingress, "input": {"text": text}}
    return PendingTurnInputDraft(**given | fields)


def submit(store: Any, text: str = "hello", turn_id: str | None = None, **fields: Any) -> Any:
    """Submit a text; the stored record."""
    return store.inputs.enqueue(said(text, turn_id, **fields))


def texts(inputs: Iterable[PendingTurnInput]) -> list[str]:
    """What the inputs say, in their order."""
    return [each.input["text"] for each in inputs]


def pending(store: Any, session_id: str = "s1") -> list[str]:
    """What the pending inputs say."""
    return texts(store.inputs.list_pending(session_id))


def states(store: Any, session_id: str = "s1") -> dict[str, str]:
    """The state of each input, by what it says."""
    found = [entry.record for entry in store.inputs.list(session_id)]
    return dict(zip(texts(found), [record.state for record in found], strict=True))


def cancel_one(store: Any, target: Any, session_id: str = "s1") -> Any:
    """The outcome of cancelling a single input."""
    (outcome,) = store.inputs.cancel(session_id, [target])
    return outcome


# --- queued work -------------------------------------------------------------------------


def work(name: str = "tick", session_id: str = "s1", **fields: Any) -> QueuedWorkBatchDraft:
    """A draft of one payload."""
    given = {"session_id": session_id, "payloads": [{"type": "tick", "name": name}]}
    return QueuedWorkBatchDraft(**given | fields)


def enqueue(store: Any, name: str = "tick", **fields: Any) -> Any:
    """Put a batch into a queue; the outcome."""
    return store.queue.enqueue(work(name, **fields))


def names(batches: Iterable[Any]) -> list[str]:
    """The names of the batches that `work` drafted."""
    return [batch.items[0].payload["name"] for batch in batches]


def queued(store: Any, session_id: str = "s1") -> list[str]:
    """The names of all that is in a queue."""
    return names(store.queue.list(session_id))


# --- leases and commits ------------------------------------------------------------------


def settle(store: Any, lease: Lease, **fields: Any) -> Any:
    """Commit under a lease."""
    given = {"session_execution_lease": lease} | fields
    return store.sessions.commit(commit(lease.session_id, **given))


def mortal() -> LeaseOwner:
    """An owner on this host whose process is no more; opaque where this cannot be told."""
    is_told = isinstance(local_process("anybody").liveness, LocalProcess)
    return replaced() if is_told else ALICE


def released(store: Any, clock: ManualClock, lease: Lease) -> None:  # noqa: ARG001
    """Give a lease back."""
    assert store.sessions.release_lease(lease)


def expired(store: Any, clock: ManualClock, lease: Lease) -> None:  # noqa: ARG001
    """Let a lease's time run out."""
    clock.advance(TTL_MS)


def taken_over(store: Any, clock: ManualClock, lease: Lease) -> Lease:
    """Have a lease pass to somebody else: at once from a dead owner, else when it has expired."""
    if not isinstance(lease.owner.liveness, LocalProcess):
        return renewed(store, clock, lease)
    observed = store.sessions.lease(lease.session_id)
    successor: Lease = store.sessions.reclaim_lease(
        observed, local_process("successor"), TTL_MS
    ).lease
    return successor


def renewed(store: Any, clock: ManualClock, lease: Lease) -> Lease:
    """A lease of a new generation, whoever has the session now."""
    clock.advance(TTL_MS)
    return lease_on(store, lease.session_id, BOB)


#: The ways in which a lease ends without its claims being given back.
ENDINGS: list[Callable[[Any, ManualClock, Lease], Lease | None]] = [released, expired, taken_over]


def succeeded(store: Any, clock: ManualClock, lease: Lease, end: Any) -> Lease:
    """Let a lease end in one of the ways; the lease of whoever comes next."""
    return end(store, clock, lease) or renewed(store, clock, lease)
