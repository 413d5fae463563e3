"""What an applied commit writes, in one trip (COM-2)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from holdfast.model.commits import RuntimeCommitResult
from holdfast.model.graph import Node
from holdfast.model.sessions import SessionCreate
from holdfast.model.values import Keep
from holdfast.operations.settling import Settled, settling_calls
from holdfast.rules import replacing, stamps
from holdfast.rules.commits import Prepared
from holdfast.rules.graph import Placed, Plan
from holdfast.rules.metadata import new_meta
from holdfast.rules.state import Checkpoint, Frames
from holdfast.transaction import Call, bulk, call

#: Usage deltas of one commit keep their order within its revision.
_POSITIONS_PER_REVISION = 1024


class Change(msgspec.Struct, frozen=True):
    """A judged commit: what was asked for, what was found, and what the graph's rules decided."""

    prepared: Prepared
    head: Mapping[str, Any]
    plan: Plan
    #: Totals of what a splice would remove; none without one.
    totals: Mapping[str, Any] | None
    settled: Settled
    momentary: bool

    @property
    def session(self) -> int:
        """The session's key."""
        key: int = self.head["key"]
        return key

    @property
    def at_ms(self) -> int:
        """The operation's one reading of the clock, which every stamp shows (GEN-7)."""
        at_ms: int = self.head["now_ms"]
        return at_ms

    @property
    def revision(self) -> int:
        """The revision this commit makes."""
        revision: int = self.head["head_revision"] + 1
        return revision

    @property
    def removed(self) -> Mapping[str, Any] | None:
        """Totals of what a splice does remove."""
        return self.totals if self.plan.deleted or self.plan.hidden else None

    @property
    def checkpoint_ref(self) -> str | None:
        """The head's checkpoint after the commit."""
        checkpoint = self.prepared.checkpoint
        kept: str | None = self.head["checkpoint_ref"]
        return checkpoint.ref if checkpoint else kept

    def result(self, removed_nodes: list[Node]) -> RuntimeCommitResult:
        """The answer to the caller."""
        checkpoint = self.prepared.checkpoint
        return RuntimeCommitResult(
            head_revision=self.revision,
            checkpoint_ref=self.checkpoint_ref,
            component_refs=dict(checkpoint.component_refs) if checkpoint else {},
            enqueued_queue_batches=self.settled.outcomes,
            removed_nodes=removed_nodes,
        )


def head_calls(change: Change) -> list[Call]:
    """Every statement of the second trip, the head last."""
    return [
        *_graph_calls(change),
        *_state_calls(change),
        *_checkpoint_calls(change),
        *_usage_calls(change),
        *settling_calls(change.prepared, change.settled, change.session, change.at_ms),
        *_meta_calls(change),
        *_attachment_calls(change),
        *_stamp_calls(change),
        *_head_calls(change),
    ]


def _graph_calls(change: Change) -> Iterator[Call]:
    plan, session = change.plan, change.session
    if plan.detach:
        yield call("detach_graph", session=session, max_dropped=replacing.MAX_DROPPED)
    for tail in plan.deleted:
        yield call(
            "delete_tail",
            session=session,
            branch=tail.branch,
            start=tail.start,
            drop_branch=tail.drop_branch,
        )
    for tail in plan.hidden:
        yield call(
            "hide_tail", session=session, branch=tail.branch, start=tail.start, upto=tail.upto
        )
    if plan.branches:
        opened = [(branch.id, branch.parent, branch.base, session) for branch in plan.branches]
        yield bulk("insert_branches", opened)
    if plan.placed:
        yield bulk("insert_nodes", list(_node_rows(change)))
    if plan.revived:
        yield bulk("revive_nodes", [(session, row.branch, row.ordinal) for row in plan.revived])


def _node_rows(change: Change) -> Iterator[tuple[Any, ...]]:
    first = change.head["next_sequence"]
    for offset, placed in enumerate(change.plan.placed):
        yield (
            placed.branch,
            placed.ordinal,
            change.session,
            first + offset,
            placed.draft.node.node_id,
            placed.parent_id,
            *placed.draft.columns,
        )


def _state_calls(change: Change) -> Iterator[Call]:
    config, frames = change.prepared.config, change.prepared.frames
    if config is not None:
        yield call(
            "put_config",
            session=change.session,
            config_enc=config.enc,
            config_tag=config.tag,
            config=config.body,
        )
    if frames is not None:
        yield call(
            "put_frames",
            session=change.session,
            frames=frames.body,
            current_frame_id=frames.current_frame_id,
        )


