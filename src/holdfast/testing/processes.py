"""Other operating-system processes that use a world's database.

A child opens a store of its own, in the colour of the world and with its clock standing where
the world's stood, says that it is ready, and runs a function of an importable module once it is
let go. Arguments and results travel as JSON.
"""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import msgspec

import holdfast
from holdfast.testing.calm import Calm, Loop
from holdfast.testing.clock import ManualClock
from holdfast.testing.world import World

_READY = b"ready\n"


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """What a child is told to do."""

    colour: str
    url: str
    settings: dict[str, Any]
    now_ms: int
    module: str
    function: str
    arguments: list[Any]


class Child:
    """A started process; it waits to be let go."""

    def __init__(self, order: Order) -> None:
        paths = os.pathsep.join(path for path in sys.path if path)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "holdfast.testing.processes"],
            env=os.environ | {"PYTHONPATH": paths},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert self._process.stdin is not None
        self._process.stdin.write(msgspec.json.encode(order) + b"\n")
        self._process.stdin.flush()

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def await_ready(self) -> None:
        """Wait until its store is open."""
        assert self._process.stdout is not None
        if self._process.stdout.readline() != _READY:
            raise RuntimeError(self._process.communicate()[1].decode(errors="replace"))

    def go(self) -> None:
        """Let it run its function."""
        assert self._process.stdin is not None
        self._process.stdin.write(b"go\n")
        self._process.stdin.flush()

    def result(self) -> Any:
        """What its function returned, once it has ended."""
        answer, complaint = self._process.communicate()
        if self._process.returncode != 0:
            raise RuntimeError(complaint.decode(errors="replace"))
        return msgspec.json.decode(answer)

    def await_death(self) -> int:
        """Wait until it has ended, however that happens; its exit status."""
        self._process.communicate()
        return self._process.returncode

    def kill(self) -> None:
        """End it, as the power would, unless it has ended."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.communicate()


def spawn(world: World, function: Callable[..., Any], *arguments: Any, **settings: Any) -> Child:
    """Start a process that will call `function(store, *arguments)`.

    It sees the world's database, unless that is in memory: then it has one of its own.
    """
    if world.is_server:
        settings.setdefault("schema", world.schema)
    order = Order(
        colour=world.colour,
        url=world.url,
        settings=settings,
        now_ms=world.clock.now_ms(),
        module=function.__module__,
        function=function.__qualname__,
        arguments=list(arguments),
    )
    child = Child(order)
    world.defer(child.kill)
    return child


def together(*children: Child) -> list[Any]:
    """Let all of them go at once; what their functions returned."""
    for child in children:
        child.await_ready()
    for child in children:
        child.go()
    return [child.result() for child in children]


def _obey(order: Order) -> Any:
    function = getattr(importlib.import_module(order.module), order.function)
    clock = ManualClock(order.now_ms)
    with holdfast.open(order.url, clock=clock, **order.settings) as store:
        face: Any = Calm(store.aio, Loop()) if order.colour == "async" else store
        sys.stdout.buffer.write(_READY)
        sys.stdout.flush()
        sys.stdin.buffer.readline()
        return function(face, *order.arguments)


if __name__ == "__main__":
    found = _obey(msgspec.json.decode(sys.stdin.buffer.readline(), type=Order))
    sys.stdout.buffer.write(msgspec.json.encode(found))
