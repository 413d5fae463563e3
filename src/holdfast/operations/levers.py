"""Levers: work a host asks for, in bounded transactions (GEN-20, sections 8 and 15).

A lever is not one operation but a row of them, each all-or-nothing, so an interrupted lever has
done what it did and a repeated one goes on. It runs on one of the store's threads, or on a
blocking caller's, and is handed `run`, which finishes one operation.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from typing import Any, NamedTuple, Protocol, TypeVar

from holdfast.engine import Work
from holdfast.errors import GcAborted
from holdfast.model.checkpoints import GcReport, VacuumReport
from holdfast.operations.address import Address
from holdfast.rules import checks
from holdfast.settings import Settings
from holdfast.transaction import Call, Mode, Row, Transaction, call

T = TypeVar("T")
BATCH = 1_000
#: What `hidden.gone` says of a node that is gone and whose row is removed.
REMOVED = 2


class Run(Protocol):
    """Finishes one operation."""

    def __call__(self, work: Work[T]) -> T:
        """The operation's result."""
        ...


def _batch(run: Run, name: str, /, *behind: Call, **params: Any) -> list[Row]:
    """One statement in a transaction of its own, `behind` what has to be locked first."""

    async def steps(tx: Transaction) -> list[Row]:
        return (await tx.conclude(*behind, call(name, **params)))[-1]

    return run(Work(name, Mode.WRITE, steps))


def _look(run: Run, name: str, /, **params: Any) -> list[Row]:
    async def steps(tx: Transaction) -> list[Row]:
        return (await tx.conclude(call(name, **params)))[0]

    return run(Work(name, Mode.READ, steps))


def _until_done(run: Run, name: str, /, *behind: Call, **params: Any) -> int:
    """Repeats a batch until it finds nothing more; how many rows it met."""
    total = 0
    while rows := _batch(run, name, *behind, **params):
        total += len(rows)
    return total


# --- collection --------------------------------------------------------------------------


def collect_garbage(run: Run, env: Settings, grace_ms: int = 0, limit: int = BATCH) -> GcReport:
    """Delete every blob that no head, frame or artifact refers to and that is old enough."""
    checks.duration(grace_ms, "grace_ms")
    window = checks.limit(limit)
    if not window:
        return GcReport(
            root_count=0,
            retained_blob_count=0,
            deleted_blob_count=0,
            freed_bytes=0,
            missing_root_count=0,
        )
    for damaged in _look(run, "damaged_root"):
        stored = f"codec {damaged['codec']}, {damaged['found']} bytes for {damaged['raw_len']}"
        raise GcAborted(damaged["ref"], stored)
    retained = deleted = freed = after = 0
    while True:
        (row,) = _look(run, "blob_window", after=after, limit=window)
        if row["upto"] is None:
            break
        window_end = {"after": after, "upto": row["upto"], "grace_ms": grace_ms}
        gone = _batch(run, "collect_blobs", call("take_blob_guard"), **window_end)
        retained += int(row["retained"])
        deleted += len(gone)
        freed += sum(blob["stored_len"] for blob in gone)
        after = row["upto"]
    (roots,) = _look(run, "count_roots")
    return GcReport(
        root_count=roots["roots"],
        retained_blob_count=retained,
        deleted_blob_count=deleted,
        freed_bytes=freed,
        missing_root_count=roots["missing"],
    )


# --- vacuum and retention ----------------------------------------------------------------


def vacuum_session(
    run: Run,
    env: Settings,
    at: Address,
    terminal_before_ms: int | None = None,
    limit: int = BATCH,
) -> VacuumReport:
    """Remove the session's tombstoned nodes for good, and turn inputs that have ended."""
    window = _vacuuming(terminal_before_ms, limit)
    if not limit:
        return VacuumReport(removed_node_count=0)
    _must_be_there(run, at)
    ended = _vacuum_inputs(run, at, window)
    nodes = _vacuum_nodes(run, at, limit)
    return VacuumReport(removed_node_count=nodes, removed_turn_input_count=ended)


def vacuum(
    run: Run, env: Settings, terminal_before_ms: int | None = None, limit: int = BATCH
) -> VacuumReport:
    """Vacuum every session, and remove what deleted sessions and replaced graphs left behind."""
    window = _vacuuming(terminal_before_ms, limit)
    if not limit:
        return VacuumReport(removed_node_count=0)
    before = {"terminal_before_ms": terminal_before_ms}
    with_ended = _due(run, "sessions_with_ended_inputs", **before)
    ended = sum(_vacuum_inputs(run, at, window) for at in with_ended)
    nodes = sum(_vacuum_nodes(run, at, limit) for at in _due(run, "sessions_with_hidden"))
    unreachable = sum(_remove(run, key, limit) for key in _removals(run))
    unreachable += _trim(run, limit)
    return VacuumReport(
        removed_node_count=nodes,
        removed_turn_input_count=ended,
        removed_unreachable_count=unreachable,
    )


def _vacuuming(terminal_before_ms: int | None, limit: int) -> dict[str, int | None]:
    if terminal_before_ms is not None:
        checks.instant(terminal_before_ms, "terminal_before_ms")
    return {"terminal_before_ms": terminal_before_ms, "limit": checks.limit(limit)}


def _vacuum_inputs(run: Run, at: Address, window: dict[str, int | None]) -> int:
    entered = call("lock_section", session_id=at.session_id)
    target = {"session_id": at.session_id, "bound_key": at.key}
    return _until_done(run, "vacuum_inputs", entered, **target, **window)


def _vacuum_nodes(run: Run, at: Address, limit: int) -> int:
    """Batches until one finds nothing more; how many tombstoned nodes went."""
    removed = 0
    while batch := run(Work("vacuum_hidden", Mode.WRITE, _node_batch(at, limit))):
        removed += batch.tombstoned
    return removed


