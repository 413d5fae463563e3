"""What other processes do in the tests of the contract; each is given an open store."""

from __future__ import annotations

import itertools
import json
import os
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import holdfast
from holdfast import HoldfastError
from holdfast.testing.calm import Calm, Loop
from holdfast.testing.contract.catalogue import BY_ID, BY_RECORD, EVERY, on_view
from holdfast.testing.contract.lanes import work
from holdfast.testing.contract.samples import chain, create, path_ids, put
from holdfast.testing.contract.whole import full, shown, shows_nothing

#: The exit status of a process that ended as if it had been killed.
DEAD = 77


def create_one(store: Any, session_id: str) -> str:
    """Make a session known."""
    name: str = create(store, session_id).session_id
    return name


def write_and_die(store: Any) -> None:
    """Commit, and end without closing anything."""
    put(store, "s1", graph=chain("a"))
    os._exit(DEAD)


def read_path(store: Any, session_id: str) -> list[str]:
    """The node ids of a session's path."""
    return path_ids(store, session_id)


def enqueue_in_portions(store: Any, who: str, count: int, portion: int, size: int) -> None:
    """Put so many batches of a size into one queue, some at a time."""
    for first in range(0, count, portion):
        numbers = range(first, first + portion)
        payloads = [
            {"type": "x", "name": f"{who}-{number}", "text": "x" * size} for number in numbers
        ]
        store.queue.enqueue_many([work(payloads=[payload]) for payload in payloads])


def fork_and_try_everything(store: Any) -> tuple[dict[str, str], list[str]]:
    """What every operation answers in a forked process, and the path read here afterwards."""
    put(store, "s1", graph=chain("a"))
    view = store.session("s1")
    view.load()
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        answers = _answers(_in_this_process(store), _in_this_process(view))
        os.write(writing, json.dumps(answers).encode())
        os._exit(0)
    os.close(writing)
    with open(reading, "rb") as answered:
        answers = json.loads(answered.read())
    assert os.waitpid(child, 0) == (child, 0)
    put(store, "s1", graph=chain("b"))
    return answers, path_ids(store)


def _in_this_process(face: Any) -> Any:
    """The same face; the thread of its loop is not there after a fork."""
    return Calm(face._target, Loop()) if isinstance(face, Calm) else face


def _answers(store: Any, view: Any) -> dict[str, str]:
    found = {name: _answer(lambda: operation(store, "s1")) for name, operation in EVERY.items()}  # noqa: B023
    for name in (*BY_ID, *BY_RECORD):
        found[f"view.{name}"] = _answer(lambda: on_view(view, name))  # noqa: B023
    store.close()
    return found


def _answer(call: Callable[[], Any]) -> str:
    try:
        call()
    except HoldfastError as error:
        return f"{error.code} {getattr(error, 'reason', '')}"
    return "answered"


def die_in_every_deletion(store: Any, url: str, settings: dict[str, Any]) -> list[tuple[str, str]]:
    """How each of a row of processes ended that deleted a session, and what it left of it.

    The n-th dies at the n-th moment, before or after a statement; the last one does not.
    """
    store.close()  # nothing of it may be open in the processes that follow
    found: list[tuple[str, str]] = []
    for moment in itertools.count():
        with reopened(store, url, settings) as own:
            if shows_nothing(own):
                full(own)
            before = shown(own)
        status = status_of(lambda: _delete_and_die(store, url, settings, moment))  # noqa: B023
        assert status in (0, DEAD)
        died = status == DEAD
        with reopened(store, url, settings) as own:
            left = "none" if shows_nothing(own) else "all"
            assert left == "none" or shown(own) == before
        found.append(("cut" if died else "ended", left))
        if not died:
            break
    return found


def _delete_and_die(store: Any, url: str, settings: dict[str, Any], moment: int) -> None:
    moments = itertools.count()

    def die(_name: str, _when: str) -> None:
        if next(moments) == moment:
            os._exit(DEAD)

    with reopened(store, url, settings) as own:
        real(own)._core.backend.on_statement = die
        own.sessions.delete("s1")


def status_of(action: Callable[[], None]) -> int:
    """The exit status of a forked process that did something; 1 if that failed."""
    child = os.fork()
    if not child:
        try:
            action()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def real(store: Any) -> Any:
    """The store object itself."""
    return store._target.blocking if isinstance(store, Calm) else store


@contextmanager
def reopened(store: Any, url: str, settings: dict[str, Any]) -> Iterator[Any]:
    """A store of its own, in the colour of this one."""
    with holdfast.open(url, **settings) as own:
        yield Calm(own.aio, Loop()) if isinstance(store, Calm) else own
