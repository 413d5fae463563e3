"""The face: a store, its areas and its bound views, every operation listed once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from types import MethodType, TracebackType
from typing import Any, Concatenate, Generic, overload

from holdfast.attachment_area import Attachments, SessionAttachments, sweeping_lever
from holdfast.attachments import sweeping
from holdfast.core import Core
from holdfast.face import (
    A,
    Aio,
    Area,
    Blocking,
    Bound,
    ById,
    C,
    P,
    SessionArea,
    Verb,
    carried,
    committing,
    lever,
    on_session,
    operation,
    session_lever,
)
from holdfast.model.leases import LeaseOwner, LeaseTimings
from holdfast.model.values import Durability
from holdfast.operations import (
    attachments,
    blobs,
    commits,
    forks,
    inputs,
    leases,
    levers,
    listing,
    queue,
    reading,
    sessions,
    stamps,
    tombstones,
)
from holdfast.operations.address import Address
from holdfast.rules import checks
from holdfast.runtime.guard import AsyncGuard, Guard
from holdfast.settings import Settings
from holdfast.transaction import Steps
from holdfast.waiting import unhurried


def _shown(area: SessionVerbs[Any, Any], found: Any) -> Any:
    return _shown_later(area, found) if area._aio else area._view(found)


async def _shown_later(
    area: SessionVerbs[Any, Any], found: Coroutine[Any, Any, Address | None]
) -> Any:
    return area._view(await found)


class making(Verb, Generic[P]):
    """An operation whose answer is a bound view."""

    def __init__(self, function: Callable[Concatenate[Settings, P], Steps[Address]]) -> None:
        super().__init__(function, hidden=1)

    @overload
    def __get__(self, area: None, owner: type) -> making[P]: ...
    @overload
    def __get__(
        self, area: Sessions[Blocking], owner: type
    ) -> Callable[P, SessionView[Blocking]]: ...
    @overload
    def __get__(
        self, area: Sessions[Aio], owner: type
    ) -> Callable[P, Coroutine[Any, Any, SessionView[Aio]]]: ...
    def __get__(self, area: Sessions[Any] | None, owner: type) -> Any:
        return self if area is None else MethodType(self, area)

    def _ask(self, area: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return _shown(area, area._finish(lambda: (self._work(area._core, *args, **kwargs), None)))


class finding(Verb, Generic[P]):
    """As `making`, where there may be nothing to view."""

    def __init__(self, function: Callable[Concatenate[Settings, P], Steps[Address | None]]) -> None:
        super().__init__(function, hidden=1)

    @overload
    def __get__(self, area: None, owner: type) -> finding[P]: ...
    @overload
    def __get__(
        self, area: Sessions[Blocking], owner: type
    ) -> Callable[P, SessionView[Blocking] | None]: ...
    @overload
    def __get__(
        self, area: Sessions[Aio], owner: type
    ) -> Callable[P, Coroutine[Any, Any, SessionView[Aio] | None]]: ...
    def __get__(self, area: Sessions[Any] | None, owner: type) -> Any:
        return self if area is None else MethodType(self, area)

    def _ask(self, area: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return _shown(area, area._finish(lambda: (self._work(area._core, *args, **kwargs), None)))


class forking(Verb, Generic[P]):
    """An operation on one session whose answer is a view of another, or none."""

    def __init__(
        self, function: Callable[Concatenate[Settings, Address, P], Steps[Address | None]]
    ) -> None:
        super().__init__(function, hidden=2)

    @overload
    def __get__(self, area: None, owner: type) -> forking[P]: ...
    @overload
    def __get__(
        self, area: SessionVerbs[Blocking, ById], owner: type
    ) -> Callable[Concatenate[str, P], SessionView[Blocking] | None]: ...
    @overload
    def __get__(
        self, area: SessionVerbs[Aio, ById], owner: type
    ) -> Callable[Concatenate[str, P], Coroutine[Any, Any, SessionView[Aio] | None]]: ...
    @overload
    def __get__(
        self, area: SessionVerbs[Blocking, Bound], owner: type
    ) -> Callable[P, SessionView[Blocking] | None]: ...
    @overload
    def __get__(
        self, area: SessionVerbs[Aio, Bound], owner: type
    ) -> Callable[P, Coroutine[Any, Any, SessionView[Aio] | None]]: ...
    def __get__(self, area: SessionVerbs[Any, Any] | None, owner: type) -> Any:
        return self if area is None else MethodType(self, area)

    def _ask(self, area: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return _shown(area, area._finish(lambda: self._on(area._core, area._at, args, kwargs)))


class SessionVerbs(SessionArea[C, A], Generic[C, A]):
    """What can be done with one session."""

    commit = committing(commits.commit)
    commit_with_fresh_lease = committing(commits.commit_with_fresh_lease)
    load = on_session(reading.load)
    load_node = on_session(reading.load_node)
    list_nodes = on_session(reading.list_nodes)
    load_turn_commit = on_session(stamps.load_turn_commit)
    load_meta = on_session(sessions.load_meta)
    save_meta = carried(sessions.save_meta)
    update_labels = on_session(sessions.update_labels)
    picker_info = on_session(sessions.picker_info)
    tombstone = on_session(tombstones.tombstone)
    claim_lease = on_session(leases.claim_lease)
    reclaim_lease = carried(leases.reclaim_lease)
    renew_lease = carried(leases.renew_lease)
    release_lease = carried(leases.release_lease)
    lease = on_session(leases.lease)
    vacuum = session_lever(levers.vacuum_session)
    prune_turn_commits = session_lever(levers.prune_session_turns)
    prune_settled_source_keys = session_lever(levers.prune_session_receipts)
    fork = forking(forks.fork)
    delete = on_session(sessions.delete)

    def _view(self, at: Address | None) -> SessionView[C] | None:
        return None if at is None else SessionView(self._core, aio=self._aio, at=at)


class Sessions(SessionVerbs[C, ById]):
    """Sessions of the store, each call naming its session."""

    create = making(sessions.create)
    open = finding(sessions.find)
    list = operation(listing.list_sessions)
    find_path = operation(reading.find_path)


class QueueVerbs(SessionArea[C, A], Generic[C, A]):
    """What can be done with the queued work of one session."""

    enqueue = carried(queue.enqueue)
    list = on_session(queue.list_work)
    list_pending = on_session(queue.list_pending)
    cancel = on_session(queue.cancel)
    claim = carried(queue.claim)
    claim_command = carried(queue.claim_command)
    claim_exactly = carried(queue.claim_exactly)
    claim_at_checkpoint = carried(inputs.claim_at_checkpoint)
    abandon = carried(queue.abandon)


class Queue(QueueVerbs[C, ById]):
    """Queued work of any session."""

    enqueue_many = operation(queue.enqueue_many)
    abandon_many = operation(queue.abandon_many)
    ready_sessions = operation(queue.ready_sessions)
    next_ready_at_ms = operation(queue.next_ready_at_ms)


class InputVerbs(SessionArea[C, A], Generic[C, A]):
    """What can be done with the turn inputs of one session."""

    enqueue = carried(inputs.enqueue)
    list = on_session(inputs.list_inputs)
    list_pending = on_session(inputs.list_pending)
    cancel = on_session(inputs.cancel)
    cancel_suffix = on_session(inputs.cancel_suffix)
    claim_active = carried(inputs.claim_active)
    claim_next = carried(inputs.claim_next)
    abandon = carried(inputs.abandon)
    recover_orphaned = carried(inputs.recover_orphaned)


class Inputs(InputVerbs[C, ById]):
    """Turn inputs of any session."""

    abandon_many = operation(inputs.abandon_many)


class SessionView(SessionVerbs[C, Bound]):
    """One session, named once; it notices when its session is deleted.

    >>> import holdfast
    >>> with holdfast.open("sqlite://") as store:
    ...     view = store.session("chat-1")
    ...     view.load() is None
    True
    """

    def __init__(self, core: Core, *, aio: bool, at: Address) -> None:
        super().__init__(core, aio=aio, at=at)
        # They share the address, and with it what the view knows of its session's incarnation.
        self.queue: QueueVerbs[C, Bound] = QueueVerbs(core, aio=aio, at=at)
        self.inputs: InputVerbs[C, Bound] = InputVerbs(core, aio=aio, at=at)

    @property
    def session_id(self) -> str:
        """The session this view is bound to."""
        return self._address.session_id

    @property
    def durability_tier(self) -> Durability:
        """Whether acknowledged writes survive this process."""
        return self._core.backend.tier

    @property
    def attachments(self) -> SessionAttachments[C]:
        """The session's files."""
        return SessionAttachments(self._core, aio=self._aio, at=self._address)

    @overload
    def guard(
        self: SessionView[Blocking],
        owner: LeaseOwner,
        timings: LeaseTimings | None = None,
        *,
        on_lost: Callable[[Exception], None] | None = None,
    ) -> Guard: ...
    @overload
    def guard(
        self: SessionView[Aio], owner: LeaseOwner, timings: LeaseTimings | None = None
    ) -> AsyncGuard: ...
    def guard(
        self,
        owner: LeaseOwner,
        timings: LeaseTimings | None = None,
        *,
        on_lost: Callable[[Exception], None] | None = None,
    ) -> Guard | AsyncGuard:
        """Hold the session's lease, renewed in the background, for the length of a `with`.

        An asyncio turn that loses it is cancelled; a blocking one is told by `on_lost`.
        """
        timings = checks.record(
            timings or self._core.settings.lease_timings, LeaseTimings, "timings"
        )
        checks.record(owner, LeaseOwner, "owner")
        if self._aio:
            return AsyncGuard(self, owner, timings)
        return Guard(self, owner, timings, on_lost)


