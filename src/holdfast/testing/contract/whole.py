"""A session with something of everything, and how to see whether it is there."""

from __future__ import annotations

from typing import Any

from holdfast.testing.contract.lanes import enqueue, submit
from holdfast.testing.contract.samples import (
    AN_ID,
    BOB,
    chain,
    checkpoint,
    create,
    lease_on,
    put,
    spent,
    turn,
)


def full(store: Any, session_id: str = "s1") -> None:
    """A session with a row in every table there is for sessions, a receipt among them."""
    create(store, session_id, labels={"name": "value"}, scope=("a", "b"), model="m")
    enqueue(store, "done", session_id=session_id, source_key="done")
    lease = lease_on(store, session_id)
    done = store.queue.claim(lease)
    store.sessions.release_lease(lease)
    put(
        store,
        session_id,
        graph=chain("a", "b", "c", "d"),
        config={"model": "m"},
        agent_frames=[{"frame_id": "f"}],
        current_agent_frame_id="f",
        checkpoint=checkpoint(1, tool_state=b"state of " + session_id.encode()),
        usage_deltas=[spent("chat"), spent("tool")],
        turn_commit=turn("t1", session_id),
        completed_queue_claims=[done],
    )
    store.sessions.tombstone(session_id, ["b"])
    store.attachments.record_intent(session_id, AN_ID)
    enqueue(store, "waits", session_id=session_id)
    submit(store, "waits", session_id=session_id)
    lease_on(store, session_id, BOB, ttl_ms=0)


def shown(store: Any, session_id: str = "s1") -> list[Any]:
    """What every read shows of the session `full` made."""
    at = store.sessions
    return [
        at.load(session_id),
        at.load(session_id, scope="full_graph"),
        at.load_meta(session_id),
        at.picker_info(session_id),
        at.lease(session_id),
        at.load_turn_commit(session_id, "t1"),
        at.load_node(session_id, "a"),
        store.attachments.holds(session_id, AN_ID),
        *at.list_nodes(session_id).nodes,
        *(line for line in at.list().sessions if line.session_id == session_id),
        *at.list(labels={"name": "value"}).sessions,
        *at.list(scope=("a", "b")).sessions,
        *store.queue.list(session_id),
        *store.queue.list_pending(session_id),
        *store.inputs.list(session_id),
        *store.inputs.list_pending(session_id),
        *(ready for ready in store.queue.ready_sessions() if ready.session_id == session_id),
    ]


def shows_nothing(store: Any, session_id: str = "s1") -> bool:
    """Whether no operation shows anything of the session `full` made."""
    return store.sessions.open(session_id) is None and not any(shown(store, session_id))
