"""Section 11.3: what a claim of queued work takes, under which lease, and what it says."""

from __future__ import annotations

import re
from typing import Any

import pytest

from holdfast import LeaseLost
from holdfast.testing.clock import ManualClock
from holdfast.testing.contract.lanes import (
    enqueue,
    names,
    queued,
    renewed,
    settle,
)
from holdfast.testing.contract.samples import ALICE, lease_on
from holdfast.testing.world import World

JOINS = {"slot_policy": "join", "merge_key": "payload_default"}


def command(store: Any, name: str, **fields: Any) -> Any:
    """Enqueue a session command; the outcome."""
    return enqueue(store, name, payloads=[{"type": "session_command", "name": name}], **fields)


def taken(claim: Any) -> list[str]:
    """The names of what was claimed; nothing where nothing was."""
    return [] if claim is None else names(claim.batches)


class TestRecord:
    """QUE-15: what a claim says, and what it leaves on the rows."""

    def test_a_claim_says_what_it_took_and_under_which_lease(self, store: Any) -> None:
        for name in ("a", "b"):
            enqueue(store, name, payloads=[{"type": "x", "name": name}, {"type": "y"}], **JOINS)
        batches = store.queue.list("s1")
        lease = lease_on(store, "s1")

        claim = store.queue.claim(lease, "idle", 5)

        assert claim.batches == batches
        assert claim.batch_ids == [batch.batch_id for batch in batches]
        assert (claim.session_id, claim.owner, claim.claim_count) == ("s1", ALICE, 1)
        assert claim.session_lease_generation == lease.generation
        assert claim.claim_id == f"qwc:{batches[0].enqueue_seq}:1"
        assert re.fullmatch(r"[0-9a-f]{32}", claim.claim_token)

    def test_all_rows_of_a_claim_carry_it_alike(self, world: World, store: Any) -> None:
        for name in ("a", "b", "c"):
            enqueue(store, name, **JOINS)
        lease = lease_on(store, "s1")

        claim = store.queue.claim(lease, "idle", 3)

        rows = world.sql(
            store,
            "SELECT claim_id, claim_token, claim_owner, claim_generation, claim_count FROM {work}",
        )
        marks = (claim.claim_id, claim.claim_token, "alice", lease.generation, 1)
        assert rows == [marks] * 3

    def test_the_count_is_that_of_the_first_row(self, store: Any, clock: ManualClock) -> None:
        first = enqueue(store, "first", **JOINS)
        lease = lease_on(store, "s1")
        assert store.queue.claim(lease).claim_count == 1
        enqueue(store, "second", **JOINS)
        lease = renewed(store, clock, lease)

        both = store.queue.claim(lease, "idle", 2)

        assert (taken(both), both.claim_count) == (["first", "second"], 2)
        assert both.claim_id == f"qwc:{first.batch.enqueue_seq}:2"

    def test_the_counter_of_every_row_rises(self, store: Any, clock: ManualClock) -> None:
        first, second = (enqueue(store, name, **JOINS) for name in ("first", "second"))
        lease = lease_on(store, "s1")
        store.queue.claim(lease, "idle", 2)
        lease = renewed(store, clock, lease)
        store.queue.cancel("s1", first.batch_id)

        again = store.queue.claim(lease, "idle", 2)

        assert (again.batch_ids, again.claim_count) == ([second.batch_id], 2)
        assert again.claim_id == f"qwc:{second.batch.enqueue_seq}:2"

    def test_each_claim_has_a_token_of_its_own(self, store: Any) -> None:
        for name in ("a", "b", "c"):
            enqueue(store, name)
        lease = lease_on(store, "s1")

        assert len({store.queue.claim(lease).claim_token for _ in range(3)}) == 3

    def test_only_the_claim_itself_shows_its_token(self, store: Any, clock: ManualClock) -> None:
        enqueue(store, "a", source_key="k")
        command(store, "b")
        lease = lease_on(store, "s1")
        claims = [store.queue.claim(lease), store.queue.claim_command(lease)]
        told: list[Any] = [
            *store.queue.list("s1"),
            enqueue(store, "a", source_key="k"),
            store.queue.cancel("s1", claims[0].batch_ids[0]),
            *claims,
            [each.batches for each in claims],
        ]
        renewed(store, clock, lease)
        with pytest.raises(LeaseLost) as lost:
            settle(store, lease, completed_queue_claims=claims)
        told += [lost.value, vars(lost.value), *store.queue.list_pending("s1")]

        shown = repr(told) + "".join(map(str, told))
        assert not [each for each in claims if each.claim_token in shown]
        assert claims[0].claim_id in shown

    def test_whoever_has_the_lease_may_claim_and_settle(self, world: World, store: Any) -> None:
        enqueue(store, "a")
        enqueue(store, "b")
        lease = lease_on(store, "s1")
        first = store.queue.claim(lease)
        other = world.open() if world.is_durable else store

        second = other.queue.claim(lease)
        settle(other, lease, completed_queue_claims=[first, second])

        assert (second.owner, queued(store)) == (ALICE, [])


