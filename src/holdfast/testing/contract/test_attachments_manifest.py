"""Section 13.2 and 13.3: who refers to which attachment, and whose death lets it be forgotten."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast import (
    AttachmentIntent,
    AttachmentNotFound,
    InvalidArgument,
    SessionCreate,
    SessionDeleted,
)
from holdfast.testing.clock import ManualClock
from holdfast.testing.contract.catalogue import ATTACHMENTS, Operation, Unnamed
from holdfast.testing.contract.samples import chain, create, put, turn
from holdfast.testing.world import World

A, B, C = (letter * 64 for letter in "abc")
EVER = 2**62


def uncommitted(store: Any) -> list[tuple[str, str]]:
    """Sessions and ids that nothing confirmed."""
    found = store.attachments.list_uncommitted(EVER)
    return [(each.session_id, each.attachment_id) for each in found]


def stamped_at(world: World, store: Any, session_id: str, id: str) -> int | None:
    """When a row was confirmed; an error where there is none."""
    text = (
        "SELECT a.committed_at_ms FROM {attachment} a JOIN {session} s ON s.key = a.session"
        " WHERE s.id = ? AND a.attachment_id = ?"
    )
    ((found,),) = world.sql(store, text, session_id, id)
    return None if found is None else int(found)


@pytest.mark.scenario("ATT-T4")
def test_what_neither_a_call_nor_a_commit_confirmed_is_uncommitted(store: Any) -> None:
    for id in (A, B, C):
        store.attachments.record_intent("s1", id)

    store.attachments.commit_refs("s1", [A])
    put(store, "s1", graph=chain("n"), committed_attachment_ids=[B])

    assert uncommitted(store) == [("s1", C)]
    store.attachments.delete("s1", C)
    assert uncommitted(store) == []


def test_a_listing_goes_on_behind_an_intent_and_nothing_else(store: Any) -> None:
    wrong: list[Any] = ["x", 7, A, ("s1", A), ""]
    for after in wrong:
        with pytest.raises(InvalidArgument) as refused:
            store.attachments.list_uncommitted(EVER, 10, after)
        assert (refused.value.field, refused.value.reason) == ("after", "wrong_type")


@pytest.mark.scenario("ATT-T5")
def test_sessions_never_touch_each_others_rows(
    world: World, store: Any, clock: ManualClock
) -> None:
    for session_id in ("s1", "s2"):
        store.attachments.record_intent(session_id, A)
    store.attachments.commit_refs("s1", [A])
    stamped = clock.now_ms()
    clock.advance(5)

    assert uncommitted(store) == [("s2", A)]
    store.attachments.record_intent("s1", A, owner_kind="turn", owner_id="t1")
    store.attachments.commit_refs("s1", [A])
    store.attachments.delete("s2", A)

    assert stamped_at(world, store, "s1", A) == stamped
    assert store.attachments.holds("s1", A)
    assert uncommitted(store) == []


@pytest.mark.scenario("ATT-T6")
@pytest.mark.parametrize("committed", [False, True])
def test_a_reference_is_its_sessions_own(store: Any, committed: bool) -> None:
    store.attachments.record_intent("s1", B)
    store.attachments.record_intent("s2", A)
    if committed:
        store.attachments.commit_refs("s1", [B])

    assert [store.attachments.holds(id, B) for id in ("s1", "s2", "s3")] == [True, False, False]
    assert store.attachments.list_refs() == [A, B]
    store.attachments.delete("s1", B)
    store.attachments.delete("s1", B)
    assert not store.attachments.holds("s1", B)
    assert store.attachments.list_refs() == [A]
    assert store.sessions.open("s1") is None


def test_references_are_listed_once_and_by_pages(store: Any) -> None:
    ids = [f"{number:064x}" for number in range(5)]
    for number, id in enumerate(ids):
        for session in range(number % 3 + 1):
            store.attachments.record_intent(f"s{session}", id)

    assert store.attachments.list_refs(2) == ids[:2]
    assert store.attachments.list_refs(2, after=ids[1]) == ids[2:4]
    assert store.attachments.list_refs(after=ids[3]) == ids[4:]
    assert store.attachments.list_refs(0) == []


def test_uncommitted_ones_are_listed_by_time_session_and_id(store: Any, clock: ManualClock) -> None:
    now = clock.now_ms()
    for session_id, id, at in (("b", A, 0), ("a", B, 0), ("a", A, 0), ("c", C, -5), ("c", A, 9)):
        store.attachments.record_intent(session_id, id, intent_at_ms=now + at)
    in_order = [("c", C), ("a", A), ("a", B), ("b", A)]

    assert uncommitted(store)[:4] == in_order
    assert len(store.attachments.list_uncommitted(now + 8)) == 4
    seen: list[tuple[str, str]] = []
    last: AttachmentIntent | None = None
    while page := store.attachments.list_uncommitted(now, 2, last):
        seen += [(each.session_id, each.attachment_id) for each in page]
        last = page[-1]
    assert seen == in_order
    assert store.attachments.list_uncommitted(now, 0) == []


def test_an_intent_says_when_and_by_whom(store: Any, clock: ManualClock) -> None:
    put(store, "s1", graph=chain("n"))
    store.attachments.record_intent("s1", A, owner_kind="turn", owner_id="t1")

    (found,) = store.attachments.list_uncommitted(EVER)

    assert found == AttachmentIntent(
        session_id="s1",
        attachment_id=A,
        intent_at_ms=clock.now_ms(),
        intent_revision=1,
        owner_kind="turn",
        owner_id="t1",
    )
    assert found.canonical_uri == f"holdfast-attachment://sha256/{A}"


@pytest.mark.scenario("ATT-T7")
def test_confirming_what_is_not_there_makes_no_row(world: World, store: Any) -> None:
    store.attachments.record_intent("s1", A)
    before = world.dump(store)

    store.attachments.commit_refs("s1", [B])
    store.attachments.commit_refs("s2", [A])
    store.attachments.commit_refs("s1", [])

    assert world.dump(store) == before
    put(store, "s1", committed_attachment_ids=[B])
    assert store.attachments.list_refs() == [A]


@pytest.mark.invariant("INV-45")
@pytest.mark.scenario("ATT-T8")
def test_a_session_reads_only_what_it_refers_to(store: Any) -> None:
    mine, theirs = (store.session(id).attachments for id in ("s1", "s2"))
    id = mine.put(b"shared").id

    with pytest.raises(AttachmentNotFound):
        theirs.get(id)
    with pytest.raises(AttachmentNotFound):
        list(theirs.stream(id))
    assert theirs.put(b"shared").id == id

    assert theirs.get(id) == mine.get(id) == b"shared"
    mine.delete(id)
    with pytest.raises(AttachmentNotFound):
        mine.get(id)
    assert theirs.get(id) == b"shared"


# --- owners ------------------------------------------------------------------------------


@pytest.mark.scenario("ATT-T15")
@pytest.mark.parametrize(
    ("kind", "id", "field"),
    [
        ("turn", None, "owner_id"),
        (None, "t1", "owner_kind"),
        ("thread", "t1", "owner_kind"),
        ("turn", "", "owner_id"),
    ],
)
def test_an_owner_has_a_kind_and_an_id(
    world: World, store: Any, kind: str | None, id: str | None, field: str
) -> None:
    store.open()

    with pytest.raises(InvalidArgument) as refused:
        store.attachments.record_intent("s1", A, owner_kind=kind, owner_id=id)

    assert refused.value.field == field
    assert not any(world.dump(store).values())


def forget(store: Any, clock: ManualClock) -> int:
    """Forget every dead intent, however young."""
    count: int = store.maintenance.forget_aged_intents(clock.now_ms())
    return count


@pytest.mark.invariant("INV-14")
@pytest.mark.scenario("ATT-T11")
def test_intents_of_a_crashed_turn_wait_for_it_whatever_the_clock_says(
    world: World, store: Any, clock: ManualClock
) -> None:
    put(store, "s1", graph=chain("a"), turn_commit=turn("t0"))
    clock.advance(-3_600_000)
    files = store.session("s1").attachments
    with files.bind_turn("t1"):
        ref = files.put(b"made by the turn that crashed")
    clock.advance(10**12)

    report = store.maintenance.reclaim_attachments(0)

    assert (report.scanned_blob_count, report.reclaimed_count) == (1, 0)
    mentioned = {"role": "tool", "file": ref.id}
    done = put(store, "s1", config=mentioned, turn_commit=turn("t1"))
    assert not done.replayed
    assert stamped_at(world, store, "s1", ref.id) == clock.now_ms()
    assert uncommitted(store) == []
    assert put(store, "s1", config=mentioned, turn_commit=turn("t1")).replayed
    assert files.get(ref.id) == b"made by the turn that crashed"


@pytest.mark.scenario("ATT-T12")
def test_a_later_stamp_of_another_turn_proves_the_death(store: Any, clock: ManualClock) -> None:
    files = store.session("s1").attachments
    with files.bind_turn("t1"):
        id = files.put(b"lost").id
    clock.advance(1)
    put(store, "s1", graph=chain("a"))
    assert store.maintenance.reclaim_attachments(0).reclaimed_count == 0

    put(store, "s1", graph=chain("b"), turn_commit=turn("t2"))
    report = store.maintenance.reclaim_attachments(0)

    assert (report.scanned_blob_count, report.reclaimed_count, report.failed_ids) == (1, 1, [])
    assert store.attachments.list_refs() == []
    with pytest.raises(AttachmentNotFound):
        files.get(id)


@pytest.mark.scenario("ATT-T13")
def test_intents_of_a_process_wait_for_as_long_as_its_row_is_there(
    world: World, store: Any, clock: ManualClock
) -> None:
    files = store.session("s1").attachments
    store.open()
    world.sql(store, "INSERT INTO {process} (id) VALUES (?)", "p1")
    with files.bind_process("p1"):
        id = files.put(b"made by a process").id
    clock.advance(10**12)

    assert store.maintenance.reclaim_attachments(0).reclaimed_count == 0
    assert files.get(id) == b"made by a process"
    world.sql(store, "DELETE FROM {process} WHERE id = ?", "p1")

    assert store.maintenance.reclaim_attachments(0).reclaimed_count == 1
    assert not files.holds(id)


@pytest.mark.scenario("ATT-T14")
def test_a_refreshed_intent_stays(store: Any, clock: ManualClock) -> None:
    for id in (A, B):
        store.attachments.record_intent("s1", id)
    cutoff = clock.now_ms()
    clock.advance(1)
    store.attachments.record_intent("s1", A)

    assert store.maintenance.forget_aged_intents(cutoff) == 1

    assert store.attachments.list_refs() == [A]
    assert store.attachments.is_live(A, cutoff)
    assert not store.attachments.is_live(B, cutoff)


@pytest.mark.scenario("ATT-T14")
def test_an_intent_that_is_refreshed_while_it_is_forgotten_stays(
    durable: World,
) -> None:
    store, clock = durable.open(), durable.clock
    store.attachments.record_intent("s1", A)
    cutoff = clock.now_ms()
    clock.advance(1)
    again: list[bool] = []

    def refresh(name: str, moment: str) -> None:
        if (name, moment) == ("dead_intents", "after") and not again:
            again.append(True)
            durable.real(store).attachments.record_intent("s1", A)

    durable.backend(store).on_statement = refresh
    forgotten = store.maintenance.forget_aged_intents(cutoff)

    assert (again, forgotten) == ([True], 0)
    assert store.attachments.list_refs() == [A]


def test_forgetting_takes_what_is_old_dead_and_unconfirmed_in_batches(
    store: Any, clock: ManualClock
) -> None:
    for number in range(7):
        store.attachments.record_intent(f"s{number % 2}", f"{number:064x}")
    store.attachments.record_intent("s0", A, owner_kind="turn", owner_id="t1")
    store.attachments.record_intent("s0", B)
    store.attachments.commit_refs("s0", [B])

    assert store.maintenance.forget_aged_intents(clock.now_ms() - 1) == 0
    assert store.maintenance.forget_aged_intents(clock.now_ms(), limit=2) == 7
    assert forget(store, clock) == 0
    assert store.attachments.list_refs() == [A, B]


def test_probing_says_which_ids_are_alive(store: Any, clock: ManualClock) -> None:
    now = clock.now_ms()
    store.attachments.record_intent("s1", A)
    store.attachments.record_intent("s2", A, intent_at_ms=now + 1)
    store.attachments.record_intent("s1", B)
    store.attachments.record_intent("s1", C)
    store.attachments.commit_refs("s1", [C])

    assert store.attachments.live_refs([A, B, C, "0" * 64], now) == {A, C}
    assert store.attachments.live_refs([], now) == set()
    with pytest.raises(InvalidArgument):
        store.attachments.live_refs(["0" * 64] * 10_001, now)


@pytest.mark.scenario("MNT-T4")
@pytest.mark.parametrize("of", ["session", "store"])
def test_a_stamp_that_proves_a_death_is_kept(store: Any, clock: ManualClock, of: str) -> None:
    put(store, "s1", turn_commit=turn("t0"))
    store.attachments.record_intent("s1", A, owner_kind="turn", owner_id="t1")
    for number in (1, 2, 3):
        clock.advance(1)
        put(store, "s1", turn_commit=turn(f"later{number}"))

    def prune() -> int:
        if of == "session":
            count: int = store.sessions.prune_turn_commits("s1", EVER)
        else:
            count = store.maintenance.prune_turn_commits(EVER)
        return count

    assert prune() == 1
    left = [f"later{number}" for number in (1, 2, 3)]
    assert all(store.sessions.load_turn_commit("s1", each) for each in left)
    assert forget(store, clock) == 1
    assert prune() == 2
    assert store.sessions.load_turn_commit("s1", left[-1]) is not None


@pytest.mark.parametrize("of", ["session", "store"])
def test_a_stamp_that_proves_no_death_is_dropped(
    world: World, store: Any, clock: ManualClock, of: str
) -> None:
    """A turn's own stamp proves nothing of it, nor does any stamp of a process."""
    store.attachments.record_intent("s1", A, owner_kind="process", owner_id="p1")
    store.attachments.record_intent("s1", B)
    put(store, "s1", turn_commit=turn("t0"))
    put(store, "s1", turn_commit=turn("t1"))
    store.attachments.record_intent("s1", C, owner_kind="turn", owner_id="t1")
    # As if the turn's stamp had not confirmed what it owned.
    world.sql(store, "UPDATE {attachment} SET intent_revision = 1 WHERE attachment_id = ?", C)
    put(store, "s1", turn_commit=turn("t2"))
    clock.advance(1)

    if of == "session":
        count = store.sessions.prune_turn_commits("s1", EVER)
    else:
        count = store.maintenance.prune_turn_commits(EVER)

    assert count == 2
    assert store.sessions.load_turn_commit("s1", "t1") is None
    assert store.sessions.load_turn_commit("s1", "t2") is not None
    assert [id for _, id in uncommitted(store)] == [A, B, C]


