"""Random operations on the queues of a few sessions, compared with a model after every step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from holdfast import ANY, Lease, QueuedWorkCompletion, RuntimeCommit
from holdfast.testing.world import make_world
from tests.unit.graph_model import Refusal
from tests.unit.queue_draws import SESSIONS, brief, draft
from tests.unit.queue_model import Batch, Known, ModelQueue
from tests.unit.queue_walk import Pair, rows, shown, without_id

RUNS = [("memory", seed, 300) for seed in range(6)]
RUNS += [("postgres", seed, 120) for seed in range(100, 102)]


@pytest.mark.invariant("INV-40", "INV-43")
@pytest.mark.parametrize(("database", "seed", "steps"), RUNS)
def test_the_queue_agrees_with_the_model(database: str, seed: int, steps: int) -> None:
    with make_world(database, "blocking") as world:
        walk = Walk(world, seed)
        for _ in range(steps):
            walk.step()
        walk.leave_nothing()


class Walk(Pair):
    """Moves a store and its model through the same operations."""

    def step(self) -> None:
        actions = {
            self.enqueue: 16, self.enqueue_many: 10, self.take_lease: 16, self.release: 3,
            self.advance: 10, self.claim: 22, self.claim_command: 7, self.claim_exactly: 10,
            self.abandon: 4, self.abandon_many: 2, self.cancel: 4, self.commit: 14,
            self.commit_alone: 5, self.prune: 3, self.prune_all: 2, self.delete: 1,
            self.submit: 2, self.withdraw: 2, self.damage: 3, self.mend: 6,
        }  # fmt: skip
        (action,) = self.random.choices(list(actions), list(actions.values()))
        session_id = self.random.choice(SESSIONS)
        self.log.append(f"{self.now % 100_000} {session_id}: {action.__name__}")
        action(session_id)
        self.compare()

    # --- enqueue and cancel ------------------------------------------------------------

    def drawn(self, session_id: str) -> Any:
        return draft(self.random, session_id, self.now)

    def enqueue(self, session_id: str) -> None:
        given = self.drawn(session_id)
        outcomes = self.same(
            lambda: self.known(session_id).expects(given),
            lambda: self.store.queue.enqueue(given),
            brief(given),
        )
        if outcomes is not None:
            self.stored([given], [outcomes[1]])

    def enqueue_many(self, _: str) -> None:
        drafts = [self.drawn(self.random.choice(SESSIONS)) for _ in range(3)]
        outcomes = self.same(
            lambda: [self.known(each.session_id).expects(each) for each in drafts],
            lambda: self.store.queue.enqueue_many(drafts),
            [f"{each.session_id}: {brief(each)}" for each in drafts],
        )
        if outcomes is not None:
            self.stored(drafts, outcomes[1])

    def stored(self, drafts: list[Any], outcomes: list[Any]) -> None:
        """Enter into the model what was enqueued, one after the other."""
        for given, outcome in zip(drafts, outcomes, strict=True):
            queue = self.at(given.session_id)
            wanted = queue.expects(given, shown=False)
            found = Known(outcome.created, outcome.content_matches, outcome.settled)
            assert found == without_id(wanted), self.told()
            assert wanted.batch_id in (None, outcome.batch_id), self.told()
            if wanted.created:
                assert outcome.batch_id not in self.batch_ids
                self.batch_ids.append(outcome.batch_id)
                queue.rows.append(Batch(outcome.batch_id, given, self.now))

    def cancel(self, session_id: str) -> None:
        batch_id = self.random.choice(self.near(session_id))
        removed = self.known(session_id).cancel(batch_id, self.now)
        found = self.store.queue.cancel(session_id, batch_id)
        assert (found is None) == (removed is None), self.told()
        if removed is not None and removed.damaged:
            assert [item.payload[-2:] for item in found.items] == ["]!"], self.told()
        elif removed is not None:
            assert shown(found) == rows([removed])[0], self.told()

    # --- claims ------------------------------------------------------------------------

    def claim(self, session_id: str) -> None:
        boundary = self.random.choice(["idle", "idle", "active_turn_checkpoint"])
        maximum = self.random.choice([0, 1, 2, 3, 10, 10])
        if maximum == 0:
            lease = self.lease(session_id)
            assert lease is None or self.store.queue.claim(lease, boundary, 0) is None
            return
        self.claiming(
            session_id,
            lambda queue, lease: queue.leading(lease, boundary, maximum, self.now),
            lambda lease: self.store.queue.claim(lease, boundary, maximum),
            (boundary, maximum),
        )

    def claim_command(self, session_id: str) -> None:
        self.claiming(
            session_id,
            lambda queue, lease: queue.command(lease, self.now),
            self.store.queue.claim_command,
            "",
        )

    def claim_exactly(self, session_id: str) -> None:
        boundary = self.random.choice(["idle", "idle", "active_turn_checkpoint"])
        ids = self.run(session_id)
        self.random.shuffle(ids)
        self.claiming(
            session_id,
            lambda queue, lease: queue.exactly(lease, boundary, ids, self.now),
            lambda lease: self.store.queue.claim_exactly(lease, boundary, ids),
            (boundary, ids),
        )

    def run(self, session_id: str) -> list[str]:
        """Ids of a few batches that follow each other, now and then with one of anywhere."""
        pending = [row.batch_id for row in self.known(session_id).pending(self.now)]
        start = self.random.randint(0, len(pending))
        ids = pending[start : start + self.random.randint(1, 3)]
        if not ids or self.random.random() < 0.2:
            ids.append(self.random.choice(self.near(session_id)))
        return list(dict.fromkeys(ids))

    def claiming(self, session_id: str, expected: Any, actual: Any, what: Any) -> None:
        lease = self.lease(session_id)
        if lease is None:
            return
        queue = self.model.get(lease.session_id)
        outcomes = self.same(
            lambda: expected(queue, lease) if queue else gone(), lambda: actual(lease), what
        )
        if outcomes is None:
            return
        taken, claim = outcomes
        self.log[-1] += f" -> {[row.batch_id[-4:] for row in taken]}"
        assert (claim is None) == (not taken), self.told()
        if claim is not None:
            self.claimed(lease, taken, claim)

    def claimed(self, lease: Lease, taken: list[Batch], claim: Any) -> None:
        """QUE-15."""
        for row in taken:
            row.claim = claim
            row.claim_count += 1
        assert list(map(shown, claim.batches)) == rows(taken), self.told()
        assert claim.claim_count == taken[0].claim_count, self.told()
        assert claim.claim_id == f"qwc:{claim.batches[0].enqueue_seq}:{claim.claim_count}"
        assert claim.session_lease_generation == lease.generation, self.told()
        assert claim.claim_token not in [each.claim_token for each in self.claims]
        self.claims.append(claim)

    def some_claims(self, session_id: str) -> list[Any]:
        """A few claims, mostly those that still own something, all of one session."""
        own = [row.claim for row in self.known(session_id).rows if row.claim is not None]
        old = [claim for claim in self.claims if claim.session_id == session_id][-5:]
        found = {each.claim_id: each for each in self.random.sample(own, min(len(own), 2))}
        if old and self.random.random() < 0.2:
            one = self.random.choice(old)
            found.setdefault(one.claim_id, one)
        return list(found.values())

    def abandon(self, session_id: str) -> None:
        for claim in self.some_claims(session_id)[:1]:
            self.abandoning([claim], lambda claim=claim: self.store.queue.abandon(claim))

    def abandon_many(self, _: str) -> None:
        claims = [claim for each in SESSIONS for claim in self.some_claims(each)]
        self.abandoning(claims, lambda: self.store.queue.abandon_many(claims))

    def abandoning(self, claims: list[Any], act: Callable[[], int]) -> None:
        expected = sum(self.known(each.session_id).abandon(each) for each in claims)
        assert act() == expected, self.told()

    # --- commits and retention ---------------------------------------------------------

    def commit(self, session_id: str) -> None:
        lease = self.lease(session_id)
        if lease is None:
            return
        release = self.random.random() < 0.2
        fields = {
            "session_execution_lease": lease,
            "release_session_execution_lease": release,
        }

        def enters(queue: ModelQueue | None) -> None:
            if queue is None:
                gone()
            else:
                queue.judge(lease, self.now)

        if (
            self.committing(lease.session_id, enters, self.store.sessions.commit, fields)
            and release
        ):
            self.known(lease.session_id).releases(lease)

    def commit_alone(self, session_id: str) -> None:
        def enters(queue: ModelQueue | None) -> None:
            if queue is not None and queue.live(self.now):
                raise Refusal("session_busy")

        act = self.store.sessions.commit_with_fresh_lease
        if self.committing(session_id, enters, act, {}):
            queue = self.at(session_id)
            queue.generation, queue.holder = queue.generation + 1, None

    def committing(self, session_id: str, enters: Any, act: Any, fields: dict[str, Any]) -> bool:
        """A commit that completes claims and sends follow-up work; whether it applied."""
        claims = self.some_claims(session_id)
        listed = [self.listed(claim) for claim in claims]
        outbox = [self.drawn(session_id) for _ in range(self.random.choice([0, 0, 1, 3]))]
        given = RuntimeCommit(
            session_id=session_id,
            expected_head_revision=ANY,
            completed_queue_claims=[
                QueuedWorkCompletion(
                    session_id=session_id,
                    claim_id=claim.claim_id,
                    claim_token=claim.claim_token,
                    batch_ids=ids,
                )
                for claim, ids in zip(claims, listed, strict=True)
            ],
            enqueued_queue_batches=outbox,
            **fields,
        )

        def expected() -> bool:
            enters(self.model.get(session_id))
            self.known(session_id).may_complete(claims, listed)
            return True

        what = ([claim.claim_id for claim in claims], list(map(brief, outbox)))
        outcomes = self.same(expected, lambda: act(given), what)
        if outcomes is None:
            return False
        self.at(session_id).complete(claims, self.now)
        self.stored(outbox, outcomes[1].enqueued_queue_batches)
        return True

    def listed(self, claim: Any) -> list[str]:
        """The batches of a claim, now and then one too few or too many."""
        ids: list[str] = claim.batch_ids
        chance = self.random.random()
        if chance < 0.2 and len(ids) > 1:
            return ids[1:]
        if chance > 0.95:
            return sorted({*ids, self.random.choice(self.batch_ids)})
        return ids

    def prune(self, session_id: str) -> None:
        older_than_ms = self.now - self.random.choice([-1, 0, 20])
        expected = self.known(session_id).prune(older_than_ms)
        limit = self.random.choice([1, 1_000])
        found = self.store.sessions.prune_settled_source_keys(
            session_id, older_than_ms, limit=limit
        )
        assert found == expected, self.told()

    def prune_all(self, _: str) -> None:
        older_than_ms = self.now - 20
        expected = sum(queue.prune(older_than_ms) for queue in self.model.values())
        found = self.store.maintenance.prune_settled_source_keys(older_than_ms, limit=2)
        assert found == expected, self.told()

    def delete(self, session_id: str) -> None:
        known = self.model.pop(session_id, None) is not None
        assert self.store.sessions.delete(session_id, force=True).deleted == known, self.told()

    def leave_nothing(self) -> None:
        """Without sessions a vacuum leaves no row of any queue."""
        self.log.append("the end")
        for session_id in SESSIONS:
            self.delete(session_id)
        self.store.maintenance.vacuum()
        for table in ("session", "work", "readiness", "turn_input", "removal"):
            assert self.world.sql(self.store, f"SELECT count(*) FROM {{{table}}}") == [(0,)], table


def gone() -> Any:
    """What a lease is worth whose session has no row."""
    raise Refusal("lease_lost", "missing")
