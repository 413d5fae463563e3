"""Which schema numbers of a store this library may work with (FAC-18, ruling 17)."""

from __future__ import annotations

import enum

from holdfast.errors import UnsupportedStoreVersion


class Decision(enum.Enum):
    """What opening a store of a known version comes to."""

    OPEN = "open"
    OPEN_READ_ONLY = "open_read_only"
    MIGRATE = "migrate"


def judge(
    found: int,
    oldest_reader: int,
    oldest_writer: int,
    ours: int,
    *,
    migrate: bool,
    read_only: bool,
) -> Decision:
    """How a library of schema `ours` opens a store of schema `found`; raises if it may not.

    `oldest_reader` and `oldest_writer` are those of the store's newest migration.
    """
    if found == ours:
        return Decision.OPEN
    if 0 < found < ours:
        if migrate and not read_only:
            return Decision.MIGRATE
        raise UnsupportedStoreVersion("schema", found, ours, ours)
    if found > ours >= oldest_writer:
        return Decision.OPEN
    if found > ours >= oldest_reader:
        return Decision.OPEN_READ_ONLY
    raise UnsupportedStoreVersion("schema", found, 1, ours)
