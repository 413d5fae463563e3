"""The commit: the only way a session's settled state changes (COM-1 to COM-14).

Trip one locks the section and reads all that is judged; then the rules judge, in COM-1's order;
trip two writes all and commits. On PostgreSQL a light commit is tried first as one statement
that does the same for the plain case and declines every other.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import msgspec

from holdfast.errors import MissingBlob, Refused, RuntimeTurnCommitConflict, SessionBusy
from holdfast.model.commits import RuntimeCommit, RuntimeCommitResult
from holdfast.model.graph import Append, Node, Splice
from holdfast.model.sessions import SessionCreate
from holdfast.operations import forks, records
from holdfast.operations.address import Address
from holdfast.operations.light import try_light
from holdfast.operations.planning import plan_of
from holdfast.operations.second_look import look_again
from holdfast.operations.settling import settled, settling_reads
from holdfast.operations.writing import Change, head_calls
from holdfast.rules import commits, heads, leases, splicing, stamps
from holdfast.rules.commits import Prepared
from holdfast.rules.graph import Plan
from holdfast.settings import Settings
from holdfast.transaction import Call, LostRace, Row, Steps, Transaction, call, write


@write
def commit(env: Settings, at: Address, commit: RuntimeCommit) -> Steps[RuntimeCommitResult]:
    """Settle a change under a live lease: all of it, or none."""
    return _steps(env, at, commit, momentary=False)


@write
def commit_with_fresh_lease(
    env: Settings, at: Address, commit: RuntimeCommit
) -> Steps[RuntimeCommitResult]:
    """Settle a change for a caller that owns no lease; refused while anybody holds one."""
    return _steps(env, at, commit, momentary=True)


def _steps(
    env: Settings, at: Address, commit: RuntimeCommit, *, momentary: bool
) -> Steps[RuntimeCommitResult]:
    prepared = commits.prepare(commit, env, momentary=momentary)
    at.check_same(commit.session_id)

    return _Committing(at, prepared, momentary=momentary)


class _Committing:
    """The steps of a commit, and the look that follows when they waited in vain."""

    def __init__(self, at: Address, prepared: Prepared, *, momentary: bool) -> None:
        self._at = at
        self._prepared = prepared
        self._momentary = momentary

    async def __call__(self, tx: Transaction) -> RuntimeCommitResult:
        return await _commit(tx, self._at, self._prepared, momentary=self._momentary)

    async def reconsider(self, tx: Transaction) -> None:
        """Raise the conflict that the commit would meet anyhow."""
        await look_again(tx, self._prepared)


async def _commit(
    tx: Transaction, at: Address, prepared: Prepared, *, momentary: bool
) -> RuntimeCommitResult:
    light = await try_light(tx, at, prepared, momentary=momentary)
    if light is not None:
        return light
    # COM-1, 2 and 3: the binding, the section, the clock.
    found = await _enter(tx, at, prepared, create=momentary and at.may_create)
    # 4: a replay, of the turn or of an append.
    replay = _replayed_turn(prepared, found)
    if replay is not None:
        return await _honour_release(tx, at, prepared, replay)
    plan = _repeated(prepared, found)
    if plan is not None and plan.replayed:
        return await _honour_release(tx, at, prepared, _as_before(found.head))
    # 5 and 6: the lease, the head.
    _judge_lease(prepared, found, momentary=momentary)
    commit = prepared.commit
    heads.must_match(commit.session_id, commit.expected_head_revision, found.head)
    # 7 and 8: what is completed.
    done = settled(prepared, found.rows)
    # 9: where the path begins, and the graph.
    if commit.create is not None and commit.create.start_at is not None and not found.known:
        found = await _begin_elsewhere(tx, at, prepared, found, commit.create)
    plan = plan or plan_of(prepared, found.head, found.rows, repeatable=False)
    # 10: what a checkpoint refers to.
    _judge_refs(prepared, found)
    change = Change(prepared, found.head, plan, found.removed, done, momentary=momentary)
    await tx.conclude(*head_calls(change))
    return change.result(_removed_nodes(found, plan))


async def _begin_elsewhere(
    tx: Transaction, at: Address, prepared: Prepared, found: _Found, create: SessionCreate
) -> _Found:
    """Give the session the path it begins with, and look again (EXT-11)."""
    adoption = await forks.begin_at(tx, create, found.head)
    again = await _enter(tx, at, prepared, *adoption, create=False)
    # Still the same section, and so still the same instant.
    return _Found({**again.head, "now_ms": found.head["now_ms"]}, again.rows)


# --- trip one ----------------------------------------------------------------------------


class _Found:
    """What the section's reads brought, by statement."""

    def __init__(self, head: Mapping[str, Any], rows: Mapping[str, list[Row]]) -> None:
        self.head = head
        self.rows = rows
        self.known: bool = head["known"]
        self.removed = (rows.get("removed_totals") or [None])[0]


async def _enter(
    tx: Transaction, at: Address, prepared: Prepared, *before: Call, create: bool
) -> _Found:
    """Enter the section, and read, behind the calls `before`, all that is judged."""
    calls = _reads(at, prepared, create=create)
    answers = (await tx.trip(*before, *calls))[len(before) :]
    rows = {each.name: answer for each, answer in zip(calls, answers, strict=True)}
    entered = rows["enter_section"][0] if rows["enter_section"] else None
    lease = prepared.commit.session_execution_lease
    if entered is None and not create:
        at.met(None)
        raise leases.why_lost(lease, None, 0, session_id=at.session_id) or LostRace()
    head = at.must_have_met(entered)
    return _Found({**head, "known": bool(rows["read_known"])}, rows)