# --- with commits, forks, deletion -------------------------------------------------------


def test_an_unstamped_commit_confirms_what_it_names_and_nothing_else(store: Any) -> None:
    store.attachments.record_intent("s1", A)
    store.attachments.record_intent("s1", B, owner_kind="turn", owner_id="t1")

    put(store, "s1", graph=chain("a"), committed_attachment_ids=(A, A))

    assert uncommitted(store) == [("s1", B)]


def test_a_refused_commit_confirms_nothing(store: Any) -> None:
    store.attachments.record_intent("s1", A, owner_kind="turn", owner_id="t1")

    with pytest.raises(Exception, match="head"):
        put(store, "s1", expected_head_revision=7, turn_commit=turn("t1"))

    assert uncommitted(store) == [("s1", A)]


def test_a_repeated_append_that_names_attachments_is_applied(store: Any) -> None:
    put(store, "s1", graph=chain("a"))
    store.attachments.record_intent("s1", A)

    again = put(store, "s1", graph=chain("a"), committed_attachment_ids=[A])

    assert (again.replayed, again.head_revision) == (False, 2)
    assert uncommitted(store) == []


def test_the_ids_of_a_commit_are_checked(world: World, store: Any) -> None:
    create(store)
    before = world.dump(store)
    for wrong, reason in ((["x"], "not_a_sha256"), ([A] * 10_001, "too_large"), (A, "not_a_list")):
        with pytest.raises(InvalidArgument) as refused:
            put(store, "s1", committed_attachment_ids=wrong)
        assert refused.value.field == "committed_attachment_ids"
        assert refused.value.reason == reason
    assert world.dump(store) == before


