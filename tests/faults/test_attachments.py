"""Puts and sweeps of attachments fail at every statement: no manifest is wrong afterwards.

They take several transactions and clean up behind themselves, so what is left depends on where
they failed. What is always true is said here instead: what a session holds it can read whole, or
it is told that there is nothing; and the next sweep leaves nothing that nobody refers to.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from holdfast import AttachmentNotFound
from holdfast.engine import prepared
from holdfast.operations.attachments import store_name
from tests.faults.stage import InjectedFault, Stage

SMALL = b"content"
LARGE = bytes(2_500_000)
BYTES = ("attachment_bytes", "attachment_chunk", "attachment_staging")


def _put(content: bytes) -> Callable[[Any], Any]:
    return lambda store: store.attachments.put("s1", content)


def _put_stream(store: Any) -> Any:
    return store.attachments.put("s1", iter([LARGE[:1_200_000], LARGE[1_200_000:]]))


class SourceBroke(Exception):
    """There will be no more bytes."""


def put_broken(store: Any) -> None:
    """A stream that breaks off when some of it is staged."""

    def source() -> Iterator[bytes]:
        yield from [LARGE[:1_200_000]] * 2
        raise SourceBroke

    with suppress(SourceBroke):
        store.attachments.put("s1", source())


def name_store(store: Any) -> str:
    """What the store is called in byte backends; the first to ask gives the name."""
    core = store._core
    name: str = core.run(prepared(store_name, core.settings))
    return name


PUTS = {"small": _put(SMALL), "large": _put(LARGE), "stream": _put_stream}


def _at_every_moment(stage: Stage, prepare: Any, act: Any) -> Iterator[bool]:
    """Whether `act` got through, failing first at its first moment, then at the next."""
    for moment in itertools.count():
        stage.clear()
        prepare(stage.store)
        moments = itertools.count()

        def fail(_name: str, _when: str) -> None:
            if next(moments) == moment:  # noqa: B023
                raise InjectedFault

        stage.world.backend(stage.store).on_statement = fail
        try:
            act(stage.store)
            done = True
        except InjectedFault:
            done = False
        finally:
            stage.world.backend(stage.store).on_statement = None
        yield done
        if next(moments) <= moment:
            return


def _reads(store: Any, id: str) -> bytes | None:
    try:
        found: bytes = store.attachments.get("s1", id)
        return found
    except AttachmentNotFound:
        return None


def _is_swept(stage: Stage) -> None:
    stage.world.clock.advance(1)
    stage.store.maintenance.reclaim_attachments(0)
    left = stage.dump()
    assert [left[name] for name in (*BYTES, "attachment")] == [[], [], [], []]


@pytest.mark.invariant("INV-44")
@pytest.mark.parametrize("name", PUTS)
@pytest.mark.parametrize("known", [False, True], ids=["new", "known"])
def test_a_put_that_failed_is_readable_whole_or_not_at_all(
    stage: Stage, name: str, known: bool
) -> None:
    content = SMALL if name == "small" else LARGE
    id = stage.store.attachments.put("other", content).id

    def prepare(store: Any) -> None:
        if known:
            store.attachments.put("other", content)

    outcomes = []
    for done in _at_every_moment(stage, prepare, PUTS[name]):
        outcomes.append(done)
        found = _reads(stage.store, id)
        assert found in (None, content)
        assert not done or found == content
        stage.store.attachments.delete("s1", id)
        stage.store.attachments.delete("other", id)
        _is_swept(stage)

    assert outcomes.count(False) > 4
    assert outcomes[-1]


def test_a_store_that_was_not_named_at_first_has_one_name_afterwards(stage: Stage) -> None:
    outcomes = []
    for done in _at_every_moment(stage, lambda _: None, name_store):
        outcomes.append(done)
        assert name_store(stage.store) == name_store(stage.store)

    assert outcomes.count(False) > 1
    assert outcomes[-1]


def test_a_put_whose_source_broke_leaves_nothing_to_read(stage: Stage) -> None:
    outcomes = []
    for done in _at_every_moment(stage, lambda _: None, put_broken):
        outcomes.append(done)
        left = stage.dump()
        assert (left["attachment"], left["attachment_bytes"]) == ([], [])
        _is_swept(stage)

    assert outcomes.count(False) > 4
    assert outcomes[-1]


HELD = b"held"


def prepare_sweep(store: Any) -> None:
    """Bytes that are referred to, and bytes that only an intent is for."""
    id = store.attachments.put("s1", HELD).id
    store.attachments.commit_refs("s1", [id])
    for content in (b"gone", LARGE):
        store.attachments.put("s1", content)


def sweep(store: Any) -> None:
    """Reclaim what nobody refers to."""
    store.maintenance.reclaim_attachments(0)


@pytest.mark.invariant("INV-46")
def test_a_sweep_that_failed_took_nothing_that_is_referred_to(stage: Stage) -> None:
    def prepare(store: Any) -> None:
        prepare_sweep(store)
        stage.world.clock.advance(1)

    failed = 0
    for done in _at_every_moment(stage, prepare, sweep):
        failed += not done
        (id, *_) = [row[1] for row in stage.dump()["attachment"] if row[4] is not None]
        assert _reads(stage.store, id) == HELD
        stage.store.attachments.delete("s1", id)
        _is_swept(stage)

    assert failed > 4
