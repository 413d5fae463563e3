"""The PostgreSQL backend: whole operations, on pooled connections.

A blocking caller's operation runs on its own thread, an asyncio caller's on a thread of the
store. Either way it is a coroutine that never suspends; what waits is the thread.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from importlib.resources.abc import Traversable
from typing import TYPE_CHECKING, TypeVar

from holdfast import migrations, statements
from holdfast.engine import Work
from holdfast.errors import InvalidArgument
from holdfast.model.values import Durability
from holdfast.postgres.compiled import Compiled, Schema
from holdfast.postgres.errors import CONTENDED, Failure, fault
from holdfast.postgres.handed import Handed, Waited
from holdfast.postgres.patience import Patience
from holdfast.postgres.running import Running
from holdfast.postgres.transaction import Observer, PostgresTransaction, Shared
from holdfast.rules.versions import Decision
from holdfast.settings import Settings
from holdfast.transaction import LostRace, Mode, run_blocking

if TYPE_CHECKING:
    from holdfast.postgres.pool import Connections, Pool

T = TypeVar("T")
Source = str | Traversable

_WAITED = Waited()
_log = logging.getLogger("holdfast")


class PostgresBackend:
    """A schema of a PostgreSQL database, with its connections and threads."""

    tier = Durability.DURABLE

    def __init__(
        self,
        target: str | Pool,
        settings: Settings,
        *,
        statements_from: Source = "holdfast.postgres.statements",
        migrations_from: Source = "holdfast.postgres.migrations",
    ) -> None:
        self.settings = settings
        self.read_only = settings.read_only
        self._schema = Schema(settings.schema)
        self._migrations_from = migrations_from
        self._connections = _connections(target, settings)
        compiled = {
            name: Compiled(statement, self._schema)
            for name, statement in statements.load(statements_from).items()
        }
        self._shared = Shared(settings, self._connections, compiled)
        self._running = Running()
        self._threads: ThreadPoolExecutor | None = None
        self._afterwards = ThreadPoolExecutor(1, "holdfast-after-commit")

    @property
    def counts(self) -> Counter[str]:
        """How often each statement ran, and how many trips and transactions there were."""
        return self._shared.counts

    @property
    def on_statement(self) -> Observer | None:
        """Called around every statement and commit, with its name and "before" or "after"."""
        return self._shared.on_statement

    @on_statement.setter
    def on_statement(self, observer: Observer | None) -> None:
        self._shared.on_statement = observer

    def open(self) -> None:
        """Connect, check the versions, create or migrate the schema."""
        patience = Patience("open", self.settings.wait_ms)
        while True:
            try:
                decision = self._look_or_migrate(patience)
                break
            except Failure as failure:
                if failure.sqlstate not in CONTENDED:
                    raise fault(failure, "open") from None
            patience.pause()
        self.read_only = decision is Decision.OPEN_READ_ONLY or self.settings.read_only
        self._threads = ThreadPoolExecutor(self._connections.start(), "holdfast-postgres")

    def run(self, work: Work[T]) -> T:
        """Finish an operation on the calling thread."""
        self._running.enter()
        return self._finish(work, _WAITED)

    def submit(self, work: Work[T]) -> Future[T]:
        """Hand an operation to the store's threads."""
        assert self._threads is not None, "the store is not open"
        self._running.enter()
        handed: Handed[T] = Handed()
        self._threads.submit(self._carry_out, work, handed)
        return handed

    def runs_inline(self, mode: Mode) -> bool:  # noqa: ARG002
        """Never: every operation waits for the network."""
        return False

    def close(self) -> None:
        """Let running operations finish, then end the threads and a pool of our own."""
        self._running.stop()
        if self._threads is not None:
            self._threads.shutdown(wait=True)
        self._afterwards.shutdown(wait=True)
        self._connections.close()

    def _look_or_migrate(self, patience: Patience) -> Decision:
        from holdfast.postgres.migrate import Opening

        known = migrations.load(self._migrations_from)
        link = self._connections.first()
        try:
            opening = Opening(link, self._schema, self.settings, known, patience)
            decision = opening.judge()
            self._shared.inherited = opening.inherited and not self._connections.lent
            return decision
        finally:
            link.roll_back()
            self._connections.done(link)

    def _carry_out(self, work: Work[T], handed: Handed[T]) -> None:
        try:
            result = self._finish(work, handed)
        except BaseException as error:
            handed.fail(error)
        else:
            handed.succeed(result)

    def _finish(self, work: Work[T], caller: Waited) -> T:
        try:
            return self._repeat(work, caller)
        finally:
            self._running.leave()

    def _repeat(self, work: Work[T], caller: Waited) -> T:
        """Run an operation until it succeeds, is refused, or `wait_ms` has passed."""
        patience = Patience(work.name, self.settings.wait_ms)
        while True:
            try:
                return self._attempt(work, patience, caller)
            except LostRace:
                at_once = False
            except Failure as failure:
                contended = failure.sqlstate in CONTENDED and not failure.maybe_written
                if not (failure.settled or contended):
                    raise fault(failure, work.name) from None
                at_once = failure.settled
            caller.rest()
            if not at_once:
                patience.pause()

    def _attempt(self, work: Work[T], patience: Patience, caller: Waited) -> T:
        transaction = PostgresTransaction(self._shared, work.mode, patience, caller)
        try:
            result = run_blocking(work.start(transaction))
            transaction.finish()
        except BaseException:
            transaction.abandon()
            raise
        finally:
            transaction.release()
        for action in transaction.actions:
            self._afterwards.submit(_quietly, action)
        return result


def _quietly(action: Callable[[], None]) -> None:
    try:
        action()
    except Exception:
        _log.exception("an action after a commit failed")


def _connections(target: str | Pool, settings: Settings) -> Connections:
    try:
        from holdfast.postgres.pool import Connections
    except ImportError:
        raise InvalidArgument("url", "needs psycopg: install holdfast[postgres]") from None
    return Connections(target, settings)