def _reads(at: Address, prepared: Prepared, *, create: bool) -> list[Call]:
    session_id = at.session_id
    calls = [
        call("enter_section", session_id=session_id, create=create),
        call("read_known", session_id=session_id),
    ]
    stamp = prepared.commit.turn_commit
    if stamp is not None:
        calls.append(call("read_stamp", session_id=session_id, turn_id=stamp.turn_id))
    calls += settling_reads(prepared)
    delta = prepared.commit.graph
    if isinstance(delta, Splice):
        calls += _splice_reads(session_id, delta.keep)
    if prepared.node_ids:
        calls.append(call("known_nodes", session_id=session_id, node_ids=prepared.node_ids))
    if prepared.branch_count:
        calls.append(call("reserve_branches", count=prepared.branch_count))
    if prepared.checkpoint or prepared.frames:
        calls.append(call("share_blob_guard"))
        calls.append(call("present_blobs", refs=_carried(prepared)))
    return calls


def _splice_reads(session_id: str, keep: int) -> list[Call]:
    path = {"session_id": session_id, "keep": keep, "last": None}
    return [
        call("path_segments", **path),
        call("removed_totals", **path),
        call("removed_nodes", **splicing.returnable(), **path),
    ]


def _carried(prepared: Prepared) -> list[str]:
    carried = prepared.checkpoint.carried.values() if prepared.checkpoint else ()
    framed = prepared.frames.refs.values() if prepared.frames else ()
    return sorted({*carried, *framed})


# --- judgement ---------------------------------------------------------------------------


def _replayed_turn(prepared: Prepared, found: _Found) -> RuntimeCommitResult | None:
    """COM-5 and COM-6: the same turn again is its first result; other content is refused."""
    rows = found.rows.get("read_stamp")
    if not rows:
        return None
    (row,) = rows
    attempted = str(prepared.hash)
    if row["hash"] != attempted:
        raise RuntimeTurnCommitConflict(
            prepared.commit.session_id, row["turn_id"], row["hash"], attempted
        )
    return msgspec.structs.replace(
        stamps.decode_result(row["result"], row["turn_id"]), replayed=True
    )


def _may_be_known(prepared: Prepared) -> bool:
    """Whether EXT-5's replay is possible at all."""
    return isinstance(prepared.commit.graph, Append) and prepared.carries_only_nodes


def _may_be_repeated(prepared: Prepared, found: _Found) -> bool:
    """Whether this may be a commit made before: never the one that makes the session."""
    return _may_be_known(prepared) and found.head["head_revision"] > 0


def _repeated(prepared: Prepared, found: _Found) -> Plan | None:
    """The plan of what may be a replay; what is wrong with its graph is told later (COM-1, 9)."""
    if not _may_be_repeated(prepared, found):
        return None
    with suppress(Refused):
        return plan_of(prepared, found.head, found.rows, repeatable=True)
    return None


def _judge_lease(prepared: Prepared, found: _Found, *, momentary: bool) -> None:
    session_id, head = prepared.commit.session_id, found.head
    if momentary:
        holder = leases.live_holder(session_id, head, head["now_ms"])
        if holder is not None:
            raise SessionBusy(session_id, holder)
        return
    lease = prepared.commit.session_execution_lease
    lost = leases.why_lost(lease, head, head["now_ms"], session_id=session_id)
    if lost is not None:
        raise lost


def _judge_refs(prepared: Prepared, found: _Found) -> None:
    """CHK-3: what is carried must be stored."""
    present = {row["ref"] for row in found.rows.get("present_blobs", ())}
    own = {blob.ref for blob in prepared.checkpoint.stored} if prepared.checkpoint else set()
    wanted: list[tuple[str, str]] = []
    if prepared.checkpoint:
        wanted += prepared.checkpoint.carried.items()
    if prepared.frames:
        wanted += [("execution_state", ref) for ref in prepared.frames.refs.values()]
    for role, ref in wanted:
        if ref not in present and ref not in own:
            raise MissingBlob(ref, role, prepared.commit.session_id)


# --- answers -----------------------------------------------------------------------------


def _as_before(head: Mapping[str, Any]) -> RuntimeCommitResult:
    return RuntimeCommitResult(
        head_revision=head["head_revision"], checkpoint_ref=head["checkpoint_ref"], replayed=True
    )


async def _honour_release(
    tx: Transaction, at: Address, prepared: Prepared, result: RuntimeCommitResult
) -> RuntimeCommitResult:
    """A replay writes nothing, but gives back the lease it still holds (COM-5)."""
    lease = prepared.commit.session_execution_lease
    if prepared.commit.release_session_execution_lease and lease is not None:
        await tx.conclude(
            call(
                "release_lease",
                session_id=at.session_id,
                bound_key=at.key,
                token=lease.token,
                generation=lease.generation,
                owner_id=lease.owner.owner_id,
                incarnation_id=lease.owner.incarnation_id,
            )
        )
    return result


def _removed_nodes(found: _Found, plan: Plan) -> list[Node]:
    if not plan.deleted and not plan.hidden:
        return []
    return [records.node(row) for row in found.rows["removed_nodes"]]
