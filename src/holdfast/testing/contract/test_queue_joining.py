"""Section 11.3: which batches a claim takes together, and at which boundary (QUE-13)."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast import Group
from holdfast.testing.contract.lanes import enqueue, names
from holdfast.testing.contract.samples import lease_on
from holdfast.testing.world import World

JOINS: dict[str, Any] = {"slot_policy": "join", "merge_key": "payload_default"}
EARLY: dict[str, Any] = {"delivery_policy": "earliest_safe_boundary"}
AT_CHECKPOINT = "active_turn_checkpoint"


def group(name: str) -> dict[str, Any]:
    """What makes a batch join those of this group."""
    return {"slot_policy": "join", "merge_key": Group(name)}


def command(store: Any, name: str, **fields: Any) -> Any:
    """Enqueue a session command; the outcome."""
    return enqueue(store, name, payloads=[{"type": "session_command", "name": name}], **fields)


def taken(store: Any, lease: Any, boundary: str = "idle", maximum: int = 10) -> list[str]:
    """The names of what one claim takes; nothing where it takes nothing."""
    claim = store.queue.claim(lease, boundary, maximum)
    return [] if claim is None else names(claim.batches)


def in_turn(store: Any, maximum: int = 10) -> list[list[str]]:
    """What claim after claim takes, under one lease, until nothing is left."""
    lease, found = lease_on(store, "s1"), []
    while batch := taken(store, lease, "idle", maximum):
        found.append(batch)
    return found


class TestBoundaries:
    """At a checkpoint only what may be delivered there."""

    @pytest.mark.scenario("QUE-T8")
    def test_a_head_that_waits_for_the_commit_holds_up_a_checkpoint(self, store: Any) -> None:
        enqueue(store, "after the commit")
        enqueue(store, "early", **EARLY)
        lease = lease_on(store, "s1")

        assert taken(store, lease, AT_CHECKPOINT) == []
        assert taken(store, lease, "idle") == ["after the commit"]
        assert taken(store, lease, AT_CHECKPOINT) == ["early"]

    def test_between_turns_both_policies_are_delivered(self, store: Any) -> None:
        enqueue(store, "early", **EARLY)
        enqueue(store, "after the commit")

        assert in_turn(store) == [["early"], ["after the commit"]]

    def test_a_group_is_taken_at_a_checkpoint_too(self, store: Any) -> None:
        enqueue(store, "a", **EARLY, **JOINS)
        enqueue(store, "b", **EARLY, **JOINS)
        enqueue(store, "late", **JOINS)

        assert taken(store, lease_on(store, "s1"), AT_CHECKPOINT) == ["a", "b"]

    def test_a_command_holds_up_a_checkpoint(self, store: Any) -> None:
        command(store, "command", **EARLY)
        enqueue(store, "early", **EARLY)

        assert taken(store, lease_on(store, "s1"), AT_CHECKPOINT) == []

    def test_between_turns_is_the_boundary_unless_told_and_one_the_number(self, store: Any) -> None:
        enqueue(store, "a", **JOINS)
        enqueue(store, "b", **JOINS)

        claim = store.queue.claim(lease_on(store, "s1"))

        assert names(claim.batches) == ["a"]

    @pytest.mark.parametrize("boundary", ["idle", AT_CHECKPOINT])
    def test_nothing_is_taken_of_an_empty_queue(
        self, world: World, store: Any, boundary: str
    ) -> None:
        lease = lease_on(store, "s1")
        before = world.dump(store)

        assert taken(store, lease, boundary) == []

        assert world.dump(store) == before

    @pytest.mark.parametrize(
        "first", ["command", "after the commit"], ids=["a command", "what waits"]
    )
    def test_where_the_first_cannot_be_taken_nothing_is_written(
        self, world: World, store: Any, first: str
    ) -> None:
        (command if first == "command" else enqueue)(store, first)
        enqueue(store, "early", **EARLY)
        lease = lease_on(store, "s1")
        before = world.dump(store)

        assert taken(store, lease, AT_CHECKPOINT) == []

        assert world.dump(store) == before


class TestJoining:
    """The first candidate, and those directly behind it that join it."""

    @pytest.mark.scenario("QUE-T11")
    def test_groups_are_taken_one_after_the_other(self, store: Any) -> None:
        enqueue(store, "A1", **group("A"))
        enqueue(store, "A2", **group("A"))
        enqueue(store, "B1", **group("B"))
        enqueue(store, "A3", **group("A"), **EARLY)

        assert in_turn(store) == [["A1", "A2"], ["B1"], ["A3"]]

    @pytest.mark.scenario("QUE-T12")
    def test_a_group_is_taken_up_to_the_number_asked_for(self, store: Any) -> None:
        for name in ("a", "b", "c"):
            enqueue(store, name, **group("A"))

        assert in_turn(store, 2) == [["a", "b"], ["c"]]

    @pytest.mark.scenario("QUE-T13")
    def test_what_never_merges_is_taken_alone(self, store: Any) -> None:
        enqueue(store, "a", slot_policy="join", merge_key="never")
        enqueue(store, "b", slot_policy="join", merge_key="never")

        assert in_turn(store) == [["a"], ["b"]]

    @pytest.mark.scenario("QUE-T13")
    def test_the_default_key_is_a_group_of_its_own(self, store: Any) -> None:
        enqueue(store, "a", **JOINS)
        enqueue(store, "b", **JOINS)

        assert in_turn(store) == [["a", "b"]]

    @pytest.mark.scenario("QUE-T14")
    def test_what_is_to_come_does_not_part_a_group(self, store: Any) -> None:
        enqueue(store, "a", **JOINS)
        enqueue(store, "later", available_at_ms=2**50)
        enqueue(store, "b", **JOINS)

        assert in_turn(store) == [["a", "b"]]

    def test_what_is_held_does_not_part_a_group(self, store: Any) -> None:
        enqueue(store, "a", **JOINS)
        held = enqueue(store, "held")
        enqueue(store, "b", **JOINS)
        lease = lease_on(store, "s1")
        assert store.queue.claim_exactly(lease, "idle", [held.batch_id]) is not None

        assert taken(store, lease) == ["a", "b"]

    @pytest.mark.parametrize(
        "between",
        [
            {},
            {"slot_policy": "exclusive", "merge_key": "payload_default"},
            {"slot_policy": "join", "merge_key": "never"},
            JOINS | EARLY,
            group("payload_default"),
            group("B"),
        ],
        ids=["exclusive", "same key", "never", "other delivery", "named alike", "other group"],
    )
    def test_what_does_not_join_parts_a_group(self, store: Any, between: dict[str, Any]) -> None:
        enqueue(store, "a", **JOINS)
        enqueue(store, "between", **between)
        enqueue(store, "b", **JOINS)

        assert in_turn(store) == [["a"], ["between"], ["b"]]

    def test_a_command_parts_a_group(self, store: Any) -> None:
        enqueue(store, "a", **JOINS)
        command(store, "command", **JOINS)
        enqueue(store, "b", **JOINS)
        lease = lease_on(store, "s1")

        assert taken(store, lease) == ["a"]
        assert taken(store, lease) == []
        assert names(store.queue.claim_command(lease).batches) == ["command"]
        assert taken(store, lease) == ["b"]

    def test_an_exclusive_batch_is_taken_alone_whatever_follows(self, store: Any) -> None:
        enqueue(store, "exclusive", merge_key="payload_default")
        enqueue(store, "a", **JOINS)
        enqueue(store, "b", **JOINS)

        assert in_turn(store) == [["exclusive"], ["a", "b"]]

    @pytest.mark.parametrize("name", ["never", "payload_default", '"never"', "A\x7f ü"])
    def test_a_group_may_be_called_anything(self, store: Any, name: str) -> None:
        enqueue(store, "a", **group(name))
        enqueue(store, "b", **group(name))

        assert in_turn(store) == [["a", "b"]]
        assert {batch.merge_key for batch in store.queue.list("s1")} == {Group(name)}

    def test_groups_are_told_apart_exactly(self, store: Any) -> None:
        for name in ("A", "a", "A ", "Ä"):
            enqueue(store, name, **group(name))

        assert in_turn(store) == [["A"], ["a"], ["A "], ["Ä"]]

    def test_a_batch_of_several_payloads_counts_as_one(self, store: Any) -> None:
        for name in ("a", "b", "c"):
            payloads = [{"type": "x", "name": name}, {"type": "y"}, {"type": "z"}]
            enqueue(store, name, payloads=payloads, **JOINS)

        claim = store.queue.claim(lease_on(store, "s1"), "idle", 2)

        assert names(claim.batches) == ["a", "b"]
        assert [len(batch.items) for batch in claim.batches] == [3, 3]

    def test_a_long_group_is_taken_whole_and_in_order(self, store: Any) -> None:
        for number in range(300):
            enqueue(store, str(number), **JOINS)

        assert in_turn(store, 10_000) == [[str(number) for number in range(300)]]