class Blobs(Area[C]):
    """Bytes under their hash."""

    put = operation(blobs.put_blob)
    get = operation(blobs.get_blob)
    has = operation(blobs.has_blob)


class Artifacts(Area[C]):
    """Names that keep bytes alive."""

    put = operation(blobs.put_artifact)
    get = operation(blobs.get_artifact)
    delete = operation(blobs.delete_artifact)
    list = operation(blobs.list_artifacts)


class Maintenance(Area[C]):
    """Work that happens only when the host asks for it."""

    collect_garbage = lever(levers.collect_garbage)
    vacuum = lever(levers.vacuum)
    prune_turn_commits = lever(levers.prune_turn_commits)
    prune_settled_source_keys = lever(levers.prune_settled_source_keys)
    forget_aged_intents = lever(attachments.forget_aged_intents)
    reclaim_attachments = sweeping_lever(sweeping.reclaim_attachments)


class _Face(Generic[C]):
    """What both colours of a store have."""

    def __init__(self, core: Core, *, aio: bool) -> None:
        self._core = core
        self._aio = aio
        self.sessions: Sessions[C] = Sessions(core, aio=aio)
        self.queue: Queue[C] = Queue(core, aio=aio)
        self.inputs: Inputs[C] = Inputs(core, aio=aio)
        self.blobs: Blobs[C] = Blobs(core, aio=aio)
        self.artifacts: Artifacts[C] = Artifacts(core, aio=aio)
        self.attachments: Attachments[C] = Attachments(core, aio=aio)
        self.maintenance: Maintenance[C] = Maintenance(core, aio=aio)

    def session(self, session_id: str) -> SessionView[C]:
        """A view bound to one session. Making it does no I/O and creates nothing."""
        at = Address(session_id, bound=True)
        return SessionView(self._core, aio=self._aio, at=at)

    @property
    def durability_tier(self) -> Durability:
        """Whether acknowledged writes survive this process."""
        return self._core.backend.tier

    @property
    def settings(self) -> Settings:
        """What the store was opened with."""
        return self._core.settings


