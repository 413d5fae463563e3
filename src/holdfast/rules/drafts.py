"""Batches of well-known kinds, under keys that make repeating them harmless (QUE-22)."""

from __future__ import annotations

from typing import Any, Final, Literal, TypeAlias, get_args

from holdfast.model.queue import QueuedWorkBatchDraft
from holdfast.model.values import JsonValue
from holdfast.rules import checks
from holdfast.rules.queue import COMMAND

SessionCommandKind: TypeAlias = Literal["refresh_tool_catalog", "reset_session"]
_KINDS: Final = get_args(SessionCommandKind)


def session_command(
    session_id: str, kind: SessionCommandKind, idempotency_key: str
) -> QueuedWorkBatchDraft:
    """A command to a session, which nothing behind it overtakes. Said again, it happens once.

    >>> import holdfast
    >>> with holdfast.open("sqlite://") as store:
    ...     draft = holdfast.session_command("chat-1", "reset_session", "click-1")
    ...     [store.queue.enqueue(draft).created for _ in range(2)]
    [True, False]
    """
    checks.one_of(kind, "kind", _KINDS)
    checks.key(idempotency_key, "idempotency_key")
    return QueuedWorkBatchDraft(
        session_id=checks.identifier(session_id, "session_id"),
        payloads=[{"type": COMMAND, "command": kind}],
        source_key=checks.key(f"command:{kind}:{idempotency_key}", "idempotency_key"),
    )


def frame_handoff(
    session_id: str, turn_id: str, payload: dict[str, JsonValue]
) -> QueuedWorkBatchDraft:
    """Work that a turn leaves to another frame of its session: for the outbox of its commit.

    >>> import holdfast
    >>> holdfast.frame_handoff("chat-1", "turn-1", {"type": "review"}).source_key
    'agent-frame-handoff:turn-1'
    """
    checks.identifier(turn_id, "turn_id")
    given: Any = payload
    return QueuedWorkBatchDraft(
        session_id=checks.identifier(session_id, "session_id"),
        payloads=[given],
        source_key=f"agent-frame-handoff:{turn_id}",
    )
