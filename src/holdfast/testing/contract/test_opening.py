"""Section 3.1: opening a database, whatever is or is not there."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import apsw
import pytest

import holdfast
from holdfast import (
    DurableStoreRequired,
    InvalidArgument,
    NotAStore,
    Settings,
    StoreUnavailable,
    UnsupportedStoreVersion,
)
from holdfast.testing.contract import children
from holdfast.testing.contract.samples import chain, create, path_ids, put
from holdfast.testing.processes import spawn, together
from holdfast.testing.world import World, racing


@pytest.mark.scenario("FAC-T14")
def test_16_threads_open_a_new_database_at_once(world: World) -> None:
    # In memory every store is a database of its own, so there all of them open one store.
    stores = [world.open() for _ in range(16)] if world.is_durable else [world.open()] * 16

    answers = racing(16, lambda number: create(stores[number], f"s{number}").session_id)

    assert answers == [f"s{number}" for number in range(16)]
    assert len(stores[0].sessions.list().sessions) == 16


@pytest.mark.scenario("FAC-T14")
def test_16_threads_open_one_new_store_at_once(world: World) -> None:
    store = world.open()

    answers = racing(16, lambda _: len(store.sessions.list().sessions))

    assert answers == [0] * 16


def test_processes_open_a_new_database_at_once(durable: World) -> None:
    workers = [spawn(durable, children.create_one, f"s{number}") for number in range(3)]

    together(*workers)

    assert len(durable.open().sessions.list().sessions) == 3


@pytest.mark.scenario("FAC-T16")
def test_a_database_that_was_removed_is_empty_when_opened_again(world: World) -> None:
    if world.is_durable:
        worker = spawn(world, children.write_and_die)
        worker.await_ready()
        worker.go()
        assert worker.await_death() == children.DEAD
    else:
        first = world.open()
        put(first, "s1", graph=chain("a"))
        first.close()
    if world.database == "file":
        assert Path(f"{world.path}-wal").stat().st_size > 0
        world.path.unlink()
    if world.is_server:
        world.sql(None, f'DROP SCHEMA "{world.schema}" CASCADE')

    store = world.open()

    assert store.sessions.list().sessions == []
    assert store.sessions.load("s1") is None
    put(store, "s1", graph=chain("b"))
    assert path_ids(store) == ["b"]


# --- wrong openings ----------------------------------------------------------------------

WRONG_SETTINGS: dict[str, Any] = {
    "create": 1,
    "read_only": "yes",
    "migrate": None,
    "require_durable": "no",
    "wait_ms": -1,
    "pool_size": 0,
    "pool_timeout_ms": 1.5,
    "pool_max_idle_ms": -1,
    "pool_max_lifetime_ms": "long",
    "lock_timeout_ms": -1,
    "statement_timeout_ms": None,
    "idle_in_transaction_ms": True,
    "sync": "sometimes",
    "schema": "",
    "compression": "much",
    "gc_every_commits": -1,
    "max_value_bytes": "1",
    "max_blob_bytes": -1,
    "lease_timings": 30,
    "attachments": "a folder",
}
#: What is whatever does as it should; nobody can tell before it is used.
DUCKS = {"clock", "ids"}
WRONG_URLS = (
    "",
    "store.db",
    "sqlite:",
    "sqlite:///",
    "mysql://host/db",
    "sqlite:///a\0b",
    "postgresql://host/db?no_such_option=1",
    "postgresql://host/db?connect_timeout",
)


@pytest.mark.scenario("FAC-T22")
@pytest.mark.parametrize("field", WRONG_SETTINGS)
def test_a_wrong_setting_is_told_before_anything_is_touched(world: World, field: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        holdfast.open(world.url, **{field: WRONG_SETTINGS[field]})

    assert refused.value.field == field
    if world.database == "file":
        assert not world.path.exists()


def test_every_setting_can_be_wrong() -> None:
    assert set(WRONG_SETTINGS) | DUCKS == set(Settings.__struct_fields__)


@pytest.mark.scenario("FAC-T22")
@pytest.mark.parametrize("url", WRONG_URLS)
def test_a_wrong_url_is_told_at_once(url: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        holdfast.open(url)

    assert refused.value.field == "url"


@pytest.mark.scenario("FAC-T22")
def test_neither_a_url_nor_a_pool_is_told_at_once() -> None:
    with pytest.raises(InvalidArgument):
        holdfast.open()


def _unreachable(world: World, folder: Path) -> list[str]:
    if world.is_server:
        return [f"postgresql://nobody@/none?host={folder}", "postgresql://127.0.0.1:1/none"]
    (folder / "plain").write_text("no directory")
    closed = folder / "closed"
    closed.mkdir(mode=0o500)
    # Nothing is closed to root but what the kernel keeps.
    unwritable = "/proc/store.db" if os.geteuid() == 0 else closed / "store.db"
    places = (folder / "missing" / "store.db", folder / "plain" / "store.db", folder, unwritable)
    return [f"sqlite:///{place}" for place in places]


@pytest.mark.scenario("FAC-T22")
def test_what_cannot_be_reached_is_unavailable(world: World, tmp_path: Path) -> None:
    for url in _unreachable(world, tmp_path):
        store = world.calm(holdfast.open(url, wait_ms=500))
        with pytest.raises(StoreUnavailable) as told:
            store.open()
        assert told.value.operation == "open"
        with pytest.raises(StoreUnavailable):
            store.sessions.list()
        store.close()


@pytest.mark.scenario("FAC-T22")
def test_a_database_that_is_too_old_is_told(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    oldest = (
        "holdfast.postgres.migrate.OLDEST_SERVER"
        if world.is_server
        else "holdfast.sqlite.opening._OLDEST_SQLITE"
    )
    monkeypatch.setattr(oldest, 99_999_999)

    with pytest.raises(UnsupportedStoreVersion) as told:
        world.open().open()

    assert (told.value.component, told.value.supported_min) == ("server", 99_999_999)
    if world.database == "file":
        assert not world.path.exists()


def _foreign(world: World) -> Any:
    """Make what is at the world's URL another program's; how to look at it."""
    if world.is_server:
        world.sql(None, f'CREATE SCHEMA "{world.schema}"')
        world.sql(None, "CREATE TABLE {theirs} (x integer)")
        world.sql(None, "INSERT INTO {theirs} VALUES (1)")
        return lambda: (world.tables(None), world.sql(None, "SELECT x FROM {theirs}"))
    other = apsw.Connection(str(world.path))
    other.execute("CREATE TABLE theirs (x); INSERT INTO theirs VALUES (1)")
    other.close()
    return world.path.read_bytes


@pytest.mark.scenario("FAC-T22")
def test_another_programs_database_is_left_alone(durable: World) -> None:
    look = _foreign(durable)
    before = look()

    openings: list[dict[str, Any]] = [{}, {"read_only": True}, {"create": False}]
    for settings in openings:
        with pytest.raises(NotAStore):
            durable.open(**settings).open()

    assert look() == before
    if not durable.is_server:
        assert [each.name for each in durable.path.parent.iterdir()] == [durable.path.name]


@pytest.mark.scenario("FAC-T22")
def test_a_file_that_is_no_database_is_left_alone(tmp_path: Path) -> None:
    text = b"dear diary, " * 500
    (tmp_path / "diary").write_bytes(text)

    with pytest.raises(NotAStore):
        holdfast.open(f"sqlite:///{tmp_path / 'diary'}").open()

    assert (tmp_path / "diary").read_bytes() == text


def test_an_empty_file_is_a_new_store(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()

    with holdfast.open(f"sqlite:///{tmp_path / 'empty'}") as store:
        assert store.sessions.list().sessions == []


def test_what_is_absent_and_not_to_be_created_is_no_store(world: World) -> None:
    openings: list[dict[str, Any]] = [{"create": False}, {"read_only": True}]
    for settings in openings:
        with pytest.raises(NotAStore):
            world.open(**settings).open()
    if world.database == "file":
        assert not world.path.exists()


def test_a_failed_opening_may_be_tried_again(durable: World) -> None:
    waiting = durable.open(create=False)
    with pytest.raises(NotAStore):
        waiting.sessions.list()

    create(durable.open())

    assert len(waiting.sessions.list().sessions) == 1


def test_a_required_durability_is_refused_before_anything_is_written(world: World) -> None:
    if world.is_durable:
        assert create(world.open(require_durable=True)).session_id == "s1"
        return
    with pytest.raises(DurableStoreRequired) as told:
        world.open(require_durable=True)
    assert told.value.facet == "store"