def _checkpoint_calls(change: Change) -> Iterator[Call]:
    checkpoint, frames = change.prepared.checkpoint, change.prepared.frames
    if checkpoint is not None:
        yield bulk(
            "insert_blobs",
            [
                (
                    blob.ref,
                    blob.kind,
                    blob.codec,
                    blob.raw_len,
                    len(blob.body),
                    change.at_ms,
                    blob.body,
                )
                for blob in checkpoint.stored
            ],
        )
    if checkpoint is not None or frames is not None:
        yield call(
            "drop_refs",
            session=change.session,
            checkpoint=checkpoint is not None,
            frames=frames is not None,
        )
    slots = _slots(checkpoint, frames)
    if slots:
        yield bulk("insert_refs", [(change.session, slot, ref) for slot, ref in slots.items()])


def _slots(checkpoint: Checkpoint | None, frames: Frames | None) -> dict[str, str]:
    slots = dict(frames.refs) if frames else {}
    if checkpoint:
        slots["checkpoint"] = checkpoint.ref
        slots |= {f"component:{role}": ref for role, ref in checkpoint.component_refs.items()}
    return slots


def _usage_calls(change: Change) -> Iterator[Call]:
    if not change.prepared.usage:
        return
    first = change.revision * _POSITIONS_PER_REVISION
    yield bulk(
        "add_usage",
        [
            (
                change.session,
                pair,
                first + index,
                entry.source,
                entry.model,
                *msgspec.structs.astuple(entry.usage),
            )
            for index, (pair, entry) in enumerate(change.prepared.usage)
        ],
    )


def _meta_calls(change: Change) -> Iterator[Call]:
    commit = change.prepared.commit
    if change.head["known"]:
        touched = {"at_ms": change.at_ms, "activity_us": commit.activity_us}
        yield call("touch_listing", session=change.session, **touched)
        return
    create = commit.create or SessionCreate(
        session_id=commit.session_id, model=change.prepared.model
    )
    columns = new_meta(create) | {"activity_us": commit.activity_us}
    yield call("insert_meta", session=change.session, at_ms=change.at_ms, **columns)


def _attachment_calls(change: Change) -> Iterator[Call]:
    """ATT-12: what the commit names, and what its turn put without naming it."""
    commit, ids = change.prepared.commit, change.prepared.attachment_ids
    if ids or commit.turn_commit is not None:
        yield call(
            "stamp_attachments",
            session_id=commit.session_id,
            bound_key=change.session,
            attachment_ids=ids,
            turn_id=commit.turn_commit and commit.turn_commit.turn_id,
        )


def _stamp_calls(change: Change) -> Iterator[Call]:
    stamp = change.prepared.commit.turn_commit
    if stamp is not None:
        yield call(
            "insert_stamp",
            session=change.session,
            turn_id=stamp.turn_id,
            hash=change.prepared.hash,
            result=stamps.encode_result(change.result([])),
            head_revision=change.revision,
            at_ms=change.at_ms,
        )


def _head_calls(change: Change) -> Iterator[Call]:
    head, plan, commit = change.head, change.plan, change.prepared.commit
    release = commit.release_session_execution_lease
    yield call(
        "update_head",
        session=change.session,
        head_revision=change.revision,
        head_tag=head["head_tag"] if isinstance(commit.head_tag, Keep) else commit.head_tag,
        branch=plan.head.branch,
        length=plan.head.length,
        leaf_id=plan.head.leaf_id,
        checkpoint_ref=change.checkpoint_ref,
        next_sequence=head["next_sequence"] + len(plan.placed),
        generation=head["generation"] + (1 if change.momentary else 0),
        vacate=change.momentary or release,
        **_counters(change),
    )
    if _first_user_is_open(change):
        yield call("refresh_first_user", session_id=commit.session_id)


def _counters(change: Change) -> dict[str, Any]:
    """GRA-9 and MET-9: by arithmetic, on what the plan adds and removes."""
    head, plan, removed = change.head, change.plan, change.removed
    fresh = 0 if plan.detach else 1
    users = [placed for placed in plan.placed if placed.draft.user_text is not None]
    revived_users = sum(row.user_text is not None for row in plan.revived)
    counters = {
        "node_count": head["node_count"] * fresh + len(plan.placed) + len(plan.revived),
        "user_message_count": head["user_message_count"] * fresh + len(users) + revived_users,
    }
    if removed is not None:
        counters["node_count"] -= removed["nodes"]
        counters["user_message_count"] -= removed["users"]
    return counters | _first_user(change, users)


def _first_user(change: Change, users: list[Placed]) -> dict[str, Any]:
    head, plan = change.head, change.plan
    if head["first_user_sequence"] is not None and not plan.detach:
        return {name: head[name] for name in ("first_user_sequence", "first_user_message")}
    if not users:
        return {"first_user_sequence": None, "first_user_message": ""}
    place = plan.placed.index(users[0])
    return {
        "first_user_sequence": head["next_sequence"] + place,
        "first_user_message": users[0].draft.user_text,
    }


def _first_user_is_open(change: Change) -> bool:
    """Whether only a look at the graph can tell which user message is the first one now."""
    removed = change.removed
    lost = removed is not None and removed["first_user"] is not None
    return lost or any(row.user_text is not None for row in change.plan.revived)