def test_other_attachments_are_another_commit(store: Any) -> None:
    put(store, "s1", committed_attachment_ids=[A, B], turn_commit=turn("t1"))
    assert put(store, "s1", committed_attachment_ids=(B, A, B), turn_commit=turn("t1")).replayed

    with pytest.raises(Exception, match="committed with other content"):
        put(store, "s1", committed_attachment_ids=[A], turn_commit=turn("t1"))


def test_a_fork_takes_along_what_it_is_told_to(
    world: World, store: Any, clock: ManualClock
) -> None:
    put(store, "s1", graph=chain("a"))
    store.attachments.record_intent("s1", A)
    store.attachments.record_intent("s1", B)
    store.attachments.record_intent("f", A)

    store.sessions.fork("s1", SessionCreate(session_id="f"), attachment_ids=[A, C])

    assert [store.attachments.holds("f", id) for id in (A, B, C)] == [True, False, False]
    assert stamped_at(world, store, "f", A) == clock.now_ms()
    assert uncommitted(store) == [("s1", A), ("s1", B)]


@pytest.mark.scenario("ATT-T20")
def test_a_deleted_session_refers_to_nothing(world: World, store: Any, clock: ManualClock) -> None:
    for session_id, content in (("s1", b"own"), ("s1", b"shared"), ("s2", b"shared")):
        ref = store.attachments.put(session_id, content)
        store.attachments.commit_refs(session_id, [ref.id])
    clock.advance(1)
    store.sessions.delete("s1")

    assert store.attachments.list_refs() == [ref.id]
    assert uncommitted(store) == []
    report = store.maintenance.reclaim_attachments(0)
    assert (report.scanned_blob_count, report.reclaimed_count) == (2, 1)
    create(store)
    assert not store.attachments.holds("s1", ref.id)
    assert store.attachments.get("s2", ref.id) == b"shared"

    store.maintenance.vacuum()
    assert len(world.dump(store)["attachment"]) == 1


