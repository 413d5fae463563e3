"""Attachments on the face: procedures and operations, in both colours, by id and on a view."""

from __future__ import annotations

import abc
import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from functools import partial
from types import MethodType
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, overload

from holdfast.attachments import sessions
from holdfast.attachments.backend import ByteBackend
from holdfast.attachments.binding import Scope, owner_in, scopes_in_force
from holdfast.attachments.port import Here, Port, drawn
from holdfast.core import Core
from holdfast.engine import Work, prepared
from holdfast.errors import StoreClosed
from holdfast.face import (
    A,
    Aio,
    Area,
    Blocking,
    Bound,
    ById,
    C,
    Descriptor,
    SessionArea,
    SessionVerb,
    StoreVerb,
    Verb,
    addressed,
    on_session,
    operation,
)
from holdfast.model.values import Durability
from holdfast.operations import attachments as manifest
from holdfast.operations.address import Address
from holdfast.rules import attachments as rules
from holdfast.rules import checks
from holdfast.rules.attachments import Owner
from holdfast.transaction import Done, Mode, Steps, run_blocking
from holdfast.waiting import settled

P = ParamSpec("P")
T = TypeVar("T")

log = logging.getLogger("holdfast")


class _StorePort(abc.ABC):
    """A store, and the scopes in which it was called."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._scopes = scopes_in_force()

    def owner_at(self, session_id: str) -> Owner:
        """Who owns what the caller puts."""
        return owner_in(self._scopes, self._core, session_id)

    async def run(self, operation: Callable[..., Steps[T]], *args: Any, **kwargs: Any) -> T:
        """An operation on the store as a whole."""
        work = prepared(operation, self._core.settings, *args, **kwargs)
        return work.value if isinstance(work, Done) else await self._finish(work)

    async def run_on(
        self, at: Address, operation: Callable[..., Steps[T]], *args: Any, **kwargs: Any
    ) -> T:
        """An operation on a session."""
        result = await self.run(operation, at, *args, **kwargs)
        at.settle()
        return result

    async def introduce(self, backend: ByteBackend) -> None:
        """Let a byte backend know, once, that the store keeps bytes there."""
        core = self._core
        # A name that outlived its store would bar everybody else from sweeping.
        leaves = (core.backend.tier, backend.persistence) == (Durability.INLINE, Durability.DURABLE)
        if core.introduced or leaves or not backend.shareable:
            return
        name = await self.run(manifest.store_name)
        await self.call(partial(backend.join, name))
        core.introduced = True

    @abc.abstractmethod
    async def call(self, task: Callable[[], T]) -> T: ...

    @abc.abstractmethod
    async def _finish(self, work: Work[T]) -> T: ...


class BlockingPort(Here, _StorePort):
    """Everything where the caller stands."""

    async def admit(self, name: str) -> None:
        """Open the store, and refuse to write where nothing may be written."""
        self._core.admit(name, Mode.WRITE)

    async def _finish(self, work: Work[T]) -> T:
        return self._core.run(work)


class AioPort(_StorePort):
    """Everything on threads of the store, a step at a time."""

    aio = True

    async def call(self, task: Callable[[], T]) -> T:
        """Do something that may block."""
        return await settled(self._core.start_beside(task), self._core.settings.wait_ms)

    async def draw(self, task: Callable[[], T]) -> T:
        """Do something that may wait for a source of the caller's."""
        return await settled(self._core.start_drawing(task), self._core.settings.wait_ms)

    async def undo(self, task: Callable[[], None]) -> None:
        """Do it also when the caller is cancelled before it has begun."""
        try:
            begun = self._core.start_beside(task)
            try:
                await settled(begun, self._core.settings.wait_ms)
            except asyncio.CancelledError:
                if begun.cancelled():
                    self._core.start_beside(task)
                raise
        except StoreClosed:
            log.warning("the store was closed; what was being put is left to the sweep")

    async def admit(self, name: str) -> None:
        """Open the store, and refuse to write where nothing may be written."""
        await self._core.admitted(name, Mode.WRITE)

    async def _finish(self, work: Work[T]) -> T:
        return await self._core.wait(work)


def _port(area: Area[Any]) -> Port:
    return AioPort(area._core) if area._aio else BlockingPort(area._core)


