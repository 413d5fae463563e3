"""Section 6: what a commit needs, what it settles, and what it leaves alone."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from holdfast import HeadRevisionConflict, LeaseLost, LeaseOwner
from holdfast.testing.contract.samples import (
    ALICE,
    BOB,
    chain,
    checkpoint,
    commit,
    lease_on,
    path_ids,
    put,
    spent,
    turn,
)
from holdfast.testing.world import World


@pytest.mark.invariant("INV-15")
@pytest.mark.scenario("COM-T1")
def test_revisions_rise_by_one_from_one(store: Any) -> None:
    lease = lease_on(store, "s1")

    def next_one(expected: int) -> int:
        answer = store.sessions.commit(
            commit("s1", expected_head_revision=expected, session_execution_lease=lease)
        )
        revision: int = answer.head_revision
        return revision

    assert [next_one(0), next_one(1)] == [1, 2]
    assert store.sessions.load("s1").head_revision == 2


@pytest.mark.scenario("COM-T2")
@pytest.mark.parametrize("expected", [0, 7])
def test_a_wrong_expectation_is_told_the_true_revision(store: Any, expected: int) -> None:
    lease = lease_on(store, "s1")
    put_first(store, lease)
    before = store.sessions.load("s1")

    with pytest.raises(HeadRevisionConflict) as refused:
        store.sessions.commit(
            commit(
                "s1",
                expected_head_revision=expected,
                session_execution_lease=lease,
                graph=chain("b"),
                config={"model": "other"},
                usage_deltas=[spent("chat")],
                checkpoint=checkpoint(2, tool_state=b"two"),
            )
        )

    assert (refused.value.expected, refused.value.actual) == (expected, 1)
    assert store.sessions.load("s1") == before


def put_first(store: Any, lease: Any, **fields: Any) -> Any:
    """A first commit under a lease."""
    given = {"graph": chain("a"), "config": {"model": "m"}} | fields
    return store.sessions.commit(commit("s1", session_execution_lease=lease, **given))


class TestFences:
    """COM-T4: the lease a commit brings has to be the live one of its session."""

    def refused(self, store: Any, lease: Any) -> LeaseLost:
        before = store.sessions.load("s1")
        with pytest.raises(LeaseLost) as lost:
            put_first(store, lease, graph=chain("late"), turn_commit=turn("t1"))
        assert store.sessions.load("s1") == before
        assert store.sessions.load_turn_commit("s1", "t1") is None
        return lost.value

    @pytest.mark.scenario("COM-T4")
    def test_no_fence_is_missing(self, store: Any) -> None:
        lease_on(store, "s1")

        assert self.refused(store, None).reason == "missing"

    @pytest.mark.scenario("COM-T4")
    @pytest.mark.parametrize("content", [{}, {"turn_commit": turn("t1")}], ids=["light", "whole"])
    @pytest.mark.parametrize(
        "part",
        [
            {"token": "0" * 32},
            {"generation": 2},
            {"owner": BOB},
            {"owner": LeaseOwner(ALICE.owner_id, "alice-2")},
        ],
        ids=["token", "generation", "owner", "incarnation"],
    )
    def test_a_fence_that_differs_in_any_part_is_superseded(
        self, store: Any, part: dict[str, Any], content: dict[str, Any]
    ) -> None:
        forged = msgspec.structs.replace(lease_on(store, "s1"), **part)

        with pytest.raises(LeaseLost) as lost:
            put_first(store, forged, **content)

        assert lost.value.reason == "superseded"
        assert store.sessions.load("s1") is None

    @pytest.mark.scenario("COM-T4")
    def test_a_fence_of_a_session_that_is_gone_is_missing(self, store: Any, world: World) -> None:
        lease = lease_on(store, "s1")
        store.sessions.delete("s1", force=True)
        before = world.dump(store)

        lost = self.refused(store, lease)

        assert (lost.reason, lost.current_generation) == ("missing", None)
        assert world.dump(store) == before

    @pytest.mark.scenario("COM-T4")
    def test_a_fence_whose_time_is_over_is_expired(self, store: Any, world: World) -> None:
        lease = lease_on(store, "s1", ttl_ms=1_000)
        put_first(store, lease)
        world.clock.advance(1_000)

        assert self.refused(store, lease).reason == "expired"

    @pytest.mark.scenario("COM-T4")
    def test_a_fence_given_back_is_released(self, store: Any) -> None:
        lease = lease_on(store, "s1")
        put_first(store, lease)
        store.sessions.release_lease(lease)

        assert self.refused(store, lease).reason == "released"

    @pytest.mark.scenario("COM-T4")
    def test_a_fence_that_another_replaced_is_superseded(self, store: Any, world: World) -> None:
        lease = lease_on(store, "s1", ttl_ms=1_000)
        put_first(store, lease)
        world.clock.advance(1_000)
        newer = lease_on(store, "s1", BOB)

        lost = self.refused(store, lease)

        assert lost.reason == "superseded"
        assert (lost.presented_generation, lost.current_generation) == (1, newer.generation)

    @pytest.mark.scenario("COM-T4")
    def test_a_fence_of_another_session_is_of_the_wrong_session(self, store: Any) -> None:
        lease_on(store, "s1")

        assert self.refused(store, lease_on(store, "s2")).reason == "wrong_session"
        assert store.sessions.load("s2") is None


@pytest.mark.scenario("COM-T5")
def test_frames_and_execution_body_come_back(store: Any) -> None:
    frames: list[dict[str, Any]] = [
        {"frame_id": "outer", "label": "first"},
        {"frame_id": "inner", "execution_state_ref": None, "depth": 1},
    ]

    answer = put(
        store,
        "s1",
        agent_frames=frames,
        current_agent_frame_id="inner",
        checkpoint=checkpoint(execution_state=b"stack"),
    )

    loaded = store.sessions.load("s1")
    assert loaded.checkpoint.components == {"execution_state": b"stack"}
    assert loaded.current_agent_frame_id == "inner"
    assert loaded.agent_frames == [
        frames[0],
        frames[1] | {"execution_state_ref": answer.component_refs["execution_state"]},
    ]


STATE: dict[str, Any] = {
    "config": {"model": "m", "provider_id": "p"},
    "agent_frames": [{"frame_id": "main"}],
    "current_agent_frame_id": "main",
}


class TestKeeping:
    """COM-T22: what a commit does not mention stays as it is, at no cost."""

    @pytest.mark.scenario("COM-T22")
    def test_a_commit_of_the_graph_keeps_everything_else(self, store: Any, world: World) -> None:
        put(store, "s1", checkpoint=checkpoint(tool_state=b"tools"), **STATE)
        before, blobs = store.sessions.load("s1"), self.blobs(store, world)

        put(store, "s1", graph=chain("a"))

        after = store.sessions.load("s1")
        for part in ("config", "agent_frames", "current_agent_frame_id"):
            assert getattr(after, part) == getattr(before, part)
        assert after.checkpoint == before.checkpoint
        assert after.checkpoint_ref == before.checkpoint_ref is not None
        assert self.blobs(store, world) == blobs

    @pytest.mark.scenario("COM-T22")
    def test_on_a_new_session_what_is_kept_is_empty(self, store: Any, world: World) -> None:
        put(store, "s1", graph=chain("a"))

        loaded = store.sessions.load("s1")
        assert (loaded.config, loaded.agent_frames, loaded.current_agent_frame_id) == ({}, [], "")
        assert (loaded.checkpoint_ref, loaded.checkpoint, loaded.head_tag) == (None, None, None)
        assert self.blobs(store, world) == []

    def blobs(self, store: Any, world: World) -> list[tuple[Any, ...]]:
        return world.sql(store, "SELECT ref, stored_at_ms FROM {blob} ORDER BY ref")


def test_unstamped_commits_settle_progress_within_a_turn(store: Any) -> None:
    lease = lease_on(store, "s1")
    put_first(store, lease)

    put_first(store, lease, graph=chain("b"))

    assert path_ids(store) == ["a", "b"]


def test_a_commit_can_give_its_lease_back(store: Any) -> None:
    lease = lease_on(store, "s1")

    put_first(store, lease, release_session_execution_lease=True)

    assert store.sessions.lease("s1") is None
    assert lease_on(store, "s1", ALICE).generation == lease.generation + 1


def test_an_applied_commit_renames_nothing_and_moves_the_listing(store: Any, world: World) -> None:
    put(store, "s1", config={"model": "m"})
    before = store.sessions.load_meta("s1")
    world.clock.advance(5)

    put(store, "s1", config={"model": "other"})

    after = store.sessions.load_meta("s1")
    assert (after.model, after.session_name) == (before.model, before.session_name)
    assert after.updated_at_ms == before.updated_at_ms + 5


class TestCost:
    """COM-T19: a commit's cost in statements and trips does not follow its size."""

    def cost(self, world: World, count: int) -> dict[str, int]:
        store = world.open()
        put(store, "s1")
        counts = world.backend(store).counts
        counts.clear()
        put(
            store,
            "s1",
            graph=chain(*(f"{count}-{number}" for number in range(count))),
            checkpoint=checkpoint(tool_state=b"t", plugin_snapshot=b"p"),
        )
        return dict(counts)

    def statements(self, counts: dict[str, int]) -> int:
        others = ("transactions", "trips")
        return sum(number for name, number in counts.items() if name not in others)

    @pytest.mark.scenario("COM-T19")
    def test_a_thousand_nodes_cost_what_batching_allows(self, world: World) -> None:
        few, many = self.cost(world, 1), self.cost(world, 1000)

        assert self.statements(many) - self.statements(few) <= 1000 / 200 - 1
        assert many["transactions"] == few["transactions"] == 1
        if world.is_server:
            assert (few["trips"], many["trips"]) == (2, 2)