class Store(_Face[Blocking]):
    """A store for blocking callers, of any thread; `aio` is the same store for asyncio.

    >>> import holdfast
    >>> with holdfast.open("sqlite://") as store:
    ...     store.sessions.list().sessions
    []
    """

    def __init__(self, core: Core) -> None:
        super().__init__(core, aio=False)
        self.aio = AsyncStore(core, self)

    def open(self) -> Store:
        """Connect now rather than with the first operation."""
        self._core.open()
        return self

    def close(self) -> None:
        """Let accepted writes finish and let go of the database; again does nothing."""
        self._core.close()

    def __enter__(self) -> Store:
        return self.open()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    async def __aenter__(self) -> AsyncStore:
        return await self.aio.open()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aio.close()


class AsyncStore(_Face[Aio]):
    """The same store for asyncio callers, of any number of event loops.

    >>> import asyncio, holdfast
    >>> async def main():
    ...     async with holdfast.open("sqlite://") as store:
    ...         return (await store.sessions.list()).sessions
    >>> asyncio.run(main())
    []
    """

    def __init__(self, core: Core, blocking: Store) -> None:
        super().__init__(core, aio=True)
        self.blocking = blocking

    async def open(self) -> AsyncStore:
        """Connect now rather than with the first operation."""
        await self._core.aside(self._core.open)
        return self

    async def close(self) -> None:
        """Let accepted writes finish and let go of the database; again does nothing."""
        await unhurried(asyncio.to_thread(self._core.close))
