"""Section 11.2 under contention: one batch a key, places in commit order, and late answers."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from holdfast import HoldfastError, SessionDeleted
from holdfast.testing.contract.lanes import enqueue, names, queued, settle, work
from holdfast.testing.contract.samples import lease_on, put
from holdfast.testing.contract.test_backends_waiting import DELETED, after
from holdfast.testing.contract.test_inputs_races import stores
from holdfast.testing.contract.test_queue_keys import keyed
from holdfast.testing.world import World, racing

#: What somebody else does in the section while others wait for it.
ENTERED = "UPDATE {session} SET generation = generation"
SETTLED = "UPDATE {work} SET settled_at_ms = 1, payloads = NULL WHERE source_key = 'k'"
REMOVED = "DELETE FROM {work} WHERE source_key = 'k'"
GONE = (*DELETED, "DELETE FROM {work}", "DELETE FROM {readiness}")

#: The ways to enqueue one draft; what came of it.
ENQUEUES: dict[str, Callable[[Any, Any], Any]] = {
    "one": lambda store, draft: store.queue.enqueue(draft),
    "many": lambda store, draft: _told(store.queue.enqueue_many([draft])),
    "view": lambda store, draft: store.session("s1").queue.enqueue(draft),
}


def _told(outcomes: list[Any]) -> Any:
    (outcome,) = outcomes
    return outcome


@pytest.mark.invariant("INV-42")
@pytest.mark.scenario("QUE-T2")
@pytest.mark.parametrize("name", ENQUEUES)
def test_twenty_at_once_under_one_key_make_one_batch(world: World, name: str) -> None:
    own = stores(world, 4)

    found = racing(20, lambda n: ENQUEUES[name](own[n % 4], keyed()))

    (batch,) = own[0].queue.list("s1")
    assert [outcome.batch for outcome in found] == [batch] * 20
    assert {outcome.batch_id for outcome in found} == {batch.batch_id}
    assert sorted(outcome.created for outcome in found) == [False] * 19 + [True]
    assert world.sql(own[0], "SELECT count(*) FROM {work}") == [(1,)]


@pytest.mark.scenario("QUE-T2")
def test_of_different_contents_at_once_one_is_stored_and_told_to_all(world: World) -> None:
    own = stores(world, 4)

    found = racing(20, lambda n: own[n % 4].queue.enqueue(keyed(name=str(n))))

    (stored,) = queued(own[0])
    for number, outcome in enumerate(found):
        assert names([outcome.batch]) == [stored]
        assert outcome.created == outcome.content_matches == (str(number) == stored)


def test_a_key_wanted_by_a_commit_and_by_others_at_once_is_one_batch(world: World) -> None:
    own = stores(world, 4)

    def act(number: int) -> Any:
        if number % 2:
            return own[number % 4].queue.enqueue(keyed())
        sent = put(own[number % 4], "s1", enqueued_queue_batches=[keyed()])
        return sent.enqueued_queue_batches[0]

    found = racing(8, act)

    (batch,) = own[0].queue.list("s1")
    assert {outcome.batch_id for outcome in found} == {batch.batch_id}
    assert sorted(outcome.created for outcome in found) == [False] * 7 + [True]


@pytest.mark.invariant("INV-41")
def test_whoever_follows_a_queue_misses_nothing(world: World) -> None:
    """QUE-3: no batch turns up behind one that was seen already."""
    own = stores(world, 5)
    writing = set(range(4))
    followed: list[str] = []

    def write(number: int) -> None:
        try:
            for each in range(12):
                name = f"{number}-{each}"
                if each % 3 == 0:
                    enqueue(own[number], name)
                elif each % 3 == 1:
                    own[number].queue.enqueue_many([work(name), work(name, f"aside-{number}")])
                else:
                    put(own[number], "s1", enqueued_queue_batches=[work(name)])
        finally:
            writing.discard(number)

    def follow() -> None:
        last = 0
        while True:
            over = not writing
            page = own[4].queue.list("s1", after_seq=last)
            followed.extend(names(page))
            last = page[-1].enqueue_seq if page else last
            if over and not page:
                return

    answers = racing(5, lambda number: write(number) if number < 4 else follow())

    assert answers == [None] * 5
    assert followed == names(own[0].queue.list("s1"))
    assert sorted(followed) == sorted(f"{n}-{each}" for n in range(4) for each in range(12))


@pytest.mark.invariant("INV-35")
def test_many_drafts_crosswise_do_not_wait_for_each_other_for_ever(world: World) -> None:
    own = stores(world, 4)
    sessions = ["s1", "s2", "s3"]

    def act(number: int) -> None:
        order = sessions if number % 2 else sessions[::-1]
        for each in range(10):
            drafts = [work(f"{number}-{each}", id, source_key=f"{each}") for id in order]
            own[number].queue.enqueue_many(drafts)

    assert racing(4, act) == [None] * 4
    for session_id in sessions:
        keys = [batch.source_key for batch in own[0].queue.list(session_id)]
        assert keys == [f"{each}" for each in range(10)]


@pytest.mark.scenario("QUE-T31")
@pytest.mark.parametrize("name", ENQUEUES)
def test_a_key_settled_while_an_enqueue_waited_is_settled(
    world: World, store: Any, name: str
) -> None:
    first = store.queue.enqueue(keyed())

    outcome = after(world, store, ENTERED, SETTLED, act=lambda: ENQUEUES[name](store, keyed()))

    assert (outcome.settled, outcome.created, outcome.batch) == (True, False, None)
    assert outcome.batch_id == first.batch_id
    assert store.queue.list("s1") == []


@pytest.mark.scenario("QUE-T31")
def test_enqueues_racing_the_completion_of_their_key_make_no_second_batch(world: World) -> None:
    own = stores(world, 3)
    for number in range(12):
        session_id = f"s{number}"
        first = own[0].queue.enqueue(keyed(session_id=session_id))
        lease = lease_on(own[0], session_id)
        claim = own[0].queue.claim(lease)

        def act(who: int, lease: Any = lease, claim: Any = claim, id: str = session_id) -> Any:
            if who == 0:
                return settle(own[0], lease, completed_queue_claims=[claim])
            return own[who].queue.enqueue(keyed(session_id=id))

        _, *outcomes = racing(3, act)

        for outcome in outcomes:
            assert (outcome.created, outcome.batch_id) == (False, first.batch_id)
            assert outcome.settled == (outcome.batch is None)
        assert own[0].queue.list(session_id) == []


@pytest.mark.scenario("BAK-T7")
@pytest.mark.parametrize("name", ENQUEUES)
def test_a_key_freed_while_an_enqueue_waited_is_free(world: World, store: Any, name: str) -> None:
    first = store.queue.enqueue(keyed(dedupe="pending"))

    outcome = after(world, store, ENTERED, REMOVED, act=lambda: ENQUEUES[name](store, keyed()))

    assert outcome.created
    assert outcome.batch_id != first.batch_id
    assert store.queue.list("s1") == [outcome.batch]


@pytest.mark.scenario("BAK-T7")
@pytest.mark.parametrize("name", ENQUEUES)
def test_an_enqueue_that_waited_for_a_deletion_begins_the_session_anew(
    world: World, store: Any, name: str
) -> None:
    store.queue.enqueue(keyed(name="before"))

    outcome = after(world, store, *GONE, act=lambda: ENQUEUES[name](store, keyed(name="after")))

    assert (outcome.created, queued(store)) == (True, ["after"])
    assert [each.session_id for each in store.queue.ready_sessions()] == ["s1"]
    assert lease_on(store, "s1").generation == 1


@pytest.mark.scenario("BAK-T7")
@pytest.mark.parametrize(
    "act",
    [
        lambda view, _: view.queue.enqueue(work()),
        lambda view, _: view.queue.enqueue(keyed()),
        lambda view, batch: view.queue.cancel(batch.batch_id),
    ],
    ids=["enqueue", "enqueue a key", "cancel"],
)
def test_a_view_notices_a_deletion_it_waited_for(
    world: World, store: Any, act: Callable[[Any, Any], Any]
) -> None:
    view = store.session("s1")
    batch = view.queue.enqueue(keyed()).batch

    outcome = after(world, store, *GONE, act=lambda: act(view, batch))

    assert isinstance(outcome, SessionDeleted)
    assert store.queue.list("s1") == []


@pytest.mark.scenario("BAK-T7")
def test_a_cancellation_meets_the_completion_that_came_first(world: World, store: Any) -> None:
    batch = store.queue.enqueue(keyed()).batch

    found = after(
        world, store, ENTERED, SETTLED, act=lambda: store.queue.cancel("s1", batch.batch_id)
    )

    assert found is None
    assert store.queue.enqueue(keyed()).settled


def test_of_racing_cancellations_one_gets_the_batch(world: World) -> None:
    own = stores(world, 4)
    batch = enqueue(own[0]).batch

    found = racing(8, lambda n: own[n % 4].queue.cancel("s1", batch.batch_id))

    assert [each for each in found if each is not None] == [batch]


def test_enqueues_racing_deletions_belong_to_one_session_or_the_next(world: World) -> None:
    """FAC-8: every enqueue that was answered after the last deletion is there."""
    own = stores(world, 3)
    deleted = threading.Event()

    def act(number: int) -> list[str]:
        if number == 0:
            for _ in range(15):
                own[0].sessions.delete("s1")
            deleted.set()
            return []
        kept = []
        for each in range(30):
            since = deleted.is_set()
            outcome = own[number].queue.enqueue(work(source_key=f"{number}-{each % 7}"))
            assert outcome.batch is not None
            if since:
                kept.append(outcome.batch_id)
        return kept

    found = racing(3, act)

    assert not [each for each in found if isinstance(each, HoldfastError)]
    listed = {batch.batch_id for batch in own[0].queue.list("s1")}
    assert {id for kept in found for id in kept} <= listed
    own[0].sessions.delete("s1")
    assert own[0].queue.list("s1") == []
    own[0].maintenance.vacuum()
    assert world.sql(own[0], "SELECT count(*) FROM {work}") == [(0,)]