def _begun(
    verb: Descriptor,
    port: Port,
    area: SessionArea[Any, Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    """What every procedure on a session begins with."""
    at, rest = addressed(area._at, args, kwargs)
    return verb._operation(port, area._core.bytes, at, *rest, **kwargs)


class procedure(SessionVerb[P, T]):
    """A procedure on one session, which may take many steps."""

    def __init__(
        self, function: Callable[Concatenate[Port, ByteBackend, Address, P], Coroutine[Any, Any, T]]
    ) -> None:
        super().__init__(function, hidden=3)

    def _ask(self, area: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        # The port is made now, since its scopes are the caller's of this moment.
        begin = partial(_begun, self, _port(area), area, args, kwargs)
        return _later(begin) if area._aio else run_blocking(begin())


async def _later(begin: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """An asyncio caller meets every error when it awaits."""
    return await begin()


class streaming(Verb, Generic[P, T]):
    """A procedure on one session whose answer comes in pieces."""

    def __init__(
        self, function: Callable[Concatenate[Port, ByteBackend, Address, P], AsyncIterator[T]]
    ) -> None:
        super().__init__(function, hidden=3)

    @overload
    def __get__(self, area: None, owner: type) -> streaming[P, T]: ...
    @overload
    def __get__(
        self, area: SessionArea[Blocking, ById], owner: type
    ) -> Callable[Concatenate[str, P], Iterator[T]]: ...
    @overload
    def __get__(
        self, area: SessionArea[Aio, ById], owner: type
    ) -> Callable[Concatenate[str, P], AsyncIterator[T]]: ...
    @overload
    def __get__(
        self, area: SessionArea[Blocking, Bound], owner: type
    ) -> Callable[P, Iterator[T]]: ...
    @overload
    def __get__(
        self, area: SessionArea[Aio, Bound], owner: type
    ) -> Callable[P, AsyncIterator[T]]: ...
    def __get__(self, area: SessionArea[Any, Any] | None, owner: type) -> Any:
        return self if area is None else MethodType(self, area)

    def _ask(self, area: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        pieces = _begun(self, _port(area), area, args, kwargs)
        return pieces if area._aio else drawn(pieces)


class sweeping_lever(StoreVerb[P, T]):
    """A lever on the store and a byte backend."""

    def __init__(
        self,
        function: Callable[
            Concatenate[Port, ByteBackend, Callable[[int], int], P], Coroutine[Any, Any, T]
        ],
    ) -> None:
        super().__init__(function, hidden=3)

    def _ask(self, area: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        core = area._core
        reconcile = partial(manifest.forget_aged_intents, core.run, core.settings)
        begin = partial(self._operation, _port(area), core.bytes, reconcile, *args, **kwargs)
        return _later(begin) if area._aio else run_blocking(begin())


class AttachmentVerbs(SessionArea[C, A], Generic[C, A]):
    """What can be done with a session's attachments."""

    put = procedure(sessions.put)
    get = procedure(sessions.get)
    stream = streaming(sessions.stream)
    delete = on_session(manifest.forget)
    holds = on_session(manifest.holds)
    record_intent = on_session(manifest.record_intent)
    commit_refs = on_session(manifest.commit_refs)

    def bind_turn(self, turn_id: str) -> Scope:
        """Until the `with` ends, what this task puts is owned by a turn, and stamped with it."""
        return self._bind("turn", turn_id)

    def bind_process(self, process_id: str) -> Scope:
        """Until the `with` ends, what this task puts is owned by a process."""
        return self._bind("process", process_id)

    def _bind(self, kind: str, id: str) -> Scope:
        session_id = self._at.session_id if self._at else None
        return Scope(self._core, session_id, rules.owner(kind, checks.identifier(id, f"{kind}_id")))


class Attachments(AttachmentVerbs[C, ById]):
    """Files of the store's sessions, each call naming its session."""

    list_uncommitted = operation(manifest.list_uncommitted)
    list_refs = operation(manifest.list_refs)
    is_live = operation(manifest.is_live)
    live_refs = operation(manifest.live_refs)


class SessionAttachments(AttachmentVerbs[C, Bound]):
    """Files of one session.

    >>> import holdfast
    >>> with holdfast.open("sqlite://") as store:
    ...     files = store.session("chat-1").attachments
    ...     with files.bind_turn("turn-1"):
    ...         notes = files.put(b"some bytes", media_type="text/plain", label="notes.txt")
    ...     (notes.byte_len, files.get(notes.id), b"".join(files.stream(notes.id)))
    (10, b'some bytes', b'some bytes')
    """
