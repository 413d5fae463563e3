"""The figures of limits, as promised: some are too large, or too slow, to be met by a test."""

from __future__ import annotations

import pytest

from holdfast import settings
from holdfast.operations import reading, sessions
from holdfast.rules import (
    canonical,
    checks,
    commits,
    heads,
    light,
    messages,
    parents,
    queue,
    scopes,
    splicing,
    state,
    usage,
)

MIB = 1024 * 1024

FIGURES = {
    "GEN-1 identifier": (checks.IDENTIFIER_BYTES, 512),
    "GEN-1 key": (checks.KEY_BYTES, 1024),
    "GEN-17 value": (settings.MAX_VALUE_BYTES, 16 * MIB),
    "GEN-17 digits": (canonical.MAX_DIGITS, 4_300),
    "GEN-17 blob": (settings.MAX_BLOB_BYTES, 256 * MIB),
    "GEN-17 commit": (commits.MAX_COMMIT_BYTES, 512 * MIB),
    "GEN-17 other text": (checks.TEXT_BYTES, 4096),
    "GEN-17 nodes": (parents.MAX_NODES, 100_000),
    "GEN-17 frames": (state.MAX_FRAMES, 1_000),
    "GEN-17 usage deltas": (usage.MAX_DELTAS, 1_000),
    "GEN-17 usage label": (usage.LABEL_BYTES, 1024),
    "GEN-17 usage counter": (usage.MAX_COUNTER, 10**15),
    "GEN-17 payloads": (queue.MAX_PAYLOADS, 1_000),
    "GEN-17 enqueue": (queue.MAX_ENQUEUED_BYTES, 128 * MIB),
    "GEN-17 outbox": (commits.MAX_DRAFTS, 1_000),
    "GEN-17 lists, limits": (checks.MAX_ITEMS, 10_000),
    "MET-8 preview": (messages.PREVIEW_CHARACTERS, 500),
    "EXT-2 kind": (checks.LABEL_CHARACTERS, 64),
    "EXT-4 sessions named": (reading.MAX_NAMED_SESSIONS, 10),
    "EXT-6 nodes returned": (splicing.MAX_RETURNED, 1_000),
    "EXT-6 bytes returned": (splicing.MAX_RETURNED_BYTES, 16 * MIB),
    "EXT-7 nodes of a light commit": (light.MAX_NODES, 200),
    "EXT-8 tag": (heads.TAG_BYTES, 128),
    "EXT-9 depth of a scope": (scopes.MAX_DEPTH, 8),
    "EXT-9 label of a scope": (scopes.LABEL_BYTES, 256),
    "EXT-9 scope": (scopes.SCOPE_BYTES, 1024),
    "EXT-9 labels": (scopes.MAX_LABELS, 32),
    "EXT-9 label's name": (scopes.NAME_BYTES, 64),
    "EXT-9 label's value": (scopes.VALUE_BYTES, 512),
    "EXT-12 family": (sessions.MAX_FAMILY, 10_000),
    "EXT-17 components": (state.MAX_COMPONENTS, 64),
}


@pytest.mark.parametrize(("limit", "figure"), FIGURES.values(), ids=FIGURES)
def test_a_limit_is_the_contracts(limit: int, figure: int) -> None:
    assert limit == figure
