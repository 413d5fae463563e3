"""One connection, spoken to in trips: everything goes out in one flush, then all answers come in.

This sits directly on libpq (`psycopg.pq`), below psycopg's cursors. They prepare a statement in a
trip of its own and forget all of them after any ROLLBACK; here a statement is prepared in the
same flush that first runs it, and a single statement does without pipeline mode. It also leaves
autocommit, row factories and adapters of a connection lent to us alone, because none is used.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import psycopg
from psycopg import postgres, pq
from psycopg.abc import PQGen
from psycopg.adapt import AdaptersMap, Transformer
from psycopg.generators import execute, fetch_many, send
from psycopg.pq.abc import PGconn, PGresult
from psycopg.types import array

from holdfast.postgres.compiled import Bound
from holdfast.postgres.errors import PREPARED_ALREADY, Failure

Connection = psycopg.Connection[Any]

_BINARY = pq.Format.BINARY
_ROWS = pq.ExecStatus.TUPLES_OK
_DONE = pq.ExecStatus.COMMAND_OK
_ERROR = pq.ExecStatus.FATAL_ERROR
_SYNC = pq.ExecStatus.PIPELINE_SYNC
_SQLSTATE = pq.DiagnosticField.SQLSTATE
_SEVERITY = pq.DiagnosticField.SEVERITY_NONLOCALIZED
_MESSAGE = pq.DiagnosticField.MESSAGE_PRIMARY


class _Loading:
    """How results become Python values: psycopg's defaults, whatever the host registered."""

    connection = None
    adapters = AdaptersMap(types=postgres.types)


postgres.register_default_adapters(_Loading())
array.register_all_arrays(_Loading())


class Memory:
    """What is known of one connection for as long as it lives."""

    def __init__(self) -> None:
        self.prepared: set[bytes] = set()
        self.transformer = Transformer(_Loading())


#: Of every store of this process, since a lent pool may serve several.
memories: WeakKeyDictionary[Connection, Memory] = WeakKeyDictionary()


