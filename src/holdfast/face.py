"""From operations to methods: each is listed once and has both colours, fully typed.

An area is a class with one line per operation. Its colour, blocking or asyncio, is a type
parameter of the instance, and so is its addressing: `store.sessions` takes a session id first
where no other argument carries one, the bound view `store.session(id)` never does. The
descriptors below turn these two choices into the right signature, for the reader's type checker
as for the interpreter; nothing is generated.
"""

from __future__ import annotations

import abc
import inspect
from collections.abc import Callable, Coroutine
from functools import update_wrapper
from types import MethodType
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, Self, TypeVar, overload

from holdfast.core import Core
from holdfast.engine import Work
from holdfast.operations.address import Address
from holdfast.operations.levers import Run
from holdfast.settings import Settings
from holdfast.transaction import Done, Mode, Steps, Transaction, mode_of

P = ParamSpec("P")
T = TypeVar("T")
C = TypeVar("C", bound="Colour")
A = TypeVar("A", bound="Addressing")

#: Checks an operation's arguments; raises, or says what to run and on which session.
Begin = Callable[[], "tuple[Work[Any] | Done, Address | None]"]


class Colour:
    """How a caller waits."""


class Blocking(Colour):
    """On its thread."""


class Aio(Colour):
    """In its event loop."""


class Addressing:
    """How a session is named."""


class ById(Addressing):
    """By its id, in every call."""


class Bound(Addressing):
    """Once, by making the view."""


class Area(Generic[C]):
    """A group of operations on a store, in one colour."""

    def __init__(self, core: Core, *, aio: bool) -> None:
        self._core = core
        self._aio = aio

    def _finish(self, begin: Begin) -> Any:
        """Check the arguments, then run; an asyncio caller meets every error when it awaits."""
        return self._await(begin) if self._aio else self._block(begin)

    def _block(self, begin: Begin) -> Any:
        self._core.check_alive()
        work, at = begin()
        result = work.value if isinstance(work, Done) else self._core.run(work)
        if at is not None:
            at.settle()
        return result

    async def _await(self, begin: Begin) -> Any:
        self._core.check_alive()
        work, at = begin()
        result = work.value if isinstance(work, Done) else await self._core.wait(work)
        if at is not None:
            at.settle()
        return result


class SessionArea(Area[C], Generic[C, A]):
    """Operations on sessions, addressed by id or through a bound view."""

    def __init__(self, core: Core, *, aio: bool, at: Address | None = None) -> None:
        super().__init__(core, aio=aio)
        self._at = at

    @property
    def _address(self) -> Address:
        assert self._at is not None, "only a bound area has an address"
        return self._at


