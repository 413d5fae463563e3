"""Sessions as such: metadata, labels, deletion."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from holdfast.errors import InvalidArgument, SessionBusy
from holdfast.model.commits import Expectation
from holdfast.model.sessions import (
    DeletionReport,
    SessionCreate,
    SessionListing,
    SessionMeta,
)
from holdfast.model.values import ANY
from holdfast.operations import records
from holdfast.operations.address import Address
from holdfast.rules import checks, heads, leases, metadata, scopes
from holdfast.settings import Settings
from holdfast.transaction import LostRace, Row, Steps, Transaction, call, small_read, write

MAX_FAMILY = 10_000


@write
def create(env: Settings, request: SessionCreate) -> Steps[Address]:
    """Make a session known, or find that it is; what is stored already stays as it is."""
    checks.record(request, SessionCreate, "request")
    if request.start_at is not None:
        raise InvalidArgument("start_at", "only in a commit's create")
    columns = metadata.new_meta(request)
    del columns["activity_us"]

    async def steps(tx: Transaction) -> Address:
        (rows,) = await tx.conclude(call("create_session", activity_us=None, **columns))
        at = Address(request.session_id, bound=True)
        at.must_have_met(rows[0] if rows else None)
        at.settle()
        return at

    return steps


@small_read
def load_meta(env: Settings, at: Address) -> Steps[SessionMeta | None]:
    """The session's metadata, or none where it is not known."""

    async def steps(tx: Transaction) -> SessionMeta | None:
        row = await tx.maybe("read_meta", session_id=at.session_id)
        at.met(row)
        return records.meta(row) if row is not None and row["known"] else None

    return steps


@small_read
def find(env: Settings, session_id: str) -> Steps[Address | None]:
    """The address of a known session; creates nothing."""
    at = Address(session_id, bound=True)

    async def steps(tx: Transaction) -> Address | None:
        row = await tx.maybe("read_meta", session_id=session_id)
        at.met(row)
        at.settle()
        return at if row is not None and row["known"] else None

    return steps


@write
def save_meta(env: Settings, at: Address, meta: SessionMeta) -> Steps[None]:
    """Replace the whole record; the store alone says when it was updated."""
    checks.record(meta, SessionMeta, "meta")
    at.check_same(meta.session_id)
    columns = metadata.described(meta) | {
        "session_name": metadata.name(meta.session_name),
        "created_at_ms": checks.instant(meta.created_at_ms, "created_at_ms"),
        "activity_us": metadata.optional_instant(meta.activity_us, "activity_us"),
    }

    async def steps(tx: Transaction) -> None:
        entered, _ = await tx.conclude(
            call("enter_section", session_id=at.session_id, create=at.may_create),
            call("save_meta", bound_key=at.key, **columns),
        )
        at.must_have_met(entered[0] if entered else None)

    return steps


@write
def update_labels(
    env: Settings,
    at: Address,
    set: Mapping[str, str] | None = None,
    remove: Collection[str] = (),
) -> Steps[dict[str, str] | None]:
    """Set and remove labels; returns those the session has now, none if it is not known."""
    added = scopes.check_labels(set or {}, "set")
    gone = [checks.text(name, "remove") for name in checks.listed(remove, "remove")]

    async def steps(tx: Transaction) -> dict[str, str] | None:
        entered, written = await tx.conclude(
            call("enter_section", session_id=at.session_id, create=False),
            call(
                "write_labels",
                session_id=at.session_id,
                bound_key=at.key,
                remove=gone,
                label_names=list(added),
                label_values=list(added.values()),
                maximum=scopes.MAX_LABELS,
            ),
        )
        at.met(entered[0] if entered else None)
        if not written:
            return None
        checks.at_most(written[0]["count"], scopes.MAX_LABELS, "labels")
        return records.labels(written[0])

    return steps


@small_read
def picker_info(env: Settings, at: Address) -> Steps[SessionListing | None]:
    """The session's line of the listing, or none without metadata."""

    async def steps(tx: Transaction) -> SessionListing | None:
        row = await tx.maybe("read_listing", session_id=at.session_id, with_config=False)
        at.met(row)
        return records.listing(row) if row is not None and row["known"] else None

    return steps


@write
def delete(
    env: Settings,
    at: Address,
    force: bool = False,
    with_children: bool = False,
    expect: Expectation = ANY,
) -> Steps[DeletionReport]:
    """Delete a session, and on request all its children; refused while it is leased."""
    session_id = at.session_id
    checks.flag(force, "force")
    checks.flag(with_children, "with_children")
    heads.check_expectation(expect, "expect")

    async def steps(tx: Transaction) -> DeletionReport:
        rows = await _enter_family(tx, session_id, with_children)
        head = next((row for row in rows if row["id"] == session_id), None)
        at.met(head)
        heads.must_match(session_id, expect, head)
        for row in rows if not force else ():
            _must_be_idle(row)
        if not rows:
            return DeletionReport(deleted=False)
        await tx.conclude(call("delete_sessions", sessions=[row["key"] for row in rows]))
        return DeletionReport(deleted=head is not None, session_count=len(rows))

    return steps


async def _enter_family(tx: Transaction, session_id: str, with_children: bool) -> list[Row]:
    """The rows of all that is to be deleted, their sections entered."""
    family = call(
        "family", session_id=session_id, with_children=with_children, limit=MAX_FAMILY + 1
    )
    (found,) = await tx.trip(family)
    checks.at_most(len(found), MAX_FAMILY, "with_children")
    # In id order, so that two deletions never wait for each other crosswise.
    enter = call("enter_sections", session_ids=[row["id"] for row in found])
    if not with_children:
        return (await tx.trip(enter))[0]
    rows, still = await tx.trip(enter, family)
    # While we waited for a section, sessions may have left the family, and others joined it.
    if [row["id"] for row in rows] != [row["id"] for row in still]:
        raise LostRace(session_id)
    return rows


def _must_be_idle(row: Mapping[str, Any]) -> None:
    holder = leases.live_holder(row["id"], row, row["now_ms"])
    if holder is not None:
        raise SessionBusy(row["id"], holder)
