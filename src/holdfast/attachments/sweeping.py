"""Reclaiming bytes that nobody refers to, beside live traffic (ATT-21)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Final

from holdfast.attachments.backend import ByteBackend
from holdfast.attachments.port import Port
from holdfast.errors import InvalidArgument
from holdfast.model.attachments import ByteEntry, ReclaimReport
from holdfast.operations import attachments as manifest
from holdfast.operations.levers import BATCH
from holdfast.rules import checks

#: How many other stores are named to whoever wanted to sweep.
_TOLD: Final = 3

log = logging.getLogger("holdfast")


async def reclaim_attachments(
    port: Port,
    own: ByteBackend,
    reconcile: Callable[[int], int],
    grace_ms: int,
    backend: ByteBackend | None = None,
    limit: int = BATCH,
) -> ReclaimReport:
    """Forget dead intents, then delete bytes that no session refers to and that are old enough.

    `grace_ms` must exceed the time a put takes, and any difference between the clocks of the
    store and of the backend.
    """
    checks.duration(grace_ms, "grace_ms")
    swept = own if backend is None else backend
    if not isinstance(swept, ByteBackend):
        raise InvalidArgument("backend", "wrong_type")
    if checks.limit(limit) == 0:
        return _Sweep(port, swept, 0).report(0)
    await port.admit("reclaim_attachments")
    await _must_be_ours(port, swept)
    cutoff_ms = await port.run(manifest.now) - grace_ms
    await port.call(partial(reconcile, cutoff_ms))
    sweep = _Sweep(port, swept, cutoff_ms)
    after = ""
    while page := await port.call(partial(sweep.backend.list, after, limit)):
        await sweep.judge(page)
        after = page[-1].id
    removed = await port.call(partial(sweep.backend.sweep_staging, cutoff_ms))
    return sweep.report(removed)


async def _must_be_ours(port: Port, backend: ByteBackend) -> None:
    """What another store refers to cannot be seen from here, so nothing of it may be judged."""
    if found := await port.call(backend.stores):
        name = await port.run(manifest.store_name)
        if others := ", ".join(sorted(found - {name})[:_TOLD]):
            raise InvalidArgument("backend", f"bytes of store {others} are there; this is {name}")


class _Sweep:
    """One sweep: what it judges by, and what came of it so far."""

    def __init__(self, port: Port, backend: ByteBackend, cutoff_ms: int) -> None:
        self.backend = backend
        self._port = port
        self._cutoff_ms = cutoff_ms
        self._scanned = self._reclaimed = 0
        self._failed: list[str] = []
        self._referenced: list[str] = []

    async def judge(self, page: list[ByteEntry]) -> None:
        """Delete what of a page may go. If its references cannot be read, nothing of it does."""
        old = [entry.id for entry in page if self._is_old(entry)]
        live = await self._port.run(manifest.live_refs, old, self._cutoff_ms)
        self._scanned += len(page)
        for id in old:
            if id not in live:
                await self._reclaim(id)

    async def _reclaim(self, id: str) -> None:
        """Look again, delete, and look once more: somebody may refer to it meanwhile."""
        try:
            found = await self._port.call(partial(self.backend.head, id))
            if found is None or not self._is_old(found) or await self._is_live(id):
                return
            await self._port.call(partial(self.backend.delete, id))
        except Exception:
            log.exception("attachment %s could not be reclaimed", id)
            _note(self._failed, id)
            return
        self._reclaimed += 1
        try:
            if not await self._is_live(id):
                return
        except Exception:
            log.exception("attachment %s was reclaimed; who refers to it now is not known", id)
            return
        log.error("attachment %s was deleted while a session began to refer to it", id)
        _note(self._referenced, id)

    async def _is_live(self, id: str) -> bool:
        return await self._port.run(manifest.is_live, id, self._cutoff_ms)

    def _is_old(self, entry: ByteEntry) -> bool:
        return entry.modified_at_ms is None or entry.modified_at_ms <= self._cutoff_ms

    def report(self, removed_staging_count: int) -> ReclaimReport:
        """What came of it."""
        return ReclaimReport(
            scanned_blob_count=self._scanned,
            reclaimed_count=self._reclaimed,
            failed_ids=self._failed,
            deleted_while_referenced=self._referenced,
            removed_staging_count=removed_staging_count,
        )


def _note(ids: list[str], id: str) -> None:
    if len(ids) < checks.MAX_ITEMS:
        ids.append(id)
