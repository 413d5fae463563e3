"""ATT-T21: large files in bounded memory, and puts that are killed."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from holdfast.testing.contract import attachment_children as children
from holdfast.testing.processes import spawn, together
from holdfast.testing.world import COLOURS, World, make_world

GIB = 1024**3
LIMIT = 64 * 1024**2


@pytest.mark.scenario("ATT-T21")
@pytest.mark.timeout(300)
@pytest.mark.parametrize("colour", COLOURS)
def test_a_gib_goes_in_and_out_within_64_mib(colour: str, tmp_path: Path) -> None:
    with make_world("memory", colour) as world:
        ((byte_len, id, back, traced, grown),) = together(
            spawn(world, children.through, str(tmp_path / "files"), GIB)
        )

    assert (byte_len, id) == (GIB, back)
    assert 0 < traced < LIMIT
    assert grown < LIMIT
    (file,) = (each for each in (tmp_path / "files").rglob("*") if each.is_file())
    with file.open("rb") as stored:
        assert hashlib.file_digest(stored, "sha256").hexdigest() == id
    file.unlink()


@pytest.mark.scenario("ATT-T21")
@pytest.mark.parametrize("place", ["database", "directory"])
def test_a_put_that_is_killed_leaves_nothing_to_read_and_nothing_after_a_sweep(
    durable: World, tmp_path: Path, place: str
) -> None:
    folder = str(tmp_path / "files") if place == "directory" else None
    settings: dict[str, Any] = {"schema": durable.schema} if durable.is_server else {}

    (found,) = together(spawn(durable, children.die_in_many_puts, durable.url, settings, folder))

    within, about_its_end = found["within"], found["about_its_end"]
    assert {left for left, _ in within} == {"nothing"}
    assert {left for left, _ in about_its_end} <= {"nothing", "all"}
    assert found["behind"] == [["all", 0]]
    assert max(staged for _, staged in within) > 0, "no kill met a file that was being staged"
