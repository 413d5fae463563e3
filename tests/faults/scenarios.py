"""One scenario per way of writing: what was there before, and the one call that is to fail."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from holdfast import (
    CURRENT_LEAF,
    Append,
    Child,
    ReplaceFull,
    RuntimeCommit,
    SessionCreate,
    SessionMeta,
    SourceKey,
    Splice,
    StartAt,
    Unchanged,
)
from holdfast.testing.contract.lanes import enqueue, submit, work
from holdfast.testing.contract.samples import (
    ALICE,
    BOB,
    chain,
    checkpoint,
    commit,
    create,
    lease_on,
    message,
    put,
    spent,
    turn,
)


class Scenario(NamedTuple):
    """`prepare(store)` gives what `act(store, given)` needs."""

    prepare: Callable[[Any], Any]
    act: Callable[[Any, Any], Any]


def _nothing(store: Any) -> None:
    """Nobody was here before."""


def _history(store: Any) -> None:
    put(store, "s1", graph=chain(*"abcde"), config={"model": "old"})


def _much(store: Any) -> Any:
    """A session with everything, and the lease on it."""
    create(store, "s1", labels={"old": "label"}, scope=("a",))
    put(store, "s1", **_whole("t0", 1, chain(*"abcde")))
    store.sessions.tombstone("s1", ["b"])
    return lease_on(store, "s1")


def _shared(store: Any) -> None:
    _history(store)
    store.sessions.fork("s1", SessionCreate(session_id="fork"), leaf="d")
    put(store, "s1", graph=chain("f", "g"))


def _whole(turn_id: str, number: int, graph: Any) -> dict[str, Any]:
    return {
        "graph": graph,
        "config": {"number": number},
        "agent_frames": [{"frame_id": f"f{number}"}],
        "current_agent_frame_id": f"f{number}",
        "checkpoint": checkpoint(number, tool_state=b"%d" % number, other=b"same"),
        "usage_deltas": [spent("chat"), spent(f"tool{number}")],
        "turn_commit": turn(turn_id),
        "head_tag": f"tag{number}",
        "activity_us": number,
    }


def _leased(lease: Any, **fields: Any) -> RuntimeCommit:
    return commit("s1", session_execution_lease=lease, **fields)


def _released(lease: Any, **fields: Any) -> RuntimeCommit:
    return _leased(lease, release_session_execution_lease=True, **fields)


def _family(store: Any) -> None:
    _much(store)
    create(store, "child", relation=Child("s1"))
    put(store, "child", graph=chain("x"))
    create(store, "grandchild", relation=Child("child"))


def _remains(store: Any) -> None:
    """What vacuum has to do with: hidden, detached, deleted, and shared by a fork."""
    _shared(store)
    store.sessions.tombstone("fork", ["c"])
    put(store, "gone", **{**_whole("t0", 1, chain(*"pqrst")), "turn_commit": turn("t0", "gone")})
    store.sessions.delete("gone")
    put(store, "fork", graph=ReplaceFull(chain("z").nodes))
    store.sessions.delete("s1", force=True)


def _hidden(store: Any) -> None:
    _history(store)
    store.sessions.tombstone("s1", list("bcd"))


def _turns(store: Any) -> None:
    for number in range(5):
        put(store, "s1", turn_commit=turn(f"t{number}"))


def _blobs(store: Any) -> None:
    for number in range(5):
        store.blobs.put(b"%d" % number)
    store.artifacts.put("space", "kept", b"3")


def _intents(store: Any) -> None:
    """Intents of nobody and of a turn, in a session that was committed to."""
    _history(store)
    for number, id in enumerate(IDS):
        owner = {"owner_kind": "turn", "owner_id": "t1"} if number == 2 else {}
        store.attachments.record_intent("s1", id, **owner)


IDS = [character * 64 for character in "abcdef"]


def _inputs(store: Any) -> Any:
    """Inputs of a turn and of the next one, beside work; the lease on their session."""
    for number in range(3):
        submit(store, f"active {number}", "t1", input_id=f"a{number}", source_key=f"ka{number}")
        submit(store, f"next {number}", input_id=f"n{number}")
        enqueue(
            store, f"{number}", delivery_policy="earliest_safe_boundary", source_key=f"{number}"
        )
    return lease_on(store, "s1")


def _orphaned(store: Any) -> Any:
    """Accepted inputs of two turns whose lease was given back; the one that came after."""
    lease = _inputs(store)
    submit(store, "another", "t2")
    for turn_id in ("t1", "t2"):
        store.inputs.claim_active(lease, turn_id, "after_work")
    store.sessions.release_lease(lease)
    return lease_on(store, "s1", BOB)


def _claimed(store: Any) -> dict[str, Any]:
    """What settles a claim of each family, under the lease they were taken with."""
    lease = _inputs(store)
    taken = store.queue.claim_at_checkpoint(lease, "t1", "after_work", 2)
    return {
        "session_execution_lease": lease,
        "release_session_execution_lease": True,
        "completed_turn_input_claims": [taken.inputs],
        "completed_queue_claims": [taken.work],
        "originating_claims": [taken.inputs, taken.work],
    }


def _ended(store: Any) -> None:
    _inputs(store)
    store.inputs.cancel_suffix("s1", "a0")


OUTBOX = [work("0", source_key="0"), work("new"), work("new", source_key="new")]
META = SessionMeta(
    session_id="s1", session_name="new", created_at_ms=1, labels={"new": "label"}, scope=("b",)
)
FIRST = SessionCreate(session_id="s1", model="m", labels={"a": "b"}, scope=("x", "y"))
TREE = Append([message("x", parent_node_id="b"), message("y", parent_node_id="a")])
CONTINUED = Append([message("f", parent_node_id=CURRENT_LEAF), message("g")])

#: Each is one transaction.
WRITES = {
    "create": Scenario(_nothing, lambda s, _: s.sessions.create(FIRST)),
    "create_leased": Scenario(lambda s: lease_on(s, "s1"), lambda s, _: s.sessions.create(FIRST)),
    "save_meta_new": Scenario(_nothing, lambda s, _: s.sessions.save_meta(META)),
    "save_meta": Scenario(_much, lambda s, _: s.sessions.save_meta(META)),
    "update_labels": Scenario(
        _much, lambda s, _: s.sessions.update_labels("s1", {"new": "x"}, ["old"])
    ),
    "first_commit": Scenario(_nothing, lambda s, _: put(s, "s1", graph=chain("a"), create=FIRST)),
    "light_commit": Scenario(
        _much, lambda s, lease: s.sessions.commit(_leased(lease, graph=CONTINUED, config={}))
    ),
    "momentary_commit": Scenario(_history, lambda s, _: put(s, "s1", graph=chain("f"))),
    "whole_commit": Scenario(
        _much, lambda s, lease: s.sessions.commit(_released(lease, **_whole("t1", 2, CONTINUED)))
    ),
    "first_whole_commit": Scenario(
        _nothing, lambda s, _: put(s, "s1", **_whole("t1", 2, chain("a")), create=FIRST)
    ),
    "replay": Scenario(
        _much,
        lambda s, lease: s.sessions.commit(_released(lease, **_whole("t0", 1, chain(*"abcde")))),
    ),
    "tree": Scenario(_history, lambda s, _: put(s, "s1", graph=TREE, turn_commit=turn("t1"))),
    "revive": Scenario(_hidden, lambda s, _: put(s, "s1", graph=chain("c", "x"))),
    "move_leaf": Scenario(_history, lambda s, _: put(s, "s1", graph=Unchanged("b"))),
    "pop": Scenario(_history, lambda s, _: put(s, "s1", graph=Splice(-2))),
    "splice": Scenario(_history, lambda s, _: put(s, "s1", graph=Splice(2, chain("x").nodes))),
    "splice_shared": Scenario(
        _shared, lambda s, _: put(s, "s1", graph=Splice(1, chain("x").nodes))
    ),
    "replace": Scenario(
        _shared, lambda s, _: put(s, "s1", graph=ReplaceFull(chain("x", "y").nodes))
    ),
    "whole_splice": Scenario(
        _history,
        lambda s, _: put(s, "s1", graph=Splice(1, chain("x").nodes), turn_commit=turn("t1")),
    ),
    "whole_replace": Scenario(
        _shared,
        lambda s, _: put(s, "s1", graph=ReplaceFull(chain("x").nodes), turn_commit=turn("t1")),
    ),
    "fork": Scenario(_much, lambda s, _: s.sessions.fork("s1", SessionCreate(session_id="fork"))),
    "start_at": Scenario(
        _history,
        lambda s, _: put(
            s,
            "s2",
            graph=chain("x"),
            create=SessionCreate(session_id="s2", start_at=StartAt("c", "s1")),
        ),
    ),
    "claim": Scenario(_nothing, lambda s, _: s.sessions.claim_lease("s1", ALICE)),
    "take_over": Scenario(
        lambda s: lease_on(s, "s1", BOB, ttl_ms=0),
        lambda s, _: s.sessions.claim_lease("s1", ALICE),
    ),
    "renew": Scenario(_much, lambda s, lease: s.sessions.renew_lease(lease, 99_000)),
    "release": Scenario(_much, lambda s, lease: s.sessions.release_lease(lease)),
    "tombstone": Scenario(_much, lambda s, _: s.sessions.tombstone("s1", ["a", "b", "e"])),
    "delete": Scenario(_much, lambda s, _: s.sessions.delete("s1", force=True)),
    "delete_family": Scenario(
        _family, lambda s, _: s.sessions.delete("s1", force=True, with_children=True)
    ),
    "record_intent": Scenario(_nothing, lambda s, _: s.attachments.record_intent("s1", IDS[0])),
    "refresh_intent": Scenario(
        _intents,
        lambda s, _: s.attachments.record_intent(
            "s1", IDS[0], owner_kind="process", owner_id="p", intent_at_ms=7
        ),
    ),
    "commit_refs": Scenario(_intents, lambda s, _: s.attachments.commit_refs("s1", IDS)),
    "forget_attachment": Scenario(_intents, lambda s, _: s.attachments.delete("s1", IDS[0])),
    "stamping_commit": Scenario(
        _intents,
        lambda s, _: put(s, "s1", turn_commit=turn("t1"), committed_attachment_ids=IDS[:2]),
    ),
    "fork_with_attachments": Scenario(
        _intents,
        lambda s, _: s.sessions.fork("s1", SessionCreate(session_id="f"), attachment_ids=IDS),
    ),
    "put_blob": Scenario(_nothing, lambda s, _: s.blobs.put(b"content")),
    "put_artifact": Scenario(_blobs, lambda s, _: s.artifacts.put("space", "kept", b"new")),
    "delete_artifact": Scenario(_blobs, lambda s, _: s.artifacts.delete("space", "kept")),
    "enqueue_first_input": Scenario(_nothing, lambda s, _: submit(s, "hi")),
    "enqueue_input": Scenario(_inputs, lambda s, _: submit(s, "hi", source_key="k")),
    "cancel_inputs": Scenario(
        _inputs, lambda s, _: s.inputs.cancel("s1", ["a0", "n1", SourceKey("ka2")])
    ),
    "cancel_suffix": Scenario(_inputs, lambda s, _: s.inputs.cancel_suffix("s1", "n0")),
    "claim_active": Scenario(
        _inputs, lambda s, lease: s.inputs.claim_active(lease, "t1", "after_work", 2)
    ),
    "claim_next": Scenario(_inputs, lambda s, lease: s.inputs.claim_next(lease)),
    "claim_at_checkpoint": Scenario(
        _inputs, lambda s, lease: s.queue.claim_at_checkpoint(lease, "t1", "after_work")
    ),
    "recover_orphaned": Scenario(
        _orphaned, lambda s, lease: s.inputs.recover_orphaned(lease, "t1")
    ),
    "abandon_inputs": Scenario(
        _claimed, lambda s, given: s.inputs.abandon(given["completed_turn_input_claims"][0])
    ),
    "abandon_many_inputs": Scenario(
        _claimed, lambda s, given: s.inputs.abandon_many(given["completed_turn_input_claims"])
    ),
    "settling_commit": Scenario(
        _claimed,
        lambda s, given: s.sessions.commit(
            commit(
                "s1",
                graph=chain("a"),
                turn_commit=turn("t1"),
                interrupted_turn_input_turn_id="t1",
                enqueued_queue_batches=OUTBOX,
                **given,
            )
        ),
    ),
    "deferring_commit": Scenario(
        _orphaned,
        lambda s, lease: s.sessions.commit(_released(lease, interrupted_turn_input_turn_id="t1")),
    ),
    "delete_lanes": Scenario(_claimed, lambda s, _: s.sessions.delete("s1", force=True)),
}

#: Each is a row of transactions.
LEVERS = {
    "vacuum_session": Scenario(_hidden, lambda s, _: s.sessions.vacuum("s1", limit=2)),
    "vacuum": Scenario(_remains, lambda s, _: s.maintenance.vacuum(limit=2)),
    "collect_garbage": Scenario(_blobs, lambda s, _: s.maintenance.collect_garbage(limit=2)),
    "prune_turns": Scenario(
        _turns, lambda s, _: s.sessions.prune_turn_commits("s1", 2**62, limit=2)
    ),
    "forget_intents": Scenario(
        _intents, lambda s, _: s.maintenance.forget_aged_intents(2**60, limit=2)
    ),
    "prune_all_turns": Scenario(
        _turns, lambda s, _: s.maintenance.prune_turn_commits(2**62, limit=2)
    ),
    "vacuum_inputs": Scenario(_ended, lambda s, _: s.sessions.vacuum("s1", limit=2)),
    "vacuum_all_inputs": Scenario(_ended, lambda s, _: s.maintenance.vacuum(limit=2)),
}
