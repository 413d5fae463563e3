"""Section 6.5 and 6.6: a turn is committed once, however often it is tried."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from holdfast import (
    Append,
    CheckpointDraft,
    Node,
    QueuedWorkCompletion,
    RuntimeCommit,
    RuntimeTurnCommitConflict,
    TokenLedgerEntry,
    TokenUsage,
    turn_commit_hash,
)
from holdfast.testing.contract.samples import (
    ALICE,
    BOB,
    chain,
    checkpoint,
    commit,
    lease_on,
    message,
    path_ids,
    put,
    spent,
    turn,
)
from holdfast.testing.world import World, racing


def first_turn(**fields: Any) -> RuntimeCommit:
    """A stamped first commit with something of everything in it."""
    given: dict[str, Any] = {
        "expected_head_revision": 0,
        "turn_commit": turn("t1"),
        "graph": chain("a", "b"),
        "config": {"model": "m"},
        "checkpoint": checkpoint(1, tool_state=b"abc"),
        "usage_deltas": [spent("chat", "m", 3, 2)],
    }
    return commit("s1", **given | fields)


def counted(store: Any) -> list[TokenLedgerEntry]:
    """What the session has used."""
    ledger: list[TokenLedgerEntry] = store.sessions.load("s1").token_ledger
    return ledger


@pytest.mark.invariant("INV-18")
@pytest.mark.scenario("COM-T6", "USE-T4")
def test_a_turn_repeated_without_its_lease_is_answered_as_before(store: Any) -> None:
    lease = lease_on(store, "s1")
    first = store.sessions.commit(
        first_turn(session_execution_lease=lease, release_session_execution_lease=True)
    )
    before = store.sessions.load("s1")

    again = store.sessions.commit(first_turn())

    assert (first.replayed, again.replayed) == (False, True)
    assert msgspec.structs.replace(again, replayed=False) == first
    assert again.checkpoint_ref == before.checkpoint_ref is not None
    assert store.sessions.load("s1") == before
    assert counted(store) == [spent("chat", "m", 3, 2)]


@pytest.mark.scenario("COM-T7")
def test_a_turn_id_with_other_content_is_refused_with_both_hashes(store: Any) -> None:
    lease = lease_on(store, "s1")
    store.sessions.commit(first_turn(session_execution_lease=lease))
    other = first_turn(
        checkpoint=checkpoint(2, tool_state=b"abc"),
        session_execution_lease=lease,
        release_session_execution_lease=True,
    )

    with pytest.raises(RuntimeTurnCommitConflict) as refused:
        store.sessions.commit(other)

    conflict = refused.value
    assert (conflict.session_id, conflict.turn_id) == ("s1", "t1")
    assert conflict.stored_hash == turn_commit_hash(first_turn())
    assert conflict.attempted_hash == turn_commit_hash(other) != conflict.stored_hash
    assert store.sessions.lease("s1").live


class TestReleaseOfAReplay:
    """COM-T8: a replay gives back the lease it brings, if that is still the live one."""

    @pytest.mark.invariant("INV-18")
    @pytest.mark.scenario("COM-T8")
    def test_the_live_lease_is_free_afterwards(self, store: Any) -> None:
        lease = lease_on(store, "s1")
        store.sessions.commit(first_turn(session_execution_lease=lease))

        again = store.sessions.commit(
            first_turn(session_execution_lease=lease, release_session_execution_lease=True)
        )

        assert again.replayed
        assert store.sessions.lease("s1") is None

    @pytest.mark.scenario("COM-T8")
    def test_a_stale_lease_leaves_the_live_one(self, store: Any, world: World) -> None:
        stale = lease_on(store, "s1", ALICE, ttl_ms=1_000)
        store.sessions.commit(first_turn(session_execution_lease=stale))
        world.clock.advance(1_000)
        live = lease_on(store, "s1", BOB)

        again = store.sessions.commit(
            first_turn(session_execution_lease=stale, release_session_execution_lease=True)
        )

        assert again.replayed
        holder = store.sessions.lease("s1")
        assert (holder.owner, holder.generation, holder.live) == (BOB, live.generation, True)


@pytest.mark.invariant("INV-17")
@pytest.mark.scenario("COM-T9")
def test_of_concurrent_first_attempts_one_applies_and_the_others_replay(store: Any) -> None:
    put(store, "s1")
    lease = lease_on(store, "s1")
    attempt = first_turn(expected_head_revision=1, session_execution_lease=lease)

    answers = racing(4, lambda _: store.sessions.commit(attempt))

    assert sorted(answer.replayed for answer in answers) == [False, True, True, True]
    plain = [msgspec.structs.replace(answer, replayed=False) for answer in answers]
    assert plain == [plain[0]] * 4
    assert plain[0].head_revision == 2
    assert store.sessions.load("s1").head_revision == 2
    assert path_ids(store) == ["a", "b"]


@pytest.mark.scenario("COM-T23")
def test_a_replay_does_not_mind_who_holds_the_lease(store: Any) -> None:
    first = store.sessions.commit_with_fresh_lease(first_turn())
    held = lease_on(store, "s1", BOB)

    again = store.sessions.commit_with_fresh_lease(first_turn())

    assert again.replayed
    assert again.head_revision == first.head_revision
    assert store.sessions.lease("s1").generation == held.generation


def test_equal_turn_ids_of_two_sessions_are_unrelated(store: Any) -> None:
    store.sessions.commit_with_fresh_lease(first_turn())

    other = put(store, "s2", turn_commit=turn("t1", "s2"), graph=chain("x"))

    assert not other.replayed
    assert store.sessions.load_turn_commit("s2", "t1").result.head_revision == 1


def test_a_recovering_owner_can_ask_for_a_turn(store: Any, world: World) -> None:
    first = store.sessions.commit_with_fresh_lease(first_turn())

    found = store.sessions.load_turn_commit("s1", "t1")

    assert (found.session_id, found.turn_id, found.result) == ("s1", "t1", first)
    assert found.turn_commit_hash == turn_commit_hash(first_turn())
    assert found.committed_at_ms == world.clock.now_ms()
    assert store.sessions.load_turn_commit("s1", "t2") is None


def test_a_stamp_of_another_session_is_refused_before_anything_is_read(store: Any) -> None:
    with pytest.raises(RuntimeTurnCommitConflict) as refused:
        put(store, "s1", turn_commit=turn("t1", "s2"))

    assert refused.value.stored_hash is None
    assert store.sessions.load("s1") is None


def test_a_hash_given_with_the_stamp_is_compared_as_text(store: Any) -> None:
    put(store, "s1", turn_commit=turn("t1", turn_commit_hash="mine"), graph=chain("a"))

    again = put(store, "s1", turn_commit=turn("t1", turn_commit_hash="mine"), graph=chain("b"))

    assert again.replayed
    assert path_ids(store) == ["a"]


class TestHash:
    """COM-T15: the hash of a turn counts what it means, not how it was sent."""

    @pytest.mark.scenario("COM-T15")
    def test_what_is_volatile_does_not_count(self, store: Any) -> None:
        lease = lease_on(store, "s1")
        store.sessions.commit(first_turn(session_execution_lease=lease, graph=told("a", "b", 1)))

        again = store.sessions.commit(
            first_turn(expected_head_revision=7, graph=told("x", "y", 2), head_tag="moved")
        )

        assert again.replayed
        assert path_ids(store) == ["a", "b"]

    @pytest.mark.scenario("COM-T15")
    @pytest.mark.parametrize(
        "changed",
        [
            {"checkpoint": checkpoint(2, tool_state=b"abc")},
            {"checkpoint": checkpoint(1, tool_state=b"abd")},
            {"graph": chain("a", "c")},
            {"usage_deltas": [spent("chat", "m", 3, 3)]},
            {"config": {"model": "m", "note": None}},
        ],
        ids=["turn index", "component", "text", "usage", "config"],
    )
    def test_what_was_said_and_done_counts(self, store: Any, changed: dict[str, Any]) -> None:
        store.sessions.commit_with_fresh_lease(first_turn())

        with pytest.raises(RuntimeTurnCommitConflict):
            store.sessions.commit_with_fresh_lease(first_turn(**changed))

    @pytest.mark.scenario("COM-T15")
    def test_a_timestamp_in_a_body_the_store_does_not_know_counts(self, store: Any) -> None:
        def plugin(timestamp: int) -> RuntimeCommit:
            body = {"call": {"arguments": {"timestamp": timestamp}}}
            return first_turn(graph=Append([Node(node_id="p", kind="plugin", body=body)]))

        store.sessions.commit_with_fresh_lease(plugin(1))

        with pytest.raises(RuntimeTurnCommitConflict):
            store.sessions.commit_with_fresh_lease(plugin(2))

    @pytest.mark.scenario("COM-T15")
    def test_the_vectors_of_the_contract(self) -> None:
        user = message("u", "hi", parent_node_id="outside")
        answer = message("v", "hello", role="assistant")
        turn_of_both = RuntimeCommit(
            session_id="s1",
            expected_head_revision=3,
            config={"model": "m", "provider_id": "p"},
            agent_frames=[],
            current_agent_frame_id="",
            graph=Append([user, answer]),
            checkpoint=CheckpointDraft(
                turn_state={"turn_index": 1}, components={"tool_state": b"abc"}
            ),
            usage_deltas=[TokenLedgerEntry("chat", "m", TokenUsage(3, 2))],
            completed_queue_claims=[
                QueuedWorkCompletion(
                    session_id="s1", claim_id="c", claim_token="t", batch_ids=["qwb:b1"]
                )
            ],
        )
        user_alone = commit("s1", graph=Append([message("u", "hi")]))

        assert turn_commit_hash(turn_of_both) == (
            "04224e66592434d14d6127b29fbb1147ab5615961b463c0f08c1a3d4e87934c0"
        )
        assert turn_commit_hash(user_alone) == (
            "8d63a966b693ec67dcd6f4a4a2ba265e5222b675e455940998d6719c18f4239e"
        )


def told(question: str, answer: str, at_us: int) -> Append:
    """The same two messages under other ids and at another time."""
    said = [message(question, "hi"), message(answer, "hello", role="assistant")]
    return Append([msgspec.structs.replace(node, at_us=at_us) for node in said])