class Link:
    """A connection while one operation has it."""

    __slots__ = ("_memory", "_pgconn", "connection")

    def __init__(self, connection: Connection, memory: Memory) -> None:
        self.connection = connection
        self._pgconn: PGconn = connection.pgconn
        self._memory = memory

    def is_alive(self) -> bool:
        """Whether the server still is at the other end, as far as can be seen without asking."""
        # The first look may find a farewell, the second that nothing follows it. Neither waits.
        try:
            self._pgconn.consume_input()
            self._pgconn.consume_input()
        except psycopg.Error:
            return False
        return self._pgconn.status == pq.ConnStatus.OK

    def in_transaction(self) -> bool:
        """Whether a transaction is open, or something unfinished, that has to be ended."""
        return self._pgconn.transaction_status != pq.TransactionStatus.IDLE

    def has_prepared(self) -> bool:
        """Whether anything was prepared on this connection."""
        return bool(self._memory.prepared)

    def forget_prepared(self) -> None:
        """Take it that nothing is prepared on this connection."""
        self._memory.prepared.clear()

    def roll_back(self) -> None:
        """End what is unfinished; a connection on which that fails is closed."""
        if not self.in_transaction():
            return
        try:
            self.script("ROLLBACK")
        except Failure:
            self.discard()

    def discard(self) -> None:
        """Close the connection; its pool replaces it."""
        # Not `connection.close()`, which may mean "back to the pool".
        self._pgconn.finish()

    def alone(self, bound: Bound, *, prepare: bool) -> PGresult:
        """Run one statement as a transaction of its own, in one trip."""
        if prepare and bound.name not in self._memory.prepared:
            return self.together([bound], prepare=True)[0]
        results = self._wait(self._one(bound, prepare))
        self._check(results, 1)
        return results[0]

    def together(self, steps: Sequence[Bound | bytes], *, prepare: bool) -> list[PGresult]:
        """Run statements and bare commands in one trip; what they return, in order."""
        results = self._wait(self._many(steps, prepare))
        self._check(results, len(steps))
        return results

    def script(self, sql: str) -> None:
        """Run several statements without parameters, in one trip."""
        results = self._wait(self._simple(sql))
        self._check(results, len(results))

    def rows(self, bound: Bound, result: PGresult) -> list[Any]:
        """The rows of a result: dicts by column name, or tuples where the statement says so."""
        if result.status != _ROWS:
            return []
        transformer = self._memory.transformer
        transformer.set_pgresult(result)
        try:
            rows: list[Any] = transformer.load_rows(0, result.ntuples, tuple)
        finally:
            transformer.set_pgresult(None)
        if bound.statement.tuples:
            return rows
        columns = [(result.fname(place) or b"").decode() for place in range(result.nfields)]
        return [dict(zip(columns, row, strict=True)) for row in rows]

    def _check(self, results: Sequence[PGresult], expected: int) -> None:
        for place, result in enumerate(results):
            if result.status == _ERROR:
                failure = _failure(place, result)
                if failure.lost:
                    self.discard()
                raise failure
        assert len(results) == expected, "the server answered something else than it was asked"

    def _wait(self, exchange: PQGen[list[PGresult]]) -> list[PGresult]:
        try:
            return self.connection.wait(exchange)
        except psycopg.Error as error:
            self.discard()
            raise Failure(_plain(error), lost=True) from None
        except BaseException:
            # Interrupted in the middle: what is still under way must not meet the next caller.
            self.discard()
            raise

    def _one(self, bound: Bound, prepare: bool) -> PQGen[list[PGresult]]:
        if prepare:
            self._execute_prepared(bound)
        else:
            self._execute(bound)
        results: list[PGresult] = yield from execute(self._pgconn)
        return results

    def _simple(self, sql: str) -> PQGen[list[PGresult]]:
        self._pgconn.send_query(sql.encode())
        results: list[PGresult] = yield from execute(self._pgconn)
        return results

    def _many(self, steps: Sequence[Bound | bytes], prepare: bool) -> PQGen[list[PGresult]]:
        self._pgconn.enter_pipeline_mode()
        names = [self._queue(step, prepare) for step in steps]
        self._pgconn.pipeline_sync()
        yield from send(self._pgconn)
        results: list[PGresult] = []
        try:
            yield from self._answers(names, results)
            self._pgconn.exit_pipeline_mode()
        except psycopg.Error:
            # The server may have said why before it hung up.
            if not any(result.status == _ERROR for result in results):
                raise
        return results

    def _queue(self, step: Bound | bytes, prepare: bool) -> bytes | None:
        """Queue one step; the name of the statement if it is prepared on the way."""
        if isinstance(step, bytes):
            self._pgconn.send_query_params(step, None)
            return None
        if not prepare:
            self._execute(step)
            return None
        first = step.name not in self._memory.prepared
        if first:
            self._pgconn.send_prepare(step.name, step.statement.sql, step.oids)
            self._memory.prepared.add(step.name)
        self._execute_prepared(step)
        return step.name if first else None

    def _answers(
        self, names: Sequence[bytes | None], answers: list[PGresult]
    ) -> Generator[Any, Any, None]:
        """One result for each step, then those of the closing sync: none, unless it failed."""
        for name in names:
            if name is not None:
                prepared = yield from fetch_many(self._pgconn)
                if prepared[0].status != _DONE:
                    if _sqlstate(prepared[0]) != PREPARED_ALREADY:
                        self._memory.prepared.discard(name)
                    answers += [each for each in prepared if each.status == _ERROR]
            answers += yield from fetch_many(self._pgconn)
        while (results := (yield from fetch_many(self._pgconn)))[0].status != _SYNC:
            answers += results

    def _execute(self, bound: Bound) -> None:
        self._pgconn.send_query_params(
            bound.statement.sql, bound.values, bound.oids, bound.formats, _BINARY
        )

    def _execute_prepared(self, bound: Bound) -> None:
        self._pgconn.send_query_prepared(bound.name, bound.values, bound.formats, _BINARY)


def _sqlstate(result: PGresult) -> str:
    return (result.error_field(_SQLSTATE) or b"").decode()


def _failure(place: int, result: PGresult) -> Failure:
    sqlstate = _sqlstate(result)
    message = result.error_field(_MESSAGE) or result.error_message or b""
    return Failure(
        message.decode(errors="replace").strip(),
        sqlstate,
        lost=result.error_field(_SEVERITY) in (b"FATAL", b"PANIC") or not sqlstate,
        place=place if sqlstate else None,
    )


def _plain(error: psycopg.Error) -> str:
    return " ".join(str(error).split()) or type(error).__name__
