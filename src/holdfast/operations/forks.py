"""Sessions that begin with the path of another one (GRA 5.6, EXT-11): no node is stored twice."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from holdfast.errors import GraphNodeNotFound, InvalidArgument
from holdfast.model.sessions import Fork, SessionCreate, StartAt
from holdfast.operations import reading
from holdfast.operations.address import Address
from holdfast.rules import attachments, checks
from holdfast.rules.metadata import new_meta
from holdfast.settings import Settings
from holdfast.transaction import Call, LostRace, Row, Steps, Transaction, call, write


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
        source, known, place = await _enter_both(tx, at, target.session_id, leaf)
        _must_be_new(known)
        if source is None or not source["head_revision"]:
            return None
        if leaf is not None and place is None:
            raise GraphNodeNotFound(at.session_id, leaf)
        made = Address(target.session_id, bound=True)
        met, known = await _enter(tx, target.session_id, create=True)
        entered = made.must_have_met(met)
        _must_be_new(known)
        made.settle()
        leaf_id = (leaf or source["leaf_id"]) if place is not None else None
        calls = _adoption(target, source, entered, place, leaf_id)
        both = {"source": source["key"], "session": entered["key"]}
        if taken:
            calls.append(call("copy_attachments", attachment_ids=taken, **both))
        await tx.conclude(*calls, call("copy_state", **both))
        return made

    return steps


def _check_target(at: Address, target: SessionCreate) -> None:
    checks.record(target, SessionCreate, "target")
    checks.identifier(target.session_id, "session_id")
    if target.session_id == at.session_id:
        raise InvalidArgument("session_id", "session_exists")
    if target.start_at is not None:
        raise InvalidArgument("start_at", "a fork says by its leaf where it starts")
    new_meta(target)


def _must_be_new(known: bool) -> None:
    if known:
        raise InvalidArgument("session_id", "session_exists")


async def begin_at(
    tx: Transaction, create: SessionCreate, entered: Mapping[str, Any]
) -> list[Call]:
    """What gives an unknown session, whose section was entered, the path it is to begin with."""
    start = create.start_at
    assert start is not None
    source_id = start.session_id or await _holder_of(tx, start)
    # Behind the target's section, whatever their order: where the path begins is judged late.
    locked, located = await tx.trip(
        call("enter_section", session_id=source_id, create=False),
        call("locate_leaf", session_id=source_id, leaf=start.node_id),
    )
    if not locked or not located:
        if start.session_id is None:
            # It lost the node since it was found to have it; another session may have it still.
            raise LostRace(source_id)
        raise GraphNodeNotFound(start.session_id, start.node_id)
    return _adoption(create, locked[0], entered, located[0], start.node_id)


async def _holder_of(tx: Transaction, start: StartAt) -> str:
    found = await tx.all("find_nodes", node_id=start.node_id, limit=reading.MAX_NAMED_SESSIONS + 1)
    session_id = reading.holder(start.node_id, found)
    if session_id is None:
        raise GraphNodeNotFound(None, start.node_id)
    return session_id


async def _enter(
    tx: Transaction, session_id: str, *, create: bool
) -> tuple[Mapping[str, Any] | None, bool]:
    """A section, and whether its session is known."""
    entered, known = await tx.trip(
        call("enter_section", session_id=session_id, create=create),
        call("read_known", session_id=session_id),
    )
    return entered[0] if entered else None, bool(known)


async def _enter_both(
    tx: Transaction, at: Address, target_id: str, leaf: str | None
) -> tuple[Mapping[str, Any] | None, bool, Mapping[str, Any] | None]:
    """Both sections, in id order; whether the target is known; where the source's leaf is."""
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
    *entered, known, place = await tx.trip(
        *calls, call("read_known", session_id=target_id), located
    )
    rows = {row["id"]: row for answer in entered for row in answer}
    at.met(rows.get(source_id))
    return rows.get(source_id), bool(known), place[0] if place else None


def _adoption(
    target: SessionCreate,
    source: Mapping[str, Any],
    entered: Mapping[str, Any],
    place: Row | None,
    leaf_id: str | None,
) -> list[Call]:
    relation = Fork(source["id"], leaf_id, source["head_revision"])
    columns = new_meta(msgspec.structs.replace(target, relation=relation))
    key, at_ms = entered["key"], entered["now_ms"]
    calls = [call("insert_meta", session=key, at_ms=at_ms, **columns)]
    if place is None:
        return calls
    where = {"session": key, "branch": place["branch"], "length": place["length"]}
    return [
        *calls,
        call("inherit_path", source=source["key"], last=None, **where),
        call("adopt_path", leaf_id=leaf_id, next_sequence=source["next_sequence"], **where),
        call("refresh_first_user", session_id=target.session_id),
    ]
