"""Listing the sessions of a store, by pages (MET-6, EXT-10)."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import msgspec

from holdfast.errors import InvalidArgument
from holdfast.model.sessions import ListingOrder, ListingPage
from holdfast.operations import records
from holdfast.rules import checks, scopes
from holdfast.settings import Settings
from holdfast.transaction import Done, Steps, Transaction, call, read


class _Cursor(msgspec.Struct, frozen=True, array_like=True):
    """The last session seen."""

    activity_us: int
    session_id: str


_cursor = msgspec.json.Decoder(_Cursor)
_BEGINNING = {
    ListingOrder.ACTIVITY_DESC: _Cursor(checks.MAX_INTEGER, ""),
    ListingOrder.ACTIVITY_ASC: _Cursor(checks.MIN_INTEGER, ""),
}
_DIRECTION = {ListingOrder.ACTIVITY_DESC: "newest", ListingOrder.ACTIVITY_ASC: "oldest"}


@read
def list_sessions(
    env: Settings,
    *,
    parent_session_id: str | None = None,
    relation_kind: str | None = None,
    cwd: str | None = None,
    updated_since_ms: int | None = None,
    scope: tuple[str, ...] | None = None,
    scope_prefix: tuple[str, ...] | None = None,
    labels: Mapping[str, str] | None = None,
    order: ListingOrder | str = ListingOrder.ACTIVITY_DESC,
    with_config: bool = False,
    limit: int = 50,
    cursor: str | None = None,
) -> Steps[ListingPage]:
    """One page of known sessions; filters combine, ties go by session id."""
    checks.flag(with_config, "with_config")
    if checks.limit(limit) == 0:
        return Done(ListingPage([], cursor))
    order = _order(order)
    filters = _filters(parent_session_id, relation_kind, cwd, updated_since_ms)
    filters |= _scope_filters(scope, scope_prefix) | _label_filters(labels or {})
    after = _BEGINNING[order] if cursor is None else _decode(cursor)
    way = _way_in(filters)
    if way == "label":
        filters |= {"label_name": filters["label_names"][0]}
        filters |= {"label_value": filters["label_values"][0]}

    async def steps(tx: Transaction) -> ListingPage:
        page = call(
            f"list_by_{way}_{_DIRECTION[order]}",
            after_activity=after.activity_us,
            after_id=after.session_id,
            with_config=with_config,
            # One more than asked for, to know whether another page follows.
            limit=limit + 1,
            **filters,
        )
        (rows,) = await tx.conclude(page)
        lines = [records.listing(row) for row in rows[:limit]]
        last = lines[-1] if len(rows) > limit else None
        following = None if last is None else _encode(last.activity_us, last.session_id)
        return ListingPage(lines, following)

    return steps


def _way_in(filters: Mapping[str, Any]) -> str:
    """The narrowest filter that has an index of its own.

    A scope comes first: what a page costs may not depend on other scopes (EXT-10), and any number
    of their sessions can share a label.
    """
    if filters["scope"] is not None:
        return "scope"
    if filters["scope_low"]:  # the empty prefix is all there is
        return "prefix"
    if filters["label_names"]:
        return "label"
    return "all" if filters["parent_session_id"] is None else "parent"


def _order(order: ListingOrder | str) -> ListingOrder:
    try:
        return ListingOrder(order)
    except ValueError:
        raise InvalidArgument("order", "activity_desc or activity_asc") from None


def _filters(
    parent: str | None, kind: str | None, cwd: str | None, updated_since_ms: int | None
) -> dict[str, Any]:
    if kind not in (None, "root", "child", "fork"):
        raise InvalidArgument("relation_kind", "root, child or fork")
    return {
        "parent_session_id": None
        if parent is None
        else checks.identifier(parent, "parent_session_id"),
        "relation_kind": kind,
        "cwd": None if cwd is None else checks.text(cwd, "cwd"),
        "updated_since_ms": None
        if updated_since_ms is None
        else checks.instant(updated_since_ms, "updated_since_ms"),
    }


def _scope_filters(scope: tuple[str, ...] | None, prefix: tuple[str, ...] | None) -> dict[str, Any]:
    low, high = (None, None) if prefix is None else scopes.prefix_range(prefix)
    return {
        "scope": None if scope is None else scopes.encode_scope(scope),
        "scope_low": low,
        "scope_high": high,
    }


def _label_filters(labels: Mapping[str, str]) -> dict[str, Any]:
    checked = scopes.check_labels(labels)
    return {"label_names": list(checked), "label_values": list(checked.values())}


def _encode(activity_us: int, session_id: str) -> str:
    packed = msgspec.json.encode(_Cursor(activity_us, session_id))
    return base64.urlsafe_b64encode(packed).decode()


def _decode(cursor: str) -> _Cursor:
    packed = checks.text(cursor, "cursor")
    try:
        last = _cursor.decode(base64.urlsafe_b64decode(packed))
        checks.integer(last.activity_us, "cursor")
        checks.identifier(last.session_id, "cursor")
    except ValueError as error:
        raise InvalidArgument("cursor", "not one of ours") from error
    return last
