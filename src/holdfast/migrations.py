"""Loads the migrations of a backend: `NNNN_name.sql`, numbered from 1 without a gap.

Each begins with two lines that say how old a library may be and still use the result:

    -- oldest_reader: 1
    -- oldest_writer: 1
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable

_FILE = re.compile(r"(\d{4})_([a-z0-9_]+)\.sql")
_HEADER = re.compile(r"-- oldest_reader: (\d+)\n-- oldest_writer: (\d+)\n")


@dataclass(frozen=True, slots=True)
class Migration:
    """One step of the schema; its number is the schema number of the result."""

    number: int
    name: str
    sql: str
    oldest_reader: int
    oldest_writer: int


class BadMigration(ValueError):
    """A migration file of ours is wrong; never a matter of data."""


def load(source: str | Traversable) -> list[Migration]:
    """The migrations of a package, read once, or of a folder, in the order they apply."""
    return list(_shipped(source)) if isinstance(source, str) else _read(source)


@functools.cache
def _shipped(package: str) -> list[Migration]:
    return _read(resources.files(package))


def _read(folder: Traversable) -> list[Migration]:
    files = [file for file in folder.iterdir() if file.name.endswith(".sql")]
    found = sorted((_migration(file) for file in files), key=lambda each: each.number)
    if [each.number for each in found] != list(range(1, len(found) + 1)):
        raise BadMigration("migrations are not numbered 1, 2, 3, ...")
    return found


def _migration(file: Traversable) -> Migration:
    text = file.read_text(encoding="utf-8")
    name, header = _FILE.fullmatch(file.name), _HEADER.match(text)
    if name is None or header is None:
        raise BadMigration(f"{file.name}: a wrong name, or no oldest_reader and oldest_writer")
    number, reader, writer = int(name[1]), int(header[1]), int(header[2])
    if not 1 <= reader <= writer <= number:
        raise BadMigration(f"{file.name}: oldest_reader and oldest_writer contradict each other")
    return Migration(number, name[2], text[header.end() :], reader, writer)
