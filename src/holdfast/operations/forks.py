"""Sessions that begin with the path of another one (GRA 5.6, EXT-11): no node is stored twice."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from holdfast.errors import GraphNodeNotFound, InvalidArgument
from holdfast.model.commits import RuntimeCommit
from holdfast.model.sessions import Fork, SessionCreate, StartAt
from holdfast.operations import reading
from holdfast.operations.address import Address
from holdfast.operations.sessions import new_meta
from holdfast.rules import attachments, checks
from holdfast.settings import Settings
from holdfast.transaction import Call, Row, Steps, Transaction, call, write


@write
def fork(
    env: Settings,
    at: Address,
    target: SessionCreate,
    leaf: str | None = None,
    attachment_ids: Collection[str] = (),
) -> Steps[Address | None]:
    """A new session with this one's path, config, frames and checkpoint; none if never committed.

    What is given as the target's relation is replaced by the fork's own.
    """
    _check_target(at, target)
    if leaf is not None:
        checks.identifier(leaf, "leaf")
    taken = attachments.attachment_ids(attachment_ids, "attachment_ids")

    async def steps(tx: Transaction) -> Address | None:
        source, other, place = await _enter_both(tx, at, target.session_id, leaf)
        _must_be_new(other)
        if source is None or not source["head_revision"]:
            return None
        if leaf is not None and place is None:
            raise GraphNodeNotFound(at.session_id, leaf)
        made = Address(target.session_id, bound=True)
        entered = made.must_have_met(
            await tx.maybe("enter_section", session_id=target.session_id, create=True)
        )
        _must_be_new(entered)
        made.settle()
        leaf_id = (leaf or source["leaf_id"]) if place is not None else None
        calls = _adoption(target, source, entered["key"], place, leaf_id)
        both = {"source": source["key"], "session": entered["key"]}
        if taken:
            calls.append(call("copy_attachments", attachment_ids=taken, **both))
        await tx.conclude(*calls, call("copy_state", **both))
        return made

    return steps


def _check_target(at: Address, target: SessionCreate) -> None:
    checks.identifier(target.session_id, "session_id")
    if target.session_id == at.session_id:
        raise InvalidArgument("session_id", "session_exists")
    if target.start_at is not None:
        raise InvalidArgument("start_at", "a fork says by its leaf where it starts")
    new_meta(target)


def _must_be_new(target: Mapping[str, Any] | None) -> None:
    if target is not None and target["known"]:
        raise InvalidArgument("session_id", "session_exists")


async def begin_at(tx: Transaction, at: Address, commit: RuntimeCommit) -> None:
    """Before a commit whose `create` names a starting point: give an unknown session its path."""
    create = commit.create
    if create is None or create.start_at is None:
        return
    met = await tx.maybe("enter_section", session_id=at.session_id, create=False)
    if met is not None and met["known"]:
        return
    start = create.start_at
    source_id = start.session_id or await _holder_of(tx, start)
    source, _, place = await _enter_both(tx, Address(source_id), at.session_id, start.node_id)
    if source is None or place is None:
        raise GraphNodeNotFound(start.session_id, start.node_id)
    entered = at.must_have_met(
        await tx.maybe("enter_section", session_id=at.session_id, create=at.may_create)
    )
    # Somebody else may have made the session meanwhile.
    if not entered["known"]:
        await tx.trip(*_adoption(create, source, entered["key"], place, start.node_id))


async def _holder_of(tx: Transaction, start: StartAt) -> str:
    found = await tx.all("find_nodes", node_id=start.node_id, limit=reading.MAX_NAMED_SESSIONS + 1)
    session_id = reading.holder(start.node_id, found)
    if session_id is None:
        raise GraphNodeNotFound(None, start.node_id)
    return session_id


async def _enter_both(
    tx: Transaction, at: Address, target_id: str, leaf: str | None
) -> tuple[Mapping[str, Any] | None, Mapping[str, Any] | None, Mapping[str, Any] | None]:
    """Both sections, in id order, and the position of the leaf in the source."""
    source_id = at.session_id
    calls = [
        call("enter_section", session_id=session_id, create=False)
        for session_id in sorted({source_id, target_id}, key=str.encode)
    ]
    located = (
        call("locate_head", session_id=source_id)
        if leaf is None
        else call("locate_leaf", session_id=source_id, leaf=leaf)
    )
    *entered, place = await tx.trip(*calls, located)
    rows = {row["id"]: row for answer in entered for row in answer}
    at.met(rows.get(source_id))
    return rows.get(source_id), rows.get(target_id), place[0] if place else None


def _adoption(
    target: SessionCreate,
    source: Mapping[str, Any],
    key: int,
    place: Row | None,
    leaf_id: str | None,
) -> list[Call]:
    relation = Fork(source["id"], leaf_id, source["head_revision"])
    columns = new_meta(msgspec.structs.replace(target, relation=relation))
    calls = [call("insert_meta", session=key, **columns)]
    if place is None:
        return calls
    where = {"session": key, "branch": place["branch"], "length": place["length"]}
    return [
        *calls,
        call("inherit_path", source=source["key"], last=None, **where),
        call("adopt_path", leaf_id=leaf_id, next_sequence=source["next_sequence"], **where),
        call("refresh_first_user", session_id=target.session_id),
    ]
