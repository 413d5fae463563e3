"""Section 11.4: what a commit completes of the queue must be what the claim has (QUE-19)."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast import (
    InvalidArgument,
    QueuedWorkClaim,
    QueuedWorkClaimSuperseded,
    QueuedWorkCompletion,
)
from holdfast.testing.contract.lanes import (
    enqueue,
    queued,
    settle,
)
from holdfast.testing.contract.samples import chain, lease_on
from holdfast.testing.world import World

JOINS: dict[str, Any] = {"slot_policy": "join", "merge_key": "payload_default"}


def completion(claim: QueuedWorkClaim, **fields: Any) -> QueuedWorkCompletion:
    """What completes a claim, with something changed."""
    given = {name: getattr(claim, name) for name in QueuedWorkCompletion.__struct_fields__}
    return QueuedWorkCompletion(**given | fields)


class Pair:
    """Two batches claimed together under one lease."""

    def __init__(self, store: Any) -> None:
        for name in ("a", "b"):
            enqueue(store, name, **JOINS)
        self.lease = lease_on(store, "s1")
        self.claim = store.queue.claim(self.lease, "idle", 2)


@pytest.fixture
def pair(store: Any) -> Pair:
    return Pair(store)


def superseded(store: Any, lease: Any, *completions: Any) -> QueuedWorkClaimSuperseded:
    """Commit with these completions, which is refused."""
    with pytest.raises(QueuedWorkClaimSuperseded) as refused:
        settle(store, lease, graph=chain("n"), completed_queue_claims=list(completions))
    assert store.sessions.load("s1") is None
    return refused.value


class TestOwned:
    """QUE-19: the rows of the claim must be exactly those that are listed."""

    @pytest.mark.scenario("QUE-T19")
    def test_only_the_right_token_clears_the_rows(
        self, world: World, store: Any, pair: Pair
    ) -> None:
        before = world.dump(store)

        told = superseded(store, pair.lease, completion(pair.claim, claim_token="stale"))

        assert (told.session_id, told.claim_id) == ("s1", pair.claim.claim_id)
        assert told.unowned_batch_ids == pair.claim.batch_ids
        assert world.dump(store) == before
        settle(store, pair.lease, completed_queue_claims=[completion(pair.claim)])
        assert queued(store) == []

    def test_the_token_alone_does_not_make_a_claim(self, store: Any, pair: Pair) -> None:
        told = superseded(store, pair.lease, completion(pair.claim, claim_id="qwc:1:9"))

        assert (told.claim_id, told.unowned_batch_ids) == ("qwc:1:9", pair.claim.batch_ids)

    @pytest.mark.scenario("QUE-T20")
    @pytest.mark.parametrize("which", [0, 1])
    def test_a_part_of_a_claim_cannot_be_completed(
        self, world: World, store: Any, pair: Pair, which: int
    ) -> None:
        before = world.dump(store)
        part = completion(pair.claim, batch_ids=[pair.claim.batch_ids[which]])

        with pytest.raises(InvalidArgument) as refused:
            settle(store, pair.lease, graph=chain("n"), completed_queue_claims=[part])

        assert (refused.value.field, refused.value.reason) == ("batch_ids", "partial completion")
        assert world.dump(store) == before

    @pytest.mark.scenario("QUE-T20")
    @pytest.mark.parametrize("foreign", ["unknown", "unclaimed", "of another session"])
    def test_a_foreign_batch_is_named(
        self, world: World, store: Any, pair: Pair, foreign: str
    ) -> None:
        other = "s2" if foreign == "of another session" else "s1"
        batch_id = enqueue(store, "foreign", session_id=other).batch_id
        if foreign == "unknown":
            batch_id = "qwb:unknown"
        before = world.dump(store)

        told = superseded(
            store,
            pair.lease,
            completion(pair.claim, batch_ids=[*pair.claim.batch_ids, batch_id]),
        )

        assert told.unowned_batch_ids == [batch_id]
        assert world.dump(store) == before

    def test_a_batch_of_another_claim_is_foreign(self, store: Any, pair: Pair) -> None:
        enqueue(store, "c")
        other = store.queue.claim(pair.lease)

        told = superseded(
            store,
            pair.lease,
            completion(pair.claim, batch_ids=[*pair.claim.batch_ids, *other.batch_ids]),
        )

        assert told.unowned_batch_ids == other.batch_ids

    def test_what_is_foreign_is_told_before_what_is_left_out(self, store: Any, pair: Pair) -> None:
        told = superseded(
            store,
            pair.lease,
            completion(pair.claim, batch_ids=[pair.claim.batch_ids[0], "qwb:unknown"]),
        )

        assert told.unowned_batch_ids == ["qwb:unknown"]

    def test_the_order_of_the_ids_is_of_no_account(self, store: Any, pair: Pair) -> None:
        backwards = completion(pair.claim, batch_ids=[*reversed(pair.claim.batch_ids)])

        settle(store, pair.lease, completed_queue_claims=[backwards])

        assert queued(store) == []

    @pytest.mark.parametrize("given", ["claim", "completion"])
    def test_a_claim_and_its_completion_settle_alike(
        self, store: Any, pair: Pair, given: str
    ) -> None:
        shown = pair.claim if given == "claim" else completion(pair.claim)

        done = settle(store, pair.lease, completed_queue_claims=[shown])

        assert (done.head_revision, queued(store)) == (1, [])

    def test_a_commit_settles_several_claims(self, store: Any, pair: Pair) -> None:
        enqueue(store, "command", payloads=[{"type": "session_command", "name": "command"}])
        enqueue(store, "kept")
        command = store.queue.claim_command(pair.lease)

        settle(store, pair.lease, completed_queue_claims=[command, pair.claim])

        assert queued(store) == ["kept"]

    def test_one_stale_claim_keeps_the_sound_ones(
        self, world: World, store: Any, pair: Pair
    ) -> None:
        enqueue(store, "c")
        stale = store.queue.claim(pair.lease)
        store.queue.abandon(stale)
        before = world.dump(store)

        told = superseded(store, pair.lease, pair.claim, stale)

        assert (told.claim_id, told.unowned_batch_ids) == (stale.claim_id, stale.batch_ids)
        assert world.dump(store) == before

    def test_a_claim_is_completed_once(self, store: Any, pair: Pair) -> None:
        settle(store, pair.lease, completed_queue_claims=[pair.claim])

        with pytest.raises(QueuedWorkClaimSuperseded) as refused:
            settle(store, pair.lease, completed_queue_claims=[pair.claim])

        assert refused.value.unowned_batch_ids == pair.claim.batch_ids

    @pytest.mark.parametrize("part", ["claim_token", "batch_ids"])
    def test_the_refusal_shows_no_token(self, store: Any, pair: Pair, part: str) -> None:
        wrong: dict[str, Any] = {"claim_token": "f" * 32, "batch_ids": ["qwb:unknown"]}
        given = completion(pair.claim, **{part: wrong[part]})

        told = superseded(store, pair.lease, given)

        shown = f"{told}{told!r}{vars(told)}{given}"
        assert given.claim_token not in shown
        assert pair.claim.claim_token not in shown
