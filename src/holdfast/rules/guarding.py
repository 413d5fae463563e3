"""What a guard may believe about its lease, from the answers it got and the time that passed.

Times are monotonic seconds of the guard's own process. They never say more than the store would:
the lease ends no sooner than its ttl after the *start* of the last call that succeeded.
"""

from __future__ import annotations

import msgspec

from holdfast.errors import Fault, StoreUnavailable
from holdfast.model.leases import Lease, LeaseTimings

#: After a fault the next try comes this much sooner than a renewal would.
_HASTE = 4


class Hold(msgspec.Struct, frozen=True):
    """A lease that is believed to be held."""

    lease: Lease
    #: When to renew it next.
    due: float
    #: From when on it may be somebody else's.
    deadline: float
    #: Why the latest renewal got no answer.
    doubt: Fault | None = None


def held(lease: Lease, timings: LeaseTimings, asked_at: float) -> Hold:
    """What a successful claim or renewal, begun at `asked_at`, lets the guard believe."""
    due = asked_at + timings.renew_interval_ms / 1000
    return Hold(lease, due, asked_at + timings.ttl_ms / 1000)


def overdue(hold: Hold, now: float) -> Fault | None:
    """Why the lease counts as lost at this moment though nobody said so; none while it is held."""
    if now < hold.deadline:
        return None
    return hold.doubt or StoreUnavailable("renew_lease", "no answer in time", maybe_written=True)


def after_renewal(
    hold: Hold, timings: LeaseTimings, answer: Lease | Exception, *, asked_at: float, now: float
) -> Hold | Exception:
    """What to believe after a try to renew: held still, or why not.

    A fault leaves the lease what it was, until the deadline. After that a late success counts no
    more: somebody may have acted on the loss already.
    """
    late = overdue(hold, now)
    if late is not None:
        return late
    if isinstance(answer, Lease):
        return held(answer, timings, asked_at)
    if isinstance(answer, Fault):
        again = now + timings.renew_interval_ms / 1000 / _HASTE
        return msgspec.structs.replace(hold, due=min(again, hold.deadline), doubt=answer)
    return answer
