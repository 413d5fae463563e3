"""A store large enough that a planner shows what it would do to a larger one, and parameters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from tests.plans import graphs, inputs, work

SESSIONS = 20_000
NODES = 6
#: Which node has one and the same id in every session.
COMMON = 4
FORKS = 10_000
#: What one session hides that is removed already.
REMOVED = 50_000
TEXT = "x" * 40

Rows = list[tuple[Any, ...]]


class Table(NamedTuple):
    """Rows of one table, as both databases store them."""

    name: str
    columns: str
    rows: Rows


def tables() -> Iterator[Table]:
    """Sessions with branches of their own, some of them forks, in 400 scopes."""
    sessions = range(1, SESSIONS + 1)
    forks = range(SESSIONS - FORKS + 1, SESSIONS + 1)
    yield Table(
        "session",
        "key, id, head_revision, branch, length, leaf_id, node_count, next_sequence",
        [(s, f"s{s}", NODES, s, NODES, f"n{s}-{NODES - 1}", NODES, NODES + 1) for s in sessions],
    )
    yield Table(
        "session_meta",
        "session, session_name, created_at_ms, model, relation, relation_kind, parent_session_id",
        [(s, f"s{s}", 1, "m", "{}", "child", f"s{s % 2_000 + 1}") for s in sessions],
    )
    yield Table(
        "listing",
        "session, id, scope, activity_us, updated_at_ms",
        [(s, f"s{s}", b"scope-%03d\0" % (s % 400), s * 1_000, s) for s in sessions],
    )
    yield Table("label", "session, name, value", [(s, "team", f"t{s % 500}") for s in sessions])
    yield Table("head_state", "session, config", [(s, b"{}") for s in sessions])
    yield Table("branch", "id, base, owner", [(s, 0, s) for s in sessions])
    yield Table(
        "inherited",
        "session, branch, owner, start, upto",
        [(s, s - FORKS, s - FORKS, 0, NODES // 2) for s in forks],
    )
    yield Table(
        "hidden",
        "session, branch, ordinal, gone",
        [
            *((s, s, n, n % 3) for s in sessions if s % 3 == 0 for n in range(3)),
            *((1, 1, n, 2) for n in range(NODES, NODES + REMOVED)),
        ],
    )
    yield Table(
        "turn_commit",
        "session, turn_id, hash, result, head_revision, committed_at_ms",
        [(s, f"t{n}", "h", "{}", n, n) for s in sessions for n in range(2)],
    )
    yield Table(
        "usage",
        "session, pair, position, source, model, input_tokens, output_tokens,"
        " cache_read_input_tokens, cache_write_input_tokens, reasoning_output_tokens",
        [(s, f"p{n}", n, "chat", "m", 1, 1, 1, 1, 1) for s in sessions for n in range(2)],
    )
    yield Table(
        "blob",
        "ref, kind, codec, raw_len, stored_len, stored_at_ms, body",
        [(f"r{n}", "component", 0, 40, 40, n, TEXT.encode()) for n in range(2 * SESSIONS)],
    )
    yield Table(
        "blob_ref",
        "session, slot, ref",
        [(s, slot, f"r{s}") for s in sessions for slot in ("checkpoint", "component:tool_state")],
    )
    yield Table(
        "artifact", "namespace, name, ref", [("raw", f"a{n}", f"r{n}") for n in range(SESSIONS)]
    )
    yield Table(
        "attachment",
        "session, attachment_id, intent_at_ms, intent_revision, committed_at_ms, owner_kind,"
        " owner_id",
        [
            (s, f"{s % 7_000 + n:064x}", s, n, None if s % 5 == 0 else s, *_owner(s))
            for s in sessions
            for n in range(2)
        ],
    )
    yield Table("process", "id", [(f"p{n}",) for n in range(SESSIONS)])
    yield Table(
        "attachment_bytes",
        "id, chunks, byte_len, modified_at_ms",
        [(f"{n:064x}", n, 40, n) for n in range(1, SESSIONS)],
    )
    yield Table(
        "attachment_chunk",
        "chunks, number, body",
        [(n, 0, TEXT.encode()) for n in range(1, SESSIONS)],
    )
    yield Table(
        "attachment_staging",
        "key, open, byte_len, touched_at_ms",
        [(SESSIONS + n, n % 2, 40, n) for n in range(SESSIONS)],
    )
    yield Table("removal", "session", [(SESSIONS + n,) for n in range(1, SESSIONS)])
    yield from (Table(*each) for area in (graphs, inputs, work) for each in area.rows())


def few() -> Iterator[Table]:
    """Three thousand sessions, and all the queued work."""
    yield Table("session", "key, id", [(s, f"s{s}") for s in range(1, 3_001)])
    yield from (Table(*each) for each in work.rows())


def _owner(session: int) -> tuple[str | None, str | None]:
    owners = ((None, None), ("turn", "t0"), ("process", f"p{session}"))
    return owners[session % len(owners)]


def nodes() -> Iterator[tuple[Any, ...]]:
    """Branch, ordinal, and what both databases store under the same names."""
    for session in range(1, SESSIONS + 1):
        for n in range(NODES):
            user_text = TEXT if n % 2 == 0 else None
            node_id = f"n{session}-{n}" if n != COMMON else "common"
            yield (session, n, session, n + 1, node_id, "message", 0, b"{}", user_text)
    yield from graphs.nodes()


NODE_COLUMNS = "owner, sequence, node_id, kind, enc, body, user_text"

#: A value for each parameter of any statement; None where an operation may give none.
SAMPLES: dict[str, Any] = {
    "activity_us": None,
    "after": "s100",
    "after_activity": 1_000_000,
    "after_id": "s1000",
    "after_sequence": 3,
    "after_us": None,
    "agent_frame_id": [None],
    "all_roles": True,
    "anchor": None,
    "at_us": [None],
    "attachment_id": f"{7:064x}",
    "attachment_ids": [f"{7:064x}", f"{8:064x}"],
    "after_at_ms": 10,
    "after_session": "s10",
    "before_ms": 300,
    "body": [b"{}"],
    "bound_key": None,
    "branch": 7,
    "branches": [7, 8],
    "caused_by": [None],
    "checkpoint": True,
    "checkpoint_ref": None,
    "codec": 0,
    "config": None,
    "config_enc": 0,
    "config_tag": None,
    "count": 1,
    "create": True,
    "created_at_ms": None,
    "current_frame_id": "",
    "cwd": None,
    "dead_generation": None,
    "dead_incarnation_id": None,
    "dead_liveness": None,
    "dead_owner_id": None,
    "detach": False,
    "drop_branch": False,
    "cutoff_ms": 300,
    "enc": [0],
    "expect_revision": None,
    "expect_tag": None,
    "expect_tagged": False,
    "first_user_message": "",
    "first_user_sequence": None,
    "frames": True,
    "generation": 1,
    "gone": 0,
    "grace_ms": 0,
    "hash": "h",
    "head_revision": 8,
    "head_tag": None,
    "id": f"{7:064x}",
    "incarnation_id": "i",
    "intent_at_ms": None,
    "keep": None,
    "keep_latest": 1,
    "kind": ["message"],
    "label_name": "team",
    "label_names": ["team"],
    "label_value": "t7",
    "label_values": ["t7"],
    "last": 5,
    "leaf": "n7-1",
    "leaf_id": "n7-1",
    "length": 4,
    "limit": 100,
    "liveness": "{}",
    "max_bytes": 1_000,
    "max_dropped": 10_000,
    "maximum": 32,
    "model": "m",
    "momentary": True,
    "name": "a7",
    "namespace": "raw",
    "next_sequence": 30,
    "node_count": 20,
    "node_id": "n7-1",
    "node_ids": ["n7-1", "n7-2"],
    "node_tag": [None],
    "now_ms": 5_000,
    "at_ms": 5_000,
    "number": 0,
    "older_than_ms": 2,
    "owner_id": "o",
    "owner_kind": "turn",
    "parent_session_id": None,
    "places": [7 << 28, 7 << 28 | 1],
    "preview": [None],
    "raw_len": 4,
    "ref": "r7",
    "refs": ["r7", "r8"],
    "relation": "{}",
    "relation_kind": None,
    "release": False,
    "remove": ["team"],
    "result": "{}",
    "role": [None],
    "roles": ["tool_state"],
    "scope": None,
    "scope_high": None,
    "scope_low": None,
    "session": 7,
    "session_id": "s7",
    "session_ids": ["s7", "s8"],
    "session_name": "s7",
    "sessions": [7, 8],
    "set_tag": False,
    "source": 7,
    "start": 1,
    "staging": SESSIONS + 4,
    "stored_len": 4,
    "tag": None,
    "token": "t",
    "ttl_ms": 1_000,
    "turn_id": "t1",
    "updated_since_ms": None,
    "upto": 300,
    "user_message_count": 10,
    "user_text": [None],
    "vacate": False,
    "with_children": True,
    "with_config": True,
}

#: What single statements are given instead.
SPECIAL: dict[str, dict[str, Any]] = {
    "blob_window": {"after": 100},
    "list_bytes": {"after": f"{100:064x}"},
    "list_intents": {"after": f"{100:064x}", "older_than_ms": 5_000},
    "list_refs": {"after": f"{100:064x}"},
    "write_chunk": {"number": 1, "body": b"{}"},
    "collect_blobs": {"after": 100},
    "detached_branches": {"after": 100},
    "sessions_with_ended_inputs": {"after": 100},
    "sessions_with_hidden": {"after": 100},
    "sessions_with_receipts": {"after": 100},
    "sessions_with_stamps": {"after": 100},
    "insert_meta": {"scope": b"s", "relation_kind": "root"},
    "create_session": {"scope": b"s", "relation_kind": "root"},
    "save_meta": {"scope": b"s", "relation_kind": "root", "created_at_ms": 1},
    "light_commit": {"start": "leaf", "node_id": ["new"], "relation_kind": "root", "scope": b"s"},
    "list_by_scope_newest": {"scope": b"scope-007\0"},
    "list_by_scope_oldest": {"scope": b"scope-007\0"},
    "list_by_prefix_newest": {"scope_low": b"scope-007", "scope_high": b"scope-008"},
    "list_by_prefix_oldest": {"scope_low": b"scope-007", "scope_high": b"scope-008"},
    "list_by_parent_newest": {"parent_session_id": "s7"},
    "list_by_parent_oldest": {"parent_session_id": "s7"},
    "path_segments": {"keep": -1, "last": None},
    "put_blob": {"kind": "component", "body": b"{}"},
    "put_config": {"config": b"{}"},
    "put_frames": {"frames": "[]"},
    "removed_nodes": {"keep": -1, "last": None},
    "removed_totals": {"keep": -1, "last": None},
}

#: Statements that look at every row of a table because that is what they are asked for.
WHOLE = {"count_roots", "damaged_root"}

#: What must be found by which index, whatever else a statement reads.
INDEXES = {
    "enter_section": {"session"},
    "claim_lease": {"session"},
    "read_head": {"session"},
    "read_stamp": {"session", "turn_commit"},
    "known_nodes": {"session", "node_by_id", "node"},
    "read_path": {"session", "branch", "node"},
    "read_path_to": {"session", "branch", "node", "node_by_id"},
    "find_nodes": {"node_by_id", "inherited_by_branch"},
    "list_nodes": {"node_by_sequence"},
    "read_checkpoint": {"session", "blob_ref", "blob"},
    "read_usage": {"session", "usage"},
    "present_blobs": {"blob"},
    "record_intent": {"session"},
    "stamp_attachments": {"session", "attachment"},
    "holds_attachment": {"session", "attachment"},
    "live_attachments": {"attachment_by_id"},
    "list_intents": {"attachment_by_intent"},
    "list_refs": {"attachment_by_id"},
    "read_chunk": {"attachment_bytes", "attachment_chunk"},
    "collect_blobs": {"blob", "blob_ref_by_ref", "artifact_by_ref"},
    "sessions_with_ended_inputs": {"turn_input_ended", "session"},
    "sessions_with_hidden": {"hidden_to_vacuum", "session"},
    "sessions_with_receipts": {"work_settled", "session"},
    "sessions_with_stamps": {"turn_commit_by_revision", "session"},
    "list_by_all_newest": {"listing_by_activity"},
    "list_by_scope_newest": {"listing_by_scope"},
    "list_by_prefix_newest": {"listing_by_scope"},
    "list_by_label_newest": {"label_by_value"},
    "list_by_parent_newest": {"session_meta_by_parent"},
}

#: Statements that are to read no more than a few rows for each that they return.
PAGES = {"find_nodes": work.Reads("find_nodes", 200, {"node_id": "common", "limit": 11})} | {
    name: work.Reads(name, 500, {"after": 0, "older_than_ms": work.LATER})
    for name in (
        *("sessions_with_ended_inputs", "sessions_with_hidden"),
        *("sessions_with_receipts", "sessions_with_stamps"),
    )
}

SAMPLES |= work.SAMPLES | inputs.SAMPLES
SPECIAL |= inputs.SPECIAL
INDEXES |= work.INDEXES | inputs.INDEXES
Reads = work.Reads
#: Statements on what is long, and how many rows they may read at most.
READS = work.READS | inputs.READS | graphs.READS


def arguments(
    name: str, wanted: Iterable[str], special: dict[str, Any] | None = None
) -> dict[str, Any]:
    """A value for each parameter of a statement."""
    given = SAMPLES | SPECIAL.get(name, {}) | (special or {})
    return {parameter: given[parameter] for parameter in wanted}
