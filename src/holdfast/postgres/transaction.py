"""An operation's transaction as a series of trips.

The first trip of a write carries BEGIN and its limits, its last one COMMIT; an operation that
concludes at once takes one trip for everything. A lone statement needs neither, on a connection
that brings the limits along.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from holdfast.postgres.compiled import Bound, Compiled
from holdfast.postgres.errors import PREPARED_ALREADY, STALE_PLAN, UNPREPARED, Failure
from holdfast.postgres.handed import Waited
from holdfast.postgres.limits import Limits
from holdfast.postgres.patience import Patience
from holdfast.postgres.preparing import Preparing
from holdfast.settings import Settings
from holdfast.transaction import Call, Mode, Row

if TYPE_CHECKING:
    from psycopg.pq.abc import PGresult

    from holdfast.postgres.link import Link
    from holdfast.postgres.pool import Connections

_BEGIN_WRITE = b"BEGIN ISOLATION LEVEL READ COMMITTED"
_BEGIN_READ = b"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_COMMIT = b"COMMIT"
_WRITING = (Mode.WRITE, Mode.AUTOCOMMIT)

Observer = Callable[[str, str], None]


class Shared:
    """What the transactions of one store have in common."""

    def __init__(
        self, settings: Settings, connections: Connections, statements: Mapping[str, Compiled]
    ) -> None:
        self.settings = settings
        self.connections = connections
        self.statements = statements
        self.preparing = Preparing()
        self.on_statement: Observer | None = None
        self.counts: Counter[str] = Counter()
        #: Whether every connection brings along what our transactions run under.
        self.inherited = False
        self._counting = threading.Lock()

    def count(self, names: Iterable[str]) -> None:
        """Add one to each of these counts."""
        with self._counting:
            for name in names:
                self.counts[name] += 1


class PostgresTransaction:
    """One attempt at one operation; takes a connection when the first statement needs it."""

    def __init__(self, shared: Shared, mode: Mode, patience: Patience, caller: Waited) -> None:
        self.settings = shared.settings
        self.actions: list[Callable[[], None]] = []
        self._shared = shared
        self._mode = mode
        self._caller = caller
        self._limits = Limits(shared.settings, patience, inherited=shared.inherited)
        self._prepares = shared.preparing.on
        self._link: Link | None = None
        self._is_used = False
        self._open = False
        self._concluded = False
        self._declined = False

    async def trip(self, *calls: Call) -> list[list[Row]]:
        """Run statements in order, in one round trip; the rows of each."""
        if self._mode is Mode.AUTOCOMMIT:
            return [self._alone(call) for call in calls]
        return self._together(calls, commit=False)

    async def conclude(self, *calls: Call) -> list[list[Row]]:
        """Run the last statements and commit, in one round trip. Nothing may follow."""
        if self._mode is Mode.AUTOCOMMIT:
            rows = [self._alone(call) for call in calls]
        elif len(calls) == 1 and not self._open:
            rows = [self._alone(calls[0], "commit")]
        else:
            rows = self._together(calls, commit=True)
        self._concluded = True
        return rows

    async def all(self, name: str, /, **params: Any) -> list[Row]:
        """Run one statement; its rows."""
        return self._one(Call(name, params))

    async def maybe(self, name: str, /, **params: Any) -> Row | None:
        """Run one statement; its first row, or none."""
        rows = self._one(Call(name, params))
        return rows[0] if rows else None

    async def promoted(self, name: str, /, **params: Any) -> list[Row]:
        """Run a statement as a transaction of its own; no rows if there is no such statement."""
        if self._open:
            raise RuntimeError("promoted() comes before the first trip")
        return self._alone(Call(name, params)) if self.has(name) else []

    def has(self, name: str) -> bool:
        """Whether there is such a statement."""
        return name in self._shared.statements

    def after_commit(self, action: Callable[[], None]) -> None:
        """Run `action` in the background once the write is durable."""
        self.actions.append(action)

    def finish(self) -> None:
        """Commit what the operation left open."""
        if self._open:
            self._together((), commit=True)

    def abandon(self) -> None:
        """Roll back what the operation left open. Never raises."""
        if self._link is not None and self._link.in_transaction():
            self._shared.count(("trips",))
            self._link.roll_back()

    def release(self) -> None:
        """Give the connection back."""
        if self._link is not None:
            self._shared.connections.give(self._link)
            self._link = None

    def _one(self, call: Call) -> list[Row]:
        if self._open or self._mode in (Mode.WRITE, Mode.READ):
            return self._together((call,), commit=False)[0]
        return self._alone(call)

    def _alone(self, call: Call, *also: str) -> list[Row]:
        """One statement, a transaction of its own; observers are told of `also` beside it."""
        bound = self._bind((call,))[0]
        if bound is None:
            return []
        link = self._ready()
        self._observe("before", call.name, *also)
        self._shared.count(("trips", "transactions", call.name))
        result = self._send_alone(link, bound)
        rows = link.rows(bound, result)
        # Without a column nothing says whether it wrote.
        self._declined |= result.nfields > 0 and not rows
        self._observe("after", call.name, *also)
        return rows

    def _send_alone(self, link: Link, bound: Bound) -> PGresult:
        """One statement; in a transaction that is written out if anything has to be set for it."""
        # The server sees to it that what explains a refused write only reads.
        explains = self._declined and self._mode is Mode.AUTOCOMMIT
        writes = self._mode in _WRITING and not explains
        before = self._limits.alone()
        if before or explains:
            before = [_BEGIN_WRITE if writes else _BEGIN_READ, *before]
        try:
            if before:
                result = link.together([*before, bound, _COMMIT], prepare=self._prepares)[-2]
            else:
                result = link.alone(bound, prepare=self._prepares)
        except Failure as failure:
            failure.maybe_written = writes and failure.may_follow(len(before) + 1)
            self._settle(failure, link)
            raise
        self._shared.preparing.succeeded()
        return result

    def _together(self, calls: tuple[Call, ...], *, commit: bool) -> list[list[Row]]:
        """One trip inside the transaction, which it may also begin and commit."""
        bounds = self._bind(calls)
        sent = [bound for bound in bounds if bound is not None]
        if not sent and not (commit and self._open):
            return [[] for _ in calls]
        link = self._ready()
        names = [bound.statement.name for bound in sent] + ["commit"] * commit
        self._observe("before", *names)
        results = iter(self._send(link, sent, commit))
        rows = [[] if bound is None else link.rows(bound, next(results)) for bound in bounds]
        self._observe("after", *names)
        return rows

    def _send(self, link: Link, sent: list[Bound], commit: bool) -> list[PGresult]:
        before = self._before(commit)
        steps: list[Bound | bytes] = [*before, *sent, *([_COMMIT] if commit else [])]
        self._shared.count(("trips", *(bound.statement.name for bound in sent)))
        self._shared.count(() if self._open else ("transactions",))
        self._open = True
        try:
            results = link.together(steps, prepare=self._prepares)
        except Failure as failure:
            writes = commit and self._mode is Mode.WRITE
            failure.maybe_written = writes and failure.may_follow(len(steps) - 1)
            self._settle(failure, link)
            raise
        self._shared.preparing.succeeded()
        if commit:
            self._open = False
            if results[-1].command_status != _COMMIT:
                raise Failure("the transaction had failed before its commit")
        return results[len(before) :]

    def _before(self, commit: bool) -> list[bytes]:
        """What a trip carries before its statements."""
        if self._open:
            return self._limits.further()
        begin = _BEGIN_WRITE if self._mode is Mode.WRITE else _BEGIN_READ
        return [begin, *(self._limits.alone() if commit else self._limits.first())]

    def _bind(self, calls: tuple[Call, ...]) -> list[Bound | None]:
        """The statements with their parameters; none for a bulk statement without rows."""
        clock = self.settings.clock
        now = clock.now_ms() if clock is not None else None
        bounds: list[Bound | None] = []
        for name, params, rows in calls:
            statement = self._shared.statements[name]
            if rows is None:
                bounds.append(statement.bind(params, now))
            else:
                bounds.append(statement.bind_rows(rows, now) if rows else None)
        return bounds

    def _ready(self) -> Link:
        """The connection, taken now or still alive: nothing is sent on one known to be lost."""
        if self._concluded:
            raise RuntimeError("nothing may follow conclude()")
        if self._link is None:
            self._link = self._shared.connections.take()
            self._caller.begin()
            self._is_used = self._link.has_prepared()
        elif self._open and not self._link.is_alive():
            self._link.discard()
            raise Failure("the server ended the transaction between two trips", lost=True)
        return self._link

    def _settle(self, failure: Failure, link: Link) -> None:
        """Deal with a prepared statement that is not what we took it for; nothing was written."""
        if not self._prepares:
            return
        if failure.sqlstate in (UNPREPARED, PREPARED_ALREADY):
            if failure.sqlstate == UNPREPARED:
                link.forget_prepared()
            self._shared.preparing.failed()
            failure.settled = True
        elif failure.sqlstate == STALE_PLAN:
            if self._is_used:
                link.discard()
            else:
                # It was prepared just now, and is old all the same: a pooler kept it.
                self._shared.preparing.give_up()
            failure.settled = True

    def _observe(self, when: str, *names: str) -> None:
        observer = self._shared.on_statement
        if observer is not None:
            for name in names:
                observer(name, when)