class Descriptor:
    """What `help` shows: the operation's own documentation and signature."""

    def __init__(self, operation: Callable[..., Any], hidden: int) -> None:
        update_wrapper(self, operation, updated=())  # type: ignore[arg-type]
        parameters = list(inspect.signature(operation).parameters.values())[hidden:]
        area = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
        self.__signature__ = inspect.Signature([area, *parameters])
        self._operation = operation
        self._name: str = operation.__name__

    def _work(self, core: Core, *args: Any, **kwargs: Any) -> Work[Any] | Done:
        steps: Steps[Any] = self._operation(core.settings, *args, **kwargs)
        if isinstance(steps, Done):
            return steps
        mode = mode_of(self._operation)

        async def start(tx: Transaction) -> Any:
            result = await steps(tx)
            self._on_success(tx, core, result)
            return result

        extra = (getattr(steps, name, None) for name in ("reconsider", "probe"))
        return Work(self._name, mode, start, *extra)

    def _on(
        self, core: Core, bound: Address | None, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[Work[Any] | Done, Address]:
        """The work of an operation on one session, and the session's address."""
        at, rest = addressed(bound, args, kwargs)
        return self._work(core, at, *rest, **kwargs), at

    def _on_success(self, tx: Transaction, core: Core, result: Any) -> None:
        """Hook for operations whose success is noticed elsewhere."""


def addressed(
    bound: Address | None, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Address, tuple[Any, ...]]:
    """The session of a call, which a view brings along, and the arguments that are left."""
    if bound is not None:
        return bound.visit(), args
    if "session_id" in kwargs:
        return Address(kwargs.pop("session_id")), args
    if not args:
        raise TypeError("session_id is missing")
    return Address(args[0]), args[1:]


class Verb(Descriptor, abc.ABC):
    """What is bound to an area as a function is to an object."""

    def __call__(self, area: Any, *args: Any, **kwargs: Any) -> Any:
        """The answer, or in asyncio what to await for it."""
        return self._ask(area, args, kwargs)

    @abc.abstractmethod
    def _ask(self, area: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any: ...


class StoreVerb(Verb, Generic[P, T]):
    """Something to ask of the store as a whole."""

    @overload
    def __get__(self, area: None, owner: type) -> Self: ...
    @overload
    def __get__(self, area: Area[Blocking], owner: type) -> Callable[P, T]: ...
    @overload
    def __get__(self, area: Area[Aio], owner: type) -> Callable[P, Coroutine[Any, Any, T]]: ...
    def __get__(self, area: Area[Any] | None, owner: type) -> Any:
        return self if area is None else MethodType(self, area)


class SessionVerb(Verb, Generic[P, T]):
    """Something to ask of one session, named by id unless the area is bound."""

    @overload
    def __get__(self, area: None, owner: type) -> Self: ...
    @overload
    def __get__(
        self, area: SessionArea[Blocking, ById], owner: type
    ) -> Callable[Concatenate[str, P], T]: ...
    @overload
    def __get__(
        self, area: SessionArea[Aio, ById], owner: type
    ) -> Callable[Concatenate[str, P], Coroutine[Any, Any, T]]: ...
    @overload
    def __get__(self, area: SessionArea[Blocking, Bound], owner: type) -> Callable[P, T]: ...
    @overload
    def __get__(
        self, area: SessionArea[Aio, Bound], owner: type
    ) -> Callable[P, Coroutine[Any, Any, T]]: ...
    def __get__(self, area: SessionArea[Any, Any] | None, owner: type) -> Any:
        return self if area is None else MethodType(self, area)


class operation(StoreVerb[P, T]):
    """An operation on the store as a whole."""

    def __init__(self, function: Callable[Concatenate[Settings, P], Steps[T]]) -> None:
        super().__init__(function, hidden=1)

    def _ask(self, area: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return area._finish(lambda: (self._work(area._core, *args, **kwargs), None))


class on_session(SessionVerb[P, T]):
    """An operation on one session."""

    def __init__(self, function: Callable[Concatenate[Settings, Address, P], Steps[T]]) -> None:
        super().__init__(function, hidden=2)

    def _ask(self, area: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return area._finish(lambda: self._on(area._core, area._at, args, kwargs))


class _Carrier(Protocol):
    """A record that says which session it is of."""

    @property
    def session_id(self) -> str: ...


R = TypeVar("R", bound=_Carrier)


class carried(Verb, Generic[R, P, T]):
    """An operation whose first argument says which session it is about."""

    def __init__(self, function: Callable[Concatenate[Settings, Address, R, P], Steps[T]]) -> None:
        super().__init__(function, hidden=2)

    @overload
    def __get__(self, area: None, owner: type) -> carried[R, P, T]: ...
    @overload
    def __get__(
        self, area: SessionArea[Blocking, Any], owner: type
    ) -> Callable[Concatenate[R, P], T]: ...
    @overload
    def __get__(
        self, area: SessionArea[Aio, Any], owner: type
    ) -> Callable[Concatenate[R, P], Coroutine[Any, Any, T]]: ...
    def __get__(self, area: SessionArea[Any, Any] | None, owner: type) -> Any:
        return self if area is None else MethodType(self, area)

    def _ask(self, area: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        def begin() -> tuple[Work[Any] | Done, Address]:
            # What is no such record is for the operation to refuse.
            at = area._at.visit() if area._at else Address(getattr(args[0], "session_id", "?"))
            return self._work(area._core, at, *args, **kwargs), at

        if not args:
            raise TypeError(f"{self._name} needs its record as the first argument")
        return area._finish(begin)


class committing(carried[R, P, T]):
    """A commit, which may be followed by an automatic collection (GCX-7)."""

    def _on_success(self, tx: Transaction, core: Core, result: Any) -> None:
        if not result.replayed and core.collector.wants(result.head_revision):
            tx.after_commit(core.collector.collect)


class lever(StoreVerb[P, T]):
    """A lever on the whole store: a row of transactions, one call."""

    def __init__(self, function: Callable[Concatenate[Run, Settings, P], T]) -> None:
        super().__init__(function, hidden=2)

    def _ask(self, area: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        core = area._core

        def pull() -> Any:
            core.admit(self._name, Mode.WRITE)
            return self._operation(core.run, core.settings, *args, **kwargs)

        return core.aside(pull) if area._aio else pull()


class session_lever(SessionVerb[P, T]):
    """A lever on one session."""

    def __init__(self, function: Callable[Concatenate[Run, Settings, Address, P], T]) -> None:
        super().__init__(function, hidden=3)

    def _ask(self, area: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        core = area._core

        def pull() -> Any:
            at, rest = addressed(area._at, args, kwargs)
            core.admit(self._name, Mode.WRITE)
            result = self._operation(core.run, core.settings, at, *rest, **kwargs)
            at.settle()
            return result

        return core.aside(pull) if area._aio else pull()
