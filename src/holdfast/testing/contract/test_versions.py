"""Section 3.1: stores of older and newer libraries. In memory nothing is ever opened again."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from holdfast import ReadOnlyStore, UnsupportedStoreVersion
from holdfast.testing.contract.catalogue import EVERY, writes
from holdfast.testing.contract.samples import chain, create, path_ids, put
from holdfast.testing.world import World


def _filled(world: World) -> None:
    store = world.open()
    put(store, "s1", graph=chain("a", "b"), config={"model": "m"})
    store.close()


def _stamp(world: World, reader: int, writer: int) -> None:
    """What a library of schema 99 would have left behind."""
    world.sql(
        None, "INSERT INTO {migration} VALUES (99, 'from_the_future', ?, ?, 0)", reader, writer
    )


@pytest.mark.scenario("FAC-T15")
def test_a_store_that_admits_no_older_library_is_refused(durable: World) -> None:
    _filled(durable)
    _stamp(durable, 99, 99)
    openings: list[dict[str, Any]] = [{}, {"read_only": True}]
    for settings in openings:
        with pytest.raises(UnsupportedStoreVersion) as told:
            durable.open(**settings).open()

        assert (told.value.component, told.value.found) == ("schema", 99)


@pytest.mark.scenario("FAC-T15")
def test_a_store_that_admits_older_readers_opens_read_only(durable: World) -> None:
    _filled(durable)
    _stamp(durable, 1, 99)

    store = durable.open()

    assert path_ids(store) == ["a", "b"]
    with pytest.raises(ReadOnlyStore):
        put(store, "s1", graph=chain("c"))


@pytest.mark.scenario("FAC-T15")
def test_a_store_that_admits_older_writers_opens_for_writing(durable: World) -> None:
    _filled(durable)
    _stamp(durable, 1, 1)

    store = durable.open()
    put(store, "s1", graph=chain("c"))

    assert path_ids(store) == ["a", "b", "c"]


# --- forward -----------------------------------------------------------------------------


def _newer(world: World, folder: Path) -> Path:
    """The migrations of a library that is one schema ahead of ours."""
    dialect = "postgres" if world.is_server else "sqlite"
    shipped = resources.files(f"holdfast.{dialect}.migrations")
    count = 0
    for each in shipped.iterdir():
        if each.name.endswith(".sql"):
            (folder / each.name).write_text(each.read_text())
            count += 1
    table = "holdfast.artifact" if world.is_server else "artifact"
    (folder / f"{count + 1:04}_next.sql").write_text(
        f"-- oldest_reader: 1\n-- oldest_writer: {count + 1}\n"
        f"ALTER TABLE {table} ADD COLUMN note text;\n"
    )
    return folder


def _versions(world: World) -> list[Any]:
    return [number for (number,) in world.sql(None, "SELECT number FROM {migration} ORDER BY 1")]


@pytest.mark.scenario("FAC-T15")
def test_a_store_of_the_previous_version_is_migrated_with_its_data(
    durable: World, tmp_path: Path
) -> None:
    _filled(durable)
    before, versions = durable.dump(None), _versions(durable)

    store = durable.open(migrations=_newer(durable, tmp_path))

    assert path_ids(store) == ["a", "b"]
    assert store.sessions.load("s1").config == {"model": "m"}
    assert durable.dump(None) == before
    assert _versions(durable) == [*versions, versions[-1] + 1]
    put(store, "s1", graph=chain("c"))
    assert path_ids(durable.open()) == ["a", "b", "c"]


@pytest.mark.scenario("FAC-T23")
@pytest.mark.parametrize("setting", ["read_only", "migrate"])
def test_an_older_store_is_not_migrated_unasked(
    durable: World, tmp_path: Path, setting: str
) -> None:
    _filled(durable)
    before = durable.dump(None), _versions(durable)
    settings: dict[str, Any] = {setting: setting == "read_only"}

    with pytest.raises(UnsupportedStoreVersion) as told:
        durable.open(migrations=_newer(durable, tmp_path), **settings).open()

    assert told.value.found == before[1][-1]
    assert (durable.dump(None), _versions(durable)) == before


# --- read-only ---------------------------------------------------------------------------


@pytest.mark.scenario("FAC-T23")
def test_a_read_only_store_reads_and_refuses_every_write(durable: World) -> None:
    _filled(durable)
    before = durable.dump(None)
    store = durable.open(read_only=True)

    for name, operation in EVERY.items():
        if writes(name):
            with pytest.raises(ReadOnlyStore) as refused:
                operation(store, "s1")
            assert refused.value.operation
    assert path_ids(store) == ["a", "b"]
    assert store.sessions.load_meta("s1").session_id == "s1"
    assert store.sessions.open("s1").load().head_revision == 1
    assert len(store.sessions.list().sessions) == 1

    assert durable.dump(None) == before


@pytest.mark.scenario("FAC-T23")
def test_a_read_only_store_sees_what_others_write(durable: World) -> None:
    writer = durable.open()
    create(writer)
    reader = durable.open(read_only=True)
    assert reader.sessions.load("s1") is None

    put(writer, "s1", graph=chain("a"))

    assert path_ids(reader) == ["a"]
