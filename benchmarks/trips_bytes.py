"""Operations on blobs, artifacts and attachments whose round trips are counted.

Attachments have their bytes in the database, where reaching them takes trips too.
"""

from __future__ import annotations

from typing import Any

from benchmarks.trips_kit import LATER, MANY, Row, always, new

# --- blobs and artifacts ---------------------------------------------------------------------


def content() -> bytes:
    """Bytes that are not stored yet."""
    return new("content").encode()


def stored(store: Any) -> tuple[str]:
    """The ref of bytes that are."""
    return (store.blobs.put(content()),)


def named(store: Any) -> tuple[str, str]:
    """An artifact."""
    name = new("name")
    store.artifacts.put("space", name, content())
    return "space", name


BLOBS = (
    Row("store a blob", "blobs.put", None, lambda _: (content(),)),
    Row("read a blob", "blobs.get", 1, stored),
    Row("look for a blob", "blobs.has", 1, stored),
    Row("store an artifact", "artifacts.put", None, lambda _: ("space", "name", content())),
    Row("read an artifact", "artifacts.get", 1, named),
    Row("remove an artifact", "artifacts.delete", None, named),
    Row("list artifacts", "artifacts.list", 1, lambda store: named(store)[:1]),
)


# --- attachments -----------------------------------------------------------------------------


def attached(store: Any) -> tuple[str, str]:
    """A session, and a file of it."""
    return "files", store.attachments.put("files", content()).id


def intended(store: Any) -> tuple[str, list[str]]:
    """A session, and files of it that no commit has confirmed."""
    ids = _ids(MANY)
    for id in ids[:2]:
        store.attachments.record_intent("files", id)
    return "files", ids


def _ids(count: int) -> list[str]:
    digits = new("").removeprefix("-")
    return [f"{digits}{number:04}".rjust(64, "0") for number in range(count)]


ATTACHMENTS = (
    Row("put an attachment", "attachments.put", None, lambda _: ("files", content())),
    Row("get an attachment", "attachments.get", None, attached),
    Row("stream an attachment", "attachments.stream", None, attached),
    Row("forget an attachment", "attachments.delete", 1, attached),
    Row("whether an attachment is held", "attachments.holds", 1, attached),
    Row("record an intent", "attachments.record_intent", 1, lambda _: ("files", *_ids(1))),
    Row(f"commit {MANY} references", "attachments.commit_refs", 1, intended),
    Row("list what is uncommitted", "attachments.list_uncommitted", 1, always(LATER)),
    Row("list references", "attachments.list_refs", 1, always()),
    Row(
        "whether an attachment is alive",
        "attachments.is_live",
        1,
        lambda store: (attached(store)[1], 0),
    ),
    Row(
        f"which of {MANY} attachments are alive",
        "attachments.live_refs",
        1,
        lambda store: (intended(store)[1], 0),
    ),
)

ROWS = (*BLOBS, *ATTACHMENTS)
