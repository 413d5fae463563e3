import msgspec
import pytest

from holdfast.errors import LeaseLost, StoreUnavailable
from holdfast.model.leases import Lease, LeaseOwner, LeaseTimings
from holdfast.rules import guarding

TIMINGS = LeaseTimings(3_000, 1_000)
LEASE = Lease("s1", LeaseOwner("o", "1"), "token", 1, 0, 3_000)
RENEWED = msgspec.structs.replace(LEASE, expires_at_ms=4_000)
HELD = guarding.held(LEASE, TIMINGS, asked_at=10.0)
FAULT = StoreUnavailable("renew_lease", "reset", retryable=True)
LOST = LeaseLost("session", "s1", "superseded", 1, 2)


def learn(answer, *, asked_at, now, hold=HELD):
    return guarding.after_renewal(hold, TIMINGS, answer, asked_at=asked_at, now=now)


def test_a_hold_lasts_for_the_ttl_from_the_start_of_the_call():
    assert (HELD.due, HELD.deadline, HELD.doubt) == (11.0, 13.0, None)


def test_a_renewal_counts_from_its_start():
    assert learn(RENEWED, asked_at=11.0, now=12.5) == guarding.held(RENEWED, TIMINGS, 11.0)


def test_a_fault_is_followed_by_an_early_try_and_moves_no_deadline():
    hold = learn(FAULT, asked_at=11.0, now=11.5)
    assert (hold.lease, hold.due, hold.deadline, hold.doubt) == (LEASE, 11.75, 13.0, FAULT)


def test_the_last_try_is_at_the_deadline():
    assert learn(FAULT, asked_at=12.8, now=12.9).due == 13.0


@pytest.mark.parametrize("error", [LOST, KeyError("what")])
def test_any_other_answer_is_a_loss(error):
    assert learn(error, asked_at=11.0, now=11.1) is error


@pytest.mark.parametrize("answer", [RENEWED, FAULT, LOST])
def test_after_the_deadline_no_answer_counts(answer):
    lost = learn(answer, asked_at=12.9, now=13.0)
    assert isinstance(lost, StoreUnavailable)
    assert lost.maybe_written


def test_the_fault_that_outlasted_the_lease_is_the_loss():
    doubtful = learn(FAULT, asked_at=11.0, now=11.5)
    assert guarding.overdue(doubtful, 12.99) is None
    assert guarding.overdue(doubtful, 13.0) is FAULT
