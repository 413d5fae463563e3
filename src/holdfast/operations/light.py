"""The light commit's one statement, for backends that have it (EXT-7)."""

from __future__ import annotations

from typing import Any

from holdfast.model.commits import Expectation, RuntimeCommitResult
from holdfast.model.leases import Lease
from holdfast.model.sessions import SessionCreate
from holdfast.model.values import Any_, Keep, Tag
from holdfast.operations import records
from holdfast.operations.address import Address
from holdfast.rules import replacing, splicing
from holdfast.rules.commits import Prepared
from holdfast.rules.light import Shape, shape_of
from holdfast.rules.metadata import new_meta
from holdfast.transaction import Row, Transaction

STATEMENT = "light_commit"

#: A draft's columns, under the statement's names for them.
_COLUMNS = (
    "kind",
    "enc",
    "node_tag",
    "body",
    "caused_by",
    "agent_frame_id",
    "role",
    "preview",
    "at_us",
    "user_text",
)


async def try_light(
    tx: Transaction, at: Address, prepared: Prepared, *, momentary: bool
) -> RuntimeCommitResult | None:
    """Apply a plain commit in one trip; none where it is not plain, and nothing was written."""
    if not tx.has(STATEMENT):
        return None
    shape = shape_of(prepared)
    lease = prepared.commit.session_execution_lease
    if shape is None or (lease is None) is not momentary:
        return None
    rows = await tx.promoted(STATEMENT, **_parameters(at, prepared, shape, momentary=momentary))
    if not rows:
        return None
    at.met(rows[0])
    return RuntimeCommitResult(
        head_revision=rows[0]["head_revision"],
        checkpoint_ref=rows[0]["checkpoint_ref"],
        removed_nodes=[records.node(_node_tuple(row)) for row in rows[1:]],
    )


def _parameters(
    at: Address, prepared: Prepared, shape: Shape, *, momentary: bool
) -> dict[str, Any]:
    commit, config = prepared.commit, prepared.config
    create = commit.create or SessionCreate(session_id=commit.session_id, model=prepared.model)
    return {
        **new_meta(create),
        **_expected(commit.expected_head_revision),
        **_fence(commit.session_execution_lease),
        **_nodes(prepared),
        **shape._asdict(),
        **splicing.returnable(),
        "max_dropped": replacing.MAX_DROPPED,
        "bound_key": at.key,
        "momentary": momentary,
        "release": commit.release_session_execution_lease,
        "set_tag": not isinstance(commit.head_tag, Keep),
        "tag": None if isinstance(commit.head_tag, Keep) else commit.head_tag,
        "activity_us": commit.activity_us,
        "config_enc": config.enc if config else 0,
        "config_tag": config.tag if config else None,
        "config": config.body if config else None,
    }


def _expected(expected: Expectation) -> dict[str, Any]:
    tagged = isinstance(expected, Tag)
    revision = None if isinstance(expected, Tag | Any_) else expected
    return {
        "expect_revision": revision,
        "expect_tagged": tagged,
        "expect_tag": expected.text if isinstance(expected, Tag) else None,
    }


def _fence(lease: Lease | None) -> dict[str, Any]:
    return {
        "token": lease and lease.token,
        "generation": lease and lease.generation,
        "owner_id": lease and lease.owner.owner_id,
        "incarnation_id": lease and lease.owner.incarnation_id,
    }


def _nodes(prepared: Prepared) -> dict[str, Any]:
    columns: list[list[Any]] = [[] for _ in _COLUMNS]
    for draft in prepared.drafts:
        for column, value in zip(columns, draft.columns, strict=True):
            column.append(value)
    ids = [draft.node.node_id for draft in prepared.drafts]
    return {"node_id": ids, **dict(zip(_COLUMNS, columns, strict=True))}


def _node_tuple(row: Row) -> tuple[Any, ...]:
    """A removed node in the order of `node_columns`, behind ordinal and floor."""
    names = ("sequence", "node_id", "parent_id", "kind", "enc", "tag", "body", "caused_by")
    rest = ("agent_frame_id", "role", "preview", "at_us")
    return (0, 0, *(row[name] for name in (*names, *rest)))