class _NodeBatch(NamedTuple):
    """What a batch did; false if there was nothing to do."""

    tombstoned: int
    others: int

    def __bool__(self) -> bool:
        return any(self)


def _node_batch(
    at: Address, limit: int
) -> Callable[[Transaction], Coroutine[Any, Any, _NodeBatch]]:
    """What removes tombstoned nodes, and all that only they were a reason to keep."""
    target = {"session_id": at.session_id, "bound_key": at.key}
    batch = target | {"limit": limit}

    async def steps(tx: Transaction) -> _NodeBatch:
        _, hidden, released, unshared = await tx.trip(
            # A fork being made right now would inherit what this batch removes.
            call("enter_section", session_id=at.session_id, create=False),
            call("vacuum_hidden", gone=0, **batch),
            call("let_go", **batch),
            # Nodes hidden long ago whose last other reader has let go of them since.
            call("vacuum_hidden", gone=1, **batch),
        )
        places = [_place(row) for row in (*hidden, *unshared) if row["gone"] == REMOVED]
        _, *dropped = await tx.conclude(
            call("forget_removed", places=places, **target),
            call("drop_emptied", **batch),
            call("forget_tails", **batch),
        )
        return _NodeBatch(len(hidden), sum(map(len, (released, unshared, *dropped))))

    return steps


def _place(row: Row) -> int:
    return int(row["branch"]) << 28 | int(row["ordinal"])


def _must_be_there(run: Run, at: Address) -> None:
    rows = _look(run, "read_lease", session_id=at.session_id)
    at.met(rows[0] if rows else None)


def _due(run: Run, listing: str, **given: Any) -> Iterator[Address]:
    """The sessions for which a listing finds something to do, page by page."""
    after = 0
    while rows := _look(run, listing, after=after, limit=BATCH, **given):
        yield from (_address(row) for row in rows if row["id"] is not None)
        after = rows[-1]["key"]


def _address(row: Row) -> Address:
    at = Address(row["id"])
    at.key = row["key"]
    return at


def _removals(run: Run) -> Iterator[int]:
    while rows := _look(run, "next_removal"):
        yield rows[0]["session"]


def _remove(run: Run, session: int, limit: int) -> int:
    # Two vacuums at once: who merely waited for the other's rows would find none of its own, take
    # the session for done, and drop the marker of what the other has still to remove.
    marker = call("lock_removal", session=session)
    removed = _until_done(run, "remove_rows", marker, session=session, limit=limit)
    _batch(run, "finish_removal", session=session)
    return removed


def _trim(run: Run, limit: int) -> int:
    """Nodes of detached branches behind what others inherited, and branches without any."""
    removed = after = 0
    while rows := _look(run, "detached_branches", after=after, limit=BATCH):
        branches = [row["id"] for row in rows]
        removed += _until_done(run, "trim_branches", branches=branches, limit=limit)
        _batch(run, "drop_branches", branches=branches)
        after = branches[-1]
    return removed


def prune_session_receipts(
    run: Run, env: Settings, at: Address, older_than_ms: int, limit: int = BATCH
) -> int:
    """Forget the source keys of work settled before an instant: they may be used again."""
    window = _forgetting(older_than_ms, limit)
    if not limit:
        return 0
    _must_be_there(run, at)
    return _forget(run, at, window)


def prune_settled_source_keys(
    run: Run, env: Settings, older_than_ms: int, limit: int = BATCH
) -> int:
    """As for one session, over all of them."""
    window = _forgetting(older_than_ms, limit)
    if not limit:
        return 0
    due = _due(run, "sessions_with_receipts", older_than_ms=older_than_ms)
    return sum(_forget(run, at, window) for at in due)


def _forgetting(older_than_ms: int, limit: int) -> dict[str, int]:
    return {
        "older_than_ms": checks.instant(older_than_ms, "older_than_ms"),
        "limit": checks.limit(limit),
    }


def _forget(run: Run, at: Address, window: dict[str, int]) -> int:
    entered = call("lock_section", session_id=at.session_id)
    target = {"session_id": at.session_id, "bound_key": at.key}
    return _until_done(run, "prune_receipts", entered, **target, **window)


def prune_session_turns(
    run: Run,
    env: Settings,
    at: Address,
    older_than_ms: int,
    keep_latest: int = 1,
    limit: int = BATCH,
) -> int:
    """Drop the session's turn stamps from before an instant; the newest always stay."""
    window = _pruning(older_than_ms, keep_latest, limit)
    if not limit:
        return 0
    _must_be_there(run, at)
    return _prune(run, at, window)


def prune_turn_commits(
    run: Run, env: Settings, older_than_ms: int, keep_latest: int = 1, limit: int = BATCH
) -> int:
    """As for one session, over all of them."""
    window = _pruning(older_than_ms, keep_latest, limit)
    if not limit:
        return 0
    stamped = {name: window[name] for name in ("older_than_ms", "keep_latest")}
    return sum(_prune(run, at, window) for at in _due(run, "sessions_with_stamps", **stamped))


def _pruning(older_than_ms: int, keep_latest: int, limit: int) -> dict[str, int]:
    return {
        "older_than_ms": checks.instant(older_than_ms, "older_than_ms"),
        "keep_latest": max(checks.count(keep_latest, "keep_latest"), 1),
        "limit": checks.limit(limit),
    }


def _prune(run: Run, at: Address, window: dict[str, int]) -> int:
    target = {"session_id": at.session_id, "bound_key": at.key}
    return _until_done(run, "prune_turn_commits", **target, **window)
