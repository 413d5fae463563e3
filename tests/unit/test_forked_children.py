"""What a forked child may do with files that its parent has open (FAC-20)."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable
from pathlib import Path

import pytest

import holdfast
from holdfast import SessionCreate, StoreClosed

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")


def in_child(task: Callable[[], None]) -> bool:
    """Whether a task succeeds in a forked child."""
    child = os.fork()
    if not child:
        try:
            task()
        except BaseException:
            os._exit(1)
        os._exit(0)
    return os.waitpid(child, 0)[1] == 0


def url(folder: Path, name: str) -> str:
    return f"sqlite:///{folder / name}"


def use(target: str) -> None:
    with holdfast.open(target) as store:
        store.sessions.create(SessionCreate(session_id="s1"))


def refuse(target: str) -> None:
    with pytest.raises(StoreClosed) as refused:
        holdfast.open(target).open()
    assert refused.value.reason == "forked"


def test_a_file_that_the_parent_has_open_is_refused(tmp_path: Path) -> None:
    """A connection of the child's would believe that it holds the parent's locks."""
    link = tmp_path / "link.db"
    with holdfast.open(url(tmp_path, "a.db")):
        link.symlink_to(tmp_path / "a.db")
        assert in_child(lambda: refuse(url(tmp_path, "a.db")))
        assert in_child(lambda: refuse(url(tmp_path, "link.db")))
        assert in_child(lambda: in_child(lambda: refuse(url(tmp_path, "a.db"))) or os._exit(1))


def test_another_file_is_not(tmp_path: Path) -> None:
    with holdfast.open(url(tmp_path, "a.db")):
        assert in_child(lambda: use(url(tmp_path, "b.db")))


def test_a_file_that_the_parent_closed_is_not(tmp_path: Path) -> None:
    use(url(tmp_path, "a.db"))

    assert in_child(lambda: use(url(tmp_path, "a.db")))


def test_a_spawned_process_opens_what_its_parent_has_open(tmp_path: Path) -> None:
    with holdfast.open(url(tmp_path, "a.db")) as store:
        child = multiprocessing.get_context("spawn").Process(
            target=use, args=(url(tmp_path, "a.db"),)
        )
        child.start()
        child.join()
        assert [found.session_id for found in store.sessions.list().sessions] == ["s1"]