class TestCandidates:
    """QUE-11: which rows a claim looks at, and in which order."""

    def test_work_is_taken_in_the_order_it_came(self, store: Any, clock: ManualClock) -> None:
        enqueue(store, "first", available_at_ms=clock.now_ms())
        enqueue(store, "second", available_at_ms=5)
        enqueue(store, "third")
        lease = lease_on(store, "s1")

        order = [taken(store.queue.claim(lease)) for _ in range(4)]

        assert order == [["first"], ["second"], ["third"], []]

    def test_work_of_the_future_waits_for_its_instant(self, store: Any, clock: ManualClock) -> None:
        enqueue(store, "later", available_at_ms=clock.now_ms() + 10)
        lease = lease_on(store, "s1")

        clock.advance(9)
        assert store.queue.claim(lease) is None
        clock.advance(1)
        assert taken(store.queue.claim(lease)) == ["later"]

    @pytest.mark.scenario("QUE-T15")
    def test_work_behind_the_future_is_claimed_alone_and_nothing_elsewhere(
        self, world: World, store: Any
    ) -> None:
        enqueue(store, "unavailable", available_at_ms=2**50, **JOINS)
        enqueue(store, "exclusive")
        enqueue(store, "elsewhere", session_id="s2")
        enqueue(store, "elsewhere too", session_id="s0")

        claim = store.queue.claim(lease_on(store, "s1"), "idle", 10)

        assert taken(claim) == ["exclusive"]
        claimed = world.sql(store, "SELECT batch_id FROM {work} WHERE claim_count > 0")
        assert claimed == [(claim.batch_ids[0],)]

    def test_work_behind_much_that_is_held_or_to_come_is_reached(self, store: Any) -> None:
        for name in range(60):
            enqueue(store, f"held {name}", **JOINS)
            enqueue(store, f"later {name}", available_at_ms=2**50)
        lease = lease_on(store, "s1")
        assert len(store.queue.claim(lease, "idle", 60).batches) == 60
        enqueue(store, "reached")

        assert taken(store.queue.claim(lease, "idle", 1)) == ["reached"]

    def test_settled_work_is_no_candidate_though_its_key_is_kept(self, store: Any) -> None:
        enqueue(store, "done", source_key="k")
        lease = lease_on(store, "s1")
        settle(store, lease, completed_queue_claims=[store.queue.claim(lease)])
        assert enqueue(store, "done", source_key="k").settled

        assert store.queue.claim(lease, "idle", 10) is None

    @pytest.mark.scenario("QUE-T23")
    @pytest.mark.parametrize("kind", ["work", "commands"])
    def test_single_claims_reach_every_batch_in_order(self, store: Any, kind: str) -> None:
        for number in range(34):
            (enqueue if kind == "work" else command)(store, str(number))
        lease = lease_on(store, "s1")
        claim = store.queue.claim if kind == "work" else store.queue.claim_command

        found = [taken(claim(lease)) for _ in range(35)]

        assert found == [[str(number)] for number in range(34)] + [[]]


class TestCommands:
    """QUE-12: a command is taken where it comes first, alone."""

    @pytest.mark.scenario("QUE-T9")
    def test_a_command_holds_up_the_turn_work_behind_it(self, store: Any) -> None:
        command(store, "command")
        enqueue(store, "turn")
        lease = lease_on(store, "s1")

        assert store.queue.claim(lease, "idle", 10) is None
        claim = store.queue.claim_command(lease)
        assert (taken(claim), claim.batches[0].work_class) == (["command"], "session_command")
        settle(store, lease, completed_queue_claims=[claim])
        assert taken(store.queue.claim(lease)) == ["turn"]

    @pytest.mark.scenario("QUE-T10")
    def test_turn_work_holds_up_the_command_behind_it(self, store: Any) -> None:
        enqueue(store, "turn")
        command(store, "command")
        lease = lease_on(store, "s1")

        assert store.queue.claim_command(lease) is None
        assert taken(store.queue.claim(lease, "idle", 10)) == ["turn"]
        assert taken(store.queue.claim_command(lease)) == ["command"]

    @pytest.mark.parametrize(
        "fields",
        [{}, JOINS, JOINS | {"delivery_policy": "earliest_safe_boundary"}],
        ids=["exclusive", "joining", "earliest"],
    )
    def test_commands_are_taken_one_by_one_whatever_their_policies(
        self, store: Any, fields: dict[str, Any]
    ) -> None:
        command(store, "first", **fields)
        command(store, "second", **fields)
        lease = lease_on(store, "s1")

        found = [taken(store.queue.claim_command(lease)) for _ in range(3)]

        assert found == [["first"], ["second"], []]

    def test_a_command_of_the_future_holds_up_nothing(self, store: Any) -> None:
        command(store, "later", available_at_ms=2**50)
        enqueue(store, "turn")
        lease = lease_on(store, "s1")

        assert store.queue.claim_command(lease) is None
        assert taken(store.queue.claim(lease)) == ["turn"]

    def test_there_is_none_in_an_empty_queue(self, store: Any) -> None:
        assert store.queue.claim_command(lease_on(store, "s1")) is None
