"""COM-T18: a commit that is cut off, wherever that is, leaves all of itself or nothing."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

import holdfast
from holdfast import Lease, RuntimeCommit, Session
from holdfast.testing.clock import ManualClock
from holdfast.testing.contract.samples import (
    ALICE,
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


def before_it(store: Any, session_id: str) -> Lease:
    """A session with a past, and the lease under which it is to be continued."""
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
    return lease_on(store, session_id)


def everything(session_id: str, lease: Lease) -> RuntimeCommit:
    """A commit with something of every kind that it can settle."""
    return commit(
        session_id,
        expected_head_revision=1,
        session_execution_lease=lease,
        release_session_execution_lease=True,
        graph=holdfast.Splice(1, chain("c", "d").nodes),
        config={"model": "new"},
        agent_frames=[{"frame_id": "new"}],
        current_agent_frame_id="new",
        checkpoint=checkpoint(2, tool_state=b"new " + session_id.encode(), extra=b"new"),
        usage_deltas=[spent("chat", "m", 2), spent("tool")],
        turn_commit=turn("t1", session_id),
        head_tag="new",
        activity_us=5,
    )


def cut_at(moment: int, cut: Callable[[], None]) -> Cut:
    """A hook that cuts the operation off at its n-th moment: before or after a statement."""
    moments = itertools.count()

    def hook(_name: str, _when: str) -> None:
        if next(moments) == moment:
            cut()

    return hook


def describe(store: Any, session_id: str) -> list[Any]:
    """All that COM-2 lists, as far as the session shows it."""
    loaded: Session = store.sessions.load(session_id)
    listed = store.sessions.picker_info(session_id)
    stamp = store.sessions.load_turn_commit(session_id, "t1")
    return [
        loaded.head_revision,
        loaded.head_tag,
        path_ids(store, session_id),
        path_ids(store, session_id, scope="full_graph"),
        loaded.config,
        loaded.agent_frames,
        loaded.checkpoint and loaded.checkpoint.components.keys(),
        loaded.token_ledger,
        stamp and stamp.result.head_revision,
        store.sessions.lease(session_id) is not None,
        (listed.node_count, listed.user_message_count, listed.activity_us),
    ]


def failed_everywhere(store: Any, world: World) -> list[str]:
    """One session for every moment at which the commit was made to fail, the last one not."""
    backend = world.backend(store)
    for moment in itertools.count():
        session_id = f"s{moment}"
        lease = before_it(store, session_id)

        def fail() -> None:
            raise CutOff

        backend.on_statement = cut_at(moment, fail)
        try:
            store.sessions.commit(everything(session_id, lease))
            return [f"s{each}" for each in range(moment + 1)]
        except CutOff:
            continue
        finally:
            backend.on_statement = None
    raise AssertionError


def killed_everywhere(_: Any, url: str, settings: dict[str, Any], now_ms: int) -> list[str]:
    """As above, and at every moment a process dies: a child of this one, which opens anew."""
    for moment in itertools.count():
        child = os.fork()
        if not child:
            with holdfast.open(url, clock=ManualClock(now_ms), **settings) as store:
                lease = before_it(store, f"s{moment}")
                store._core.backend.on_statement = cut_at(moment, lambda: os._exit(1))
                store.sessions.commit(everything(f"s{moment}", lease))
                os._exit(0)
        if os.waitpid(child, 0)[1] == 0:
            return [f"s{each}" for each in range(moment + 1)]
    raise AssertionError
