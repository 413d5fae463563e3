"""What goes wrong between us and the server, and what a caller is told about it.

`Failure` is internal: it travels from the wire through an operation to the driver, which either
runs the operation again or turns it into a fault. Only the SQLSTATE and the primary message are
kept; a server's detail lines quote rows, and rows hold tokens.
"""

from __future__ import annotations

from holdfast.errors import CorruptRecord, Fault, StoreUnavailable

#: Rolled back by the server because of others: serialization, deadlock, lock timeout.
CONTENDED = frozenset({"40001", "40P01", "55P03"})
#: The connection has lost a prepared statement.
UNPREPARED = "26000"
#: The connection has a statement of that name already; names of ours are made of the content.
PREPARED_ALREADY = "42P05"
#: A prepared statement no longer fits the tables: somebody migrated meanwhile.
STALE_PLAN = "0A000"
#: Raised by our own function `damaged`; the message is the record's kind and key.
DAMAGED = "HF001"
#: The server ended our transaction because we kept it waiting.
IDLE_IN_TRANSACTION = "25P03"

# Classes: connection, rolled back, resources, operator intervention, system error.
_PASSING = frozenset({"08", "40", "53", "57", "58"})


class Failure(Exception):
    """A trip did not succeed. Nothing of it is stored, unless `maybe_written` says otherwise."""

    def __init__(
        self, message: str, sqlstate: str = "", *, lost: bool = False, place: int | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.sqlstate = sqlstate
        #: The connection is gone.
        self.lost = lost
        #: Which step of the trip the server refused; none if it gave no answer.
        self.place = place
        #: A commit was on its way and no answer to it came.
        self.maybe_written = False
        #: What was in the way is gone: the operation can be run again at once.
        self.settled = False

    def may_follow(self, commit: int) -> bool:
        """Whether the step numbered `commit` may have been carried out nevertheless."""
        return (
            self.lost
            and self.sqlstate != IDLE_IN_TRANSACTION
            and (self.place is None or self.place >= commit)
        )


def fault(failure: Failure, operation: str) -> Fault:
    """What the caller of an operation is told, when it is not to be run again."""
    if failure.sqlstate == DAMAGED:
        kind, _, key = failure.message.partition(" ")
        return CorruptRecord(kind, key, "digest")
    passing = failure.lost or failure.sqlstate[:2] in _PASSING
    cause = f"{failure.sqlstate}: {failure.message}" if failure.sqlstate else failure.message
    return StoreUnavailable(
        operation,
        cause,
        retryable=passing and not failure.maybe_written,
        maybe_written=failure.maybe_written,
    )