@pytest.mark.scenario("ATT-T20")
def test_intents_of_a_deleted_session_keep_nothing_alive(store: Any, clock: ManualClock) -> None:
    with store.attachments.bind_turn("t1"):
        id = store.attachments.put("s1", b"own").id
    clock.advance(1)
    store.sessions.delete("s1")

    assert not store.attachments.is_live(id, clock.now_ms())
    assert forget(store, clock) == 0
    assert store.maintenance.reclaim_attachments(0).reclaimed_count == 1


@pytest.mark.scenario("ATT-T23")
def test_blob_collection_leaves_attachments_alone(store: Any, clock: ManualClock) -> None:
    large = bytes(2_000_000)
    ids = [store.attachments.put("s1", content).id for content in (b"small", large)]
    store.attachments.delete("s1", ids[0])
    orphan = store.blobs.put(b"an orphan")
    clock.advance(10**9)

    report = store.maintenance.collect_garbage()

    assert (report.deleted_blob_count, store.blobs.has(orphan)) == (1, False)
    assert store.attachments.get("s1", ids[1]) == large
    store.attachments.record_intent("s1", ids[0])
    assert store.attachments.get("s1", ids[0]) == b"small"


def test_an_intent_makes_the_session_present_and_not_known(store: Any) -> None:
    store.attachments.record_intent("s1", A)

    assert store.sessions.open("s1") is None
    assert store.sessions.load("s1") is None
    put(store, "s1", graph=chain("a"))
    assert store.attachments.holds("s1", A)


# --- views -------------------------------------------------------------------------------


@pytest.mark.parametrize("again", [False, True], ids=["gone", "created_anew"])
@pytest.mark.parametrize("name", ATTACHMENTS)
def test_a_view_that_outlived_its_session_has_no_attachments(
    world: World, store: Any, name: str, again: bool
) -> None:
    operation: Operation = ATTACHMENTS[name]
    view = store.session("s1")
    view.attachments.record_intent(A)
    store.sessions.delete("s1", force=True)
    if again:
        store.attachments.record_intent("s1", A)
    before = world.dump(store)

    with pytest.raises(SessionDeleted):
        operation(Unnamed(view.attachments), "")

    assert world.dump(store) == before
