"""COM-T18: a commit that is cut off, wherever that is, leaves all of itself or nothing."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec
import pytest

import holdfast
from holdfast import (
    Lease,
    QueuedWorkClaim,
    ReplaceFull,
    RuntimeCommit,
    Session,
    SessionCreate,
    StartAt,
    TurnInputClaim,
)
from holdfast.testing.clock import ManualClock
from holdfast.testing.contract.children import DEAD, real, reopened, status_of
from holdfast.testing.contract.lanes import enqueue, names, queued, states, submit, work
from holdfast.testing.contract.samples import (
    AN_ID,
    ANOTHER_ID,
    chain,
    checkpoint,
    commit,
    lease_on,
    path_ids,
    put,
    spent,
    turn,
)
from holdfast.testing.processes import spawn, together
from holdfast.testing.world import World

Cut = Callable[[str, str], None]


class CutOff(Exception):
    """The commit goes no further."""


class Given(NamedTuple):
    """The lease under which a session is to be continued, and what was claimed under it."""

    lease: Lease
    work: QueuedWorkClaim
    inputs: TurnInputClaim


def before_it(store: Any, session_id: str) -> Given:
    """A session with a past, and with work and inputs, some of them claimed."""
    put(
        store,
        session_id,
        graph=chain("a", "b"),
        config={"model": "old"},
        agent_frames=[{"frame_id": "old"}],
        current_agent_frame_id="old",
        checkpoint=checkpoint(1, tool_state=session_id.encode()),
        usage_deltas=[spent("chat", "m", 1)],
        head_tag="old",
    )
    store.attachments.record_intent(session_id, AN_ID)
    store.attachments.record_intent(session_id, ANOTHER_ID, owner_kind="turn", owner_id="t1")
    for name in ("settled", "waits"):
        enqueue(store, name, session_id=session_id, source_key=name)
    submit(store, "accepted", "t1", session_id=session_id)
    submit(store, "left over", "t1", session_id=session_id, boundary="before_completion")
    lease = lease_on(store, session_id)
    claimed = store.queue.claim_exactly(lease, "idle", [_first_batch(store, session_id)])
    return Given(lease, claimed, store.inputs.claim_active(lease, "t1", "after_work"))


def _first_batch(store: Any, session_id: str) -> str:
    batch_id: str = store.queue.list(session_id, limit=1)[0].batch_id
    return batch_id


def everything(session_id: str, given: Given) -> RuntimeCommit:
    """A commit with something of every kind that it can settle."""
    return commit(
        session_id,
        expected_head_revision=1,
        session_execution_lease=given.lease,
        release_session_execution_lease=True,
        graph=holdfast.Splice(1, chain("c", "d").nodes),
        config={"model": "new"},
        agent_frames=[{"frame_id": "new"}],
        current_agent_frame_id="new",
        checkpoint=checkpoint(2, tool_state=b"new " + session_id.encode(), extra=b"new"),
        usage_deltas=[spent("chat", "m", 2), spent("tool")],
        turn_commit=turn("t1", session_id),
        committed_attachment_ids=[AN_ID],
        completed_queue_claims=[given.work],
        completed_turn_input_claims=[given.inputs],
        originating_claims=[given.work, given.inputs],
        enqueued_queue_batches=[
            work("settled", session_id, source_key="settled"),
            work("waits", session_id, source_key="waits"),
            work("follow-up", session_id, source_key="follow-up"),
        ],
        interrupted_turn_input_turn_id="t1",
        head_tag="new",
        activity_us=5,
    )


def under_its_lease(store: Any, session_id: str, **fields: Any) -> Any:
    """A commit that goes on where `before_it` ended."""
    held = before_it(store, session_id).lease
    return commit(session_id, expected_head_revision=1, session_execution_lease=held, **fields)


def a_beginning_elsewhere(store: Any, session_id: str) -> RuntimeCommit:
    """The first commit of a session, which begins on the path of another."""
    source = f"{session_id}-source"
    store.sessions.release_lease(before_it(store, source).lease)
    made = SessionCreate(session_id=session_id, start_at=StartAt("b", source), scope=("a",))
    parts: dict[str, Any] = {"graph": chain("c"), "checkpoint": checkpoint(2, extra=b"new")}
    return commit(session_id, create=made, config={"model": "new"}, **parts)


def without_a_lease(store: Any, session_id: str) -> RuntimeCommit:
    """A commit with something of every kind, under a lease of its moment."""
    given = before_it(store, session_id)
    store.sessions.release_lease(given.lease)
    return msgspec.structs.replace(
        everything(session_id, given),
        session_execution_lease=None,
        release_session_execution_lease=False,
    )


#: What is needed before a commit of each kind, and the commit.
COMMITS: dict[str, Callable[[Any, str], RuntimeCommit]] = {
    "everything": lambda store, id: everything(id, before_it(store, id)),
    "light": lambda store, id: under_its_lease(store, id, graph=chain("c", "d"), head_tag="new"),
    "replacing": lambda store, id: under_its_lease(
        store, id, graph=ReplaceFull(chain("x", "y").nodes), config={"model": "new"}
    ),
    "momentary": without_a_lease,
    "beginning elsewhere": a_beginning_elsewhere,
}


def apply(store: Any, ready: RuntimeCommit) -> None:
    """Commit, with or without a lease."""
    if ready.session_execution_lease is None:
        store.sessions.commit_with_fresh_lease(ready)
    else:
        store.sessions.commit(ready)


def cut_at(moment: int, cut: Callable[[], None]) -> Cut:
    """A hook that cuts the operation off at its n-th moment: before or after a statement."""
    moments = itertools.count()

    def hook(_name: str, _when: str) -> None:
        if next(moments) == moment:
            cut()

    return hook


def intents_of(store: Any, session_id: str) -> list[str]:
    """The attachments that no commit of the session has confirmed."""
    found = store.attachments.list_uncommitted(2**62, limit=1_000)
    return [each.attachment_id for each in found if each.session_id == session_id]


def describe(store: Any, session_id: str) -> list[Any]:
    """All that COM-2 lists, as far as the session shows it."""
    loaded: Session | None = store.sessions.load(session_id)
    listed = store.sessions.picker_info(session_id)
    if loaded is None:
        return [listed, queued(store, session_id), store.sessions.lease(session_id)]
    stamp = store.sessions.load_turn_commit(session_id, "t1")
    return [
        loaded.head_revision,
        intents_of(store, session_id),
        loaded.head_tag,
        path_ids(store, session_id),
        path_ids(store, session_id, scope="full_graph"),
        loaded.config,
        loaded.agent_frames,
        loaded.checkpoint and loaded.checkpoint.components.keys(),
        loaded.token_ledger,
        stamp and stamp.result.head_revision,
        stamp and [each.created for each in stamp.result.enqueued_queue_batches],
        queued(store, session_id),
        states(store, session_id),
        names(store.queue.list_pending(session_id)),
        session_id in [each.session_id for each in store.queue.ready_sessions(limit=1_000)],
        store.sessions.lease(session_id) is not None,
        (listed.node_count, listed.user_message_count, listed.activity_us),
    ]


def failed_everywhere(store: Any, world: World, kind: str) -> list[str]:
    """One session for every moment at which the commit was made to fail, the last one not."""
    backend = world.backend(store)
    for moment in itertools.count():
        session_id = f"s{moment}"
        ready = COMMITS[kind](store, session_id)

        def fail() -> None:
            raise CutOff

        backend.on_statement = cut_at(moment, fail)
        try:
            apply(store, ready)
            return [f"s{each}" for each in range(moment + 1)]
        except CutOff:
            continue
        finally:
            backend.on_statement = None
    raise AssertionError


def killed_everywhere(
    store: Any, url: str, settings: dict[str, Any], now_ms: int, kind: str
) -> list[str]:
    """As above, but at every moment a process dies, which opened a store of its own for it."""
    store.close()  # nothing of it may be open in the processes that follow
    settings |= {"clock": ManualClock(now_ms)}
    for moment in itertools.count():
        status = status_of(lambda: _commit_and_die(store, url, settings, kind, moment))  # noqa: B023
        assert status in (0, DEAD)
        if not status:
            return [f"s{each}" for each in range(moment + 1)]
    raise AssertionError


def _commit_and_die(store: Any, url: str, settings: dict[str, Any], kind: str, moment: int) -> None:
    with reopened(store, url, settings) as own:
        ready = COMMITS[kind](own, f"s{moment}")
        real(own)._core.backend.on_statement = cut_at(moment, lambda: os._exit(DEAD))
        apply(own, ready)
        real(own)._core.backend.on_statement = None


def judge(store: Any, session_ids: list[str], kind: str) -> None:
    """Every session is as it was before the commit, or as the one that was not cut off."""
    COMMITS[kind](store, "untouched")
    untouched, finished = describe(store, "untouched"), describe(store, session_ids[-1])
    found = [describe(store, session_id) for session_id in session_ids]
    assert untouched != finished
    assert [each for each in found if each not in (untouched, finished)] == []
    assert untouched in found
    assert found[-2] == finished, "cut off behind its commit"


@pytest.mark.scenario("COM-T18")
@pytest.mark.parametrize("kind", COMMITS)
def test_a_commit_that_fails_anywhere_leaves_all_or_nothing(
    store: Any, world: World, kind: str
) -> None:
    session_ids = failed_everywhere(store, world, kind)

    judge(store, session_ids, kind)


@pytest.mark.invariant("INV-2")
@pytest.mark.scenario("COM-T18")
@pytest.mark.parametrize("kind", COMMITS)
def test_a_process_killed_in_a_commit_leaves_all_or_nothing(world: World, kind: str) -> None:
    if not world.is_durable:
        # A database in memory dies with its process, and nothing of a commit can outlive it.
        store = world.open()
        apply(store, COMMITS[kind](store, "s1"))
        store.close()
        assert world.open().sessions.load("s1") is None
        return
    settings = {"schema": world.schema} if world.is_server else {}
    killer = spawn(world, killed_everywhere, world.url, settings, world.clock.now_ms(), kind)

    (session_ids,) = together(killer)

    judge(world.open(), session_ids, kind)
