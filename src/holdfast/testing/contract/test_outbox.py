"""The outbox of a commit: follow-up work is enqueued with it, or not at all (COM-2)."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast import EnqueueOutcome, HeadRevisionConflict, InvalidArgument, QueuedWorkBatchDraft
from holdfast.testing.contract.lanes import enqueue, queued, settle, submit, work
from holdfast.testing.contract.samples import (
    chain,
    checkpoint,
    commit,
    create,
    lease_on,
    put,
    turn,
)
from holdfast.testing.world import World


def sent(store: Any, *drafts: QueuedWorkBatchDraft, **fields: Any) -> list[EnqueueOutcome]:
    """The outcomes of an outbox."""
    outcomes: list[EnqueueOutcome] = put(
        store, "s1", enqueued_queue_batches=list(drafts), **fields
    ).enqueued_queue_batches
    return outcomes


def brief(outcomes: list[EnqueueOutcome]) -> list[tuple[bool, bool, bool]]:
    """Created, content matches, settled."""
    assert [each.batch for each in outcomes] == [None] * len(outcomes)
    return [(each.created, each.content_matches, each.settled) for each in outcomes]


CREATED, KNOWN, DIFFERS, SETTLED = (
    (True, True, False),
    (False, True, False),
    (False, False, False),
    (False, True, True),
)


@pytest.mark.scenario("COM-T12")
def test_a_batch_is_queued_with_its_commit_and_once(store: Any, world: World) -> None:
    drafts = [work("a", source_key="k"), work("b"), work("c", available_at_ms=2**50)]
    whole = {"graph": chain("n"), "turn_commit": turn("t1"), "enqueued_queue_batches": drafts}

    first = put(store, "s1", **whole)

    listed = store.queue.list("s1")
    assert queued(store) == ["a", "b", "c"]
    assert [each.batch_id for each in first.enqueued_queue_batches] == [b.batch_id for b in listed]
    assert brief(first.enqueued_queue_batches) == [CREATED] * 3
    assert {batch.enqueued_at_ms for batch in listed} == {world.clock.now_ms()}
    again = put(store, "s1", **whole)
    assert again.replayed
    assert again.enqueued_queue_batches == first.enqueued_queue_batches
    assert store.queue.list("s1") == listed


@pytest.mark.scenario("COM-T12")
def test_a_replay_returns_the_original_ids_though_the_work_is_done(store: Any) -> None:
    lease = lease_on(store, "s1")
    drafts = [work("a", source_key="k", dedupe="pending"), work("b")]
    whole = {"turn_commit": turn("t1"), "enqueued_queue_batches": drafts}
    first = settle(store, lease, **whole)
    claims = [store.queue.claim(lease) for _ in drafts]
    settle(store, lease, completed_queue_claims=claims)
    assert queued(store) == []

    again = settle(store, lease, **whole)

    assert again.replayed
    assert again.enqueued_queue_batches == first.enqueued_queue_batches
    assert queued(store) == []
    stamp = store.sessions.load_turn_commit("s1", "t1")
    assert stamp.result.enqueued_queue_batches == first.enqueued_queue_batches


def test_a_refused_commit_enqueues_nothing(world: World, store: Any) -> None:
    create(store)
    before = world.dump(store)

    with pytest.raises(HeadRevisionConflict):
        sent(store, work("a"), expected_head_revision=3)

    assert world.dump(store) == before


def test_a_known_key_is_the_batch_it_names(store: Any) -> None:
    stored = enqueue(store, "a", source_key="k")

    same, other, fresh = sent(
        store, work("a", source_key="k"), work("b", source_key="k"), work("c", source_key="k2")
    )

    assert brief([same, other, fresh]) == [KNOWN, DIFFERS, CREATED]
    assert {same.batch_id, other.batch_id} == {stored.batch_id}
    assert queued(store) == ["a", "c"]


def test_a_key_twice_in_one_outbox_is_one_batch(store: Any) -> None:
    outcomes = sent(
        store, work("a", source_key="k"), work("a", source_key="k"), work("b", source_key="k")
    )

    assert brief(outcomes) == [CREATED, KNOWN, DIFFERS]
    assert len({each.batch_id for each in outcomes}) == 1
    assert queued(store) == ["a"]


def test_without_keys_equal_drafts_are_batches_of_their_own(store: Any) -> None:
    outcomes = sent(store, work("a"), work("a"))

    assert brief(outcomes) == [CREATED, CREATED]
    assert queued(store) == ["a", "a"]


class TestKeysOfCompletedWork:
    """Source keys of what the same commit completes, under both modes (QUE-5)."""

    def handed_on(
        self, store: Any, before: str, after: str, **stored: Any
    ) -> tuple[str, EnqueueOutcome]:
        """Complete a batch and enqueue its key again in one commit."""
        first = enqueue(store, "a", source_key="k", dedupe=before, **stored)
        lease = lease_on(store, "s1")
        done = settle(
            store,
            lease,
            release_session_execution_lease=True,
            completed_queue_claims=[store.queue.claim(lease)],
            enqueued_queue_batches=[work("a", source_key="k", dedupe=after)],
        )
        (outcome,) = done.enqueued_queue_batches
        return first.batch_id, outcome

    @pytest.mark.parametrize("after", ["once", "pending"])
    def test_a_key_that_counts_once_is_settled(self, store: Any, after: str) -> None:
        batch_id, outcome = self.handed_on(store, "once", after)

        assert brief([outcome]) == [SETTLED]
        assert outcome.batch_id == batch_id
        assert queued(store) == []
        assert store.queue.enqueue(work("a", source_key="k")).settled

    @pytest.mark.parametrize("after", ["once", "pending"])
    def test_a_key_that_counts_while_it_pends_is_free_again(self, store: Any, after: str) -> None:
        batch_id, outcome = self.handed_on(store, "pending", after)

        assert brief([outcome]) == [CREATED]
        assert outcome.batch_id != batch_id
        (batch,) = store.queue.list("s1")
        assert (batch.batch_id, batch.dedupe) == (outcome.batch_id, after)

    def test_a_settled_key_with_other_content_says_so(self, store: Any) -> None:
        self.handed_on(store, "once", "once")

        (outcome,) = sent(store, work("other", source_key="k"))

        assert brief([outcome]) == [(False, False, True)]
        assert queued(store) == []

    def test_a_key_settled_before_is_settled(self, store: Any) -> None:
        batch_id, _ = self.handed_on(store, "once", "once")

        outcomes = sent(store, *[work("a", source_key="k", dedupe="pending")] * 2)

        assert brief(outcomes) == [SETTLED, SETTLED]
        assert {each.batch_id for each in outcomes} == {batch_id}

    def test_work_without_a_key_leaves_nothing_behind(self, store: Any, world: World) -> None:
        enqueue(store, "a")
        enqueue(store, "b", source_key="k", dedupe="pending")
        lease = lease_on(store, "s1")
        claims = [store.queue.claim(lease) for _ in range(2)]

        settle(store, lease, completed_queue_claims=claims)

        assert world.sql(store, "SELECT count(*) FROM {work}") == [(0,)]

    def test_a_receipt_keeps_no_content(self, store: Any, world: World) -> None:
        self.handed_on(store, "once", "once")

        rows = world.sql(
            store, "SELECT source_key, payloads, claim_token, claim_id, settled_at_ms FROM {work}"
        )

        assert rows == [("k", None, None, None, world.clock.now_ms())]


def test_an_outbox_goes_with_everything_else_of_a_first_commit(store: Any) -> None:
    done = put(
        store,
        "s1",
        expected_head_revision=0,
        graph=chain("a"),
        checkpoint=checkpoint(),
        enqueued_queue_batches=[work("follow-up")],
    )

    assert (done.head_revision, queued(store)) == (1, ["follow-up"])
    assert [each.session_id for each in store.queue.ready_sessions()] == ["s1"]


def test_a_handoff_reaches_the_next_idle_claim(store: Any) -> None:
    lease = lease_on(store, "s1")
    submit(store, "hi", "t1")
    draft = work("handoff", source_key="agent-frame-handoff:t1")

    settle(store, lease, enqueued_queue_batches=[draft], interrupted_turn_input_turn_id="t1")

    assert store.queue.claim(lease, "active_turn_checkpoint") is None
    assert store.queue.claim(lease, "idle").batches[0].source_key == "agent-frame-handoff:t1"


@pytest.mark.parametrize(
    ("drafts", "field"),
    [
        ([work(payloads=[])], "enqueued_queue_batches[0].payloads"),
        ([work(), work(available_at_ms=-1)], "enqueued_queue_batches[1].available_at_ms"),
        (["draft"], "enqueued_queue_batches[0]"),
        ([work()] * 1_001, "enqueued_queue_batches"),
    ],
    ids=["empty", "negative", "not one", "too many"],
)
def test_an_invalid_draft_refuses_the_commit_before_any_io(
    world: World, store: Any, drafts: Any, field: str
) -> None:
    store.sessions.list()
    world.backend(store).counts.clear()

    with pytest.raises(InvalidArgument) as refused:
        store.sessions.commit_with_fresh_lease(commit("s1", enqueued_queue_batches=drafts))

    assert refused.value.field == field
    assert not +world.backend(store).counts
