import pytest

from holdfast.errors import CorruptRecord, InvalidArgument
from holdfast.model.leases import (
    Lease,
    LeaseHolder,
    LeaseOwner,
    LeaseTimings,
    LocalProcess,
    Opaque,
)
from holdfast.rules import leases

HERE = LocalProcess("host", "boot", 7, "123")
OWNER = LeaseOwner("worker", "start-1", HERE)
LEASE = Lease("s1", OWNER, "secret", 3, 1_000, 2_000)
ROW = {
    "generation": 3,
    "owner_id": "worker",
    "incarnation_id": "start-1",
    "token": "secret",
    "liveness": leases.encode_liveness(HERE),
    "claimed_at_ms": 1_000,
    "expires_at_ms": 2_000,
}
FREE = dict.fromkeys(ROW) | {"generation": 3}


@pytest.mark.parametrize(
    ("lease", "row", "now_ms", "reason"),
    [
        (LEASE, ROW, 1_999, None),
        (LEASE, ROW, 2_000, "expired"),
        (LEASE, ROW | {"token": "other"}, 1_000, "superseded"),
        (LEASE, ROW | {"token": "other"}, 2_000, "superseded"),
        (LEASE, ROW | {"incarnation_id": "start-2"}, 1_000, "superseded"),
        (LEASE, ROW | {"owner_id": "other"}, 1_000, "superseded"),
        (LEASE, ROW | {"generation": 4}, 1_000, "superseded"),
        (LEASE, ROW | {"liveness": '{"kind":"opaque"}'}, 1_000, None),
        (LEASE, FREE, 1_000, "released"),
        (LEASE, FREE | {"generation": 4}, 1_000, "superseded"),
        (LEASE, None, 1_000, "missing"),
        (None, ROW, 1_000, "missing"),
        (None, None, 1_000, "missing"),
        (Lease("s2", OWNER, "secret", 3, 0, 9_000), ROW, 1_000, "wrong_session"),
        (Lease("s2", OWNER, "secret", 3, 0, 9_000), None, 1_000, "wrong_session"),
    ],
)
def test_why_a_lease_is_lost(lease, row, now_ms, reason):
    lost = leases.why_lost(lease, row, now_ms, session_id="s1")
    if reason is None:
        assert lost is None
        return
    assert (lost.guards, lost.key, lost.reason) == ("session", "s1", reason)
    assert lost.presented_generation == (lease.generation if lease else None)
    assert lost.current_generation == (row["generation"] if row else None)
    assert "secret" not in f"{lost} {lost!r} {vars(lost)}"


def test_a_holder_is_shown_without_its_token():
    shown = leases.holder("s1", ROW, 1_999)
    assert shown == LeaseHolder("s1", OWNER, 3, 1_000, 2_000, live=True)
    assert leases.holder("s1", ROW, 2_000).live is False
    assert "secret" not in f"{shown!r} {LEASE!r} {LEASE}"
    assert leases.holder("s1", FREE, 0) is None
    assert leases.holder("s1", None, 0) is None


def test_only_time_left_makes_a_lease_live():
    assert leases.is_live(ROW, 1_999)
    assert not leases.is_live(ROW, 2_000)
    assert not leases.is_live(FREE, 0)
    assert not leases.is_live(None, 0)


def test_incarnations_are_compared_without_liveness():
    assert leases.same_incarnation(OWNER, LeaseOwner("worker", "start-1"))
    assert leases.same_incarnation(OWNER, ROW)
    assert not leases.same_incarnation(OWNER, LeaseOwner("worker", "start-2"))
    assert not leases.same_incarnation(OWNER, FREE)


def test_liveness_is_stored_as_the_contract_writes_it():
    assert leases.encode_liveness(Opaque()) == '{"kind":"opaque"}'
    assert leases.encode_liveness(HERE) == (
        '{"boot_id":"boot","host_id":"host","kind":"local_process","pid":7,"process_start":"123"}'
    )
    for liveness in (Opaque(), HERE):
        assert leases.decode_liveness(leases.encode_liveness(liveness), "s1") == liveness


@pytest.mark.parametrize(
    "stored",
    [
        *("", "{}", "null", '{"kind":"ghost"}', '{"kind":1}', '{"kind": "opaque"}', b"\xff", None),
        leases.encode_liveness(LocalProcess("host", "boot", 2**31, "123")),
        leases.encode_liveness(LocalProcess("host", "boot", -1, "123")),
    ],
)
def test_unreadable_liveness_is_corrupt_not_opaque(stored):
    with pytest.raises(CorruptRecord) as fault:
        leases.decode_liveness(stored, "s1")
    assert (fault.value.record_kind, fault.value.key) == ("lease_liveness", "s1")


@pytest.mark.parametrize(
    ("ttl_ms", "renew_ms"),
    [(29_000, 10_000), (0, 1), (30_000, 0), (2, 1), (-3, -1), (3.0, 1), (2**63, 1)],
)
def test_timings_that_are_refused(ttl_ms, renew_ms):
    with pytest.raises(InvalidArgument):
        LeaseTimings(ttl_ms, renew_ms)


def test_timings():
    assert LeaseTimings() == LeaseTimings(30_000, 10_000)
    assert LeaseTimings.from_ttl(60).renew_interval_ms == 20
    with pytest.raises(InvalidArgument):
        LeaseTimings.from_ttl(2)


@pytest.mark.parametrize(
    ("owner", "field"),
    [
        (LeaseOwner("", "i"), "owner_id"),
        (LeaseOwner("o", " "), "incarnation_id"),
        (LeaseOwner("o", "i", LocalProcess("h\0", "b", 1, "2")), "host_id"),
        (LeaseOwner("o", "i", LocalProcess("h", "b", -1, "2")), "pid"),
        (LeaseOwner("o", "i", LocalProcess("h", "b", 2**31, "2")), "pid"),
        (LeaseOwner("o", "i", None), "liveness"),
        ("worker", "owner"),
    ],
)
def test_owners_that_are_refused(owner, field):
    with pytest.raises(InvalidArgument) as refused:
        leases.check_owner(owner)
    assert refused.value.field == field


def test_an_owner_is_returned_as_given():
    assert leases.check_owner(OWNER) is OWNER
