"""Section 11.3: a claim of certain batches takes all of them or none (QUE-14)."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast import CorruptRecord, Group, InvalidArgument
from holdfast.testing.contract.lanes import enqueue, names, queued, settle
from holdfast.testing.contract.samples import lease_on
from holdfast.testing.world import World

JOINS: dict[str, Any] = {"slot_policy": "join", "merge_key": "payload_default"}
EARLY: dict[str, Any] = {"delivery_policy": "earliest_safe_boundary"}
COMMAND: dict[str, Any] = {"payloads": [{"type": "session_command", "name": "command"}]}
AT_CHECKPOINT = "active_turn_checkpoint"


def ids(store: Any, *given: tuple[str, dict[str, Any]]) -> list[str]:
    """Enqueue batches of these names and fields; their ids."""
    return [enqueue(store, name, **fields).batch_id for name, fields in given]


def exactly(store: Any, lease: Any, batch_ids: Any, boundary: str = "idle") -> list[str] | None:
    """The names of what was claimed."""
    claim = store.queue.claim_exactly(lease, boundary, batch_ids)
    return None if claim is None else names(claim.batches)


def takes_nothing(
    world: World, store: Any, lease: Any, batch_ids: Any, boundary: str = "idle"
) -> None:
    """Assert that a claim is none and leaves everything as it was."""
    before = world.dump(store)
    assert exactly(store, lease, batch_ids, boundary) is None
    assert world.dump(store) == before


class TestTaken:
    """What can be taken by name."""

    @pytest.mark.scenario("QUE-T22")
    def test_the_second_of_two_is_taken_and_the_first_still_pends(self, store: Any) -> None:
        _, second = ids(store, ("first", {}), ("second", {}))

        assert exactly(store, lease_on(store, "s1"), [second]) == ["second"]

        assert names(store.queue.list_pending("s1")) == ["first"]

    def test_a_command_that_comes_first_is_in_nobodys_way(self, store: Any) -> None:
        _, _, behind = ids(store, ("command", COMMAND), ("waits", {}), ("behind", EARLY))

        assert exactly(store, lease_on(store, "s1"), [behind], AT_CHECKPOINT) == ["behind"]

    def test_what_joins_is_taken_together_whatever_lies_between(self, store: Any) -> None:
        a, _, _, b, _ = ids(
            store, ("a", JOINS), ("x", {}), ("c", COMMAND), ("b", JOINS), ("more", JOINS)
        )

        assert exactly(store, lease_on(store, "s1"), [a, b]) == ["a", "b"]

        assert names(store.queue.list_pending("s1")) == ["x", "command", "more"]

    def test_the_order_is_that_of_the_queue(self, store: Any) -> None:
        first, second, third = ids(store, *((name, JOINS) for name in ("a", "b", "c")))
        lease = lease_on(store, "s1")

        claim = store.queue.claim_exactly(lease, "idle", [third, first, second])

        assert names(claim.batches) == ["a", "b", "c"]
        assert claim.claim_id == f"qwc:{claim.batches[0].enqueue_seq}:1"

    def test_it_is_a_claim_like_any_other(self, store: Any) -> None:
        (batch_id,) = ids(store, ("a", {}))
        batches = store.queue.list("s1")
        lease = lease_on(store, "s1")

        claim = store.queue.claim_exactly(lease, "idle", [batch_id])

        assert (claim.batches, claim.owner, claim.claim_count) == (batches, lease.owner, 1)
        assert claim.session_lease_generation == lease.generation
        assert store.queue.cancel("s1", batch_id) is None
        assert store.queue.abandon(claim) == 1
        again = store.queue.claim_exactly(lease, "idle", [batch_id])
        assert (again.claim_count, again.claim_id) == (2, f"qwc:{batches[0].enqueue_seq}:2")
        settle(store, lease, completed_queue_claims=[again])
        assert queued(store) == []

    def test_many_are_taken_together(self, store: Any) -> None:
        many = ids(store, *((str(number), JOINS) for number in range(250)))

        taken = exactly(store, lease_on(store, "s1"), many)

        assert taken == [str(number) for number in range(250)]

    def test_any_collection_may_name_them(self, store: Any) -> None:
        named = set(ids(store, ("a", JOINS), ("b", JOINS)))

        assert exactly(store, lease_on(store, "s1"), named) == ["a", "b"]


NOT_TOGETHER: dict[str, list[dict[str, Any]]] = {
    "two exclusives": [{}, {}],
    "an exclusive behind a join": [JOINS, {"merge_key": "payload_default"}],
    "a join behind an exclusive": [{"merge_key": "payload_default"}, JOINS],
    "two that never merge": [{"slot_policy": "join"}] * 2,
    "different groups": [JOINS | {"merge_key": Group("A")}, JOINS | {"merge_key": Group("B")}],
    "different deliveries": [JOINS, JOINS | EARLY],
    "a command among them": [JOINS, JOINS | COMMAND, JOINS],
    "commands alone": [JOINS | COMMAND] * 2,
}


class TestRefused:
    """All of them must be candidates, turn work, and join each other."""

    @pytest.mark.scenario("QUE-T22")
    @pytest.mark.parametrize("name", NOT_TOGETHER)
    def test_what_does_not_join_is_not_taken(self, world: World, store: Any, name: str) -> None:
        named = ids(store, *(("a", fields) for fields in NOT_TOGETHER[name]))

        takes_nothing(world, store, lease_on(store, "s1"), named)

    @pytest.mark.scenario("QUE-T22")
    def test_work_that_waits_for_the_commit_is_not_taken_at_a_checkpoint(
        self, world: World, store: Any
    ) -> None:
        (batch_id,) = ids(store, ("after the commit", {}))
        lease = lease_on(store, "s1")

        takes_nothing(world, store, lease, [batch_id], AT_CHECKPOINT)
        assert exactly(store, lease, [batch_id]) == ["after the commit"]

    @pytest.mark.scenario("QUE-T22")
    def test_a_command_is_not_taken(self, world: World, store: Any) -> None:
        (batch_id,) = ids(store, ("command", COMMAND))

        takes_nothing(world, store, lease_on(store, "s1"), [batch_id])

    @pytest.mark.scenario("QUE-T22")
    def test_an_id_named_twice_is_refused(self, world: World, store: Any) -> None:
        (batch_id,) = ids(store, ("a", {}))
        lease = lease_on(store, "s1")
        world.backend(store).counts.clear()

        with pytest.raises(InvalidArgument) as refused:
            store.queue.claim_exactly(lease, "idle", [batch_id, batch_id])

        assert (refused.value.field, refused.value.reason) == ("batch_ids", "repeated")
        assert not +world.backend(store).counts

    def test_an_unknown_one_keeps_the_others(self, world: World, store: Any) -> None:
        (batch_id,) = ids(store, ("a", JOINS))

        takes_nothing(world, store, lease_on(store, "s1"), [batch_id, "qwb:unknown"])

    def test_one_of_another_session_keeps_the_others(self, world: World, store: Any) -> None:
        mine, other = ids(store, ("a", JOINS), ("b", JOINS | {"session_id": "s2"}))
        lease = lease_on(store, "s1")

        takes_nothing(world, store, lease, [mine, other])
        takes_nothing(world, store, lease, [other])

    def test_one_that_is_held_keeps_the_others(self, world: World, store: Any) -> None:
        held, free = ids(store, ("a", JOINS), ("b", JOINS))
        lease = lease_on(store, "s1")
        store.queue.claim(lease)

        takes_nothing(world, store, lease, [held, free])

    def test_one_of_the_future_keeps_the_others(self, world: World, store: Any) -> None:
        named = ids(store, ("a", JOINS), ("b", JOINS | {"available_at_ms": 2**50}))

        takes_nothing(world, store, lease_on(store, "s1"), named)

    def test_one_that_is_settled_keeps_the_others(self, world: World, store: Any) -> None:
        named = ids(store, ("a", JOINS | {"source_key": "k"}), ("b", JOINS))
        lease = lease_on(store, "s1")
        settle(store, lease, completed_queue_claims=[store.queue.claim(lease)])

        takes_nothing(world, store, lease, named)

    def test_one_that_is_damaged_fails_the_claim(self, world: World, store: Any) -> None:
        sound, damaged = ids(store, ("a", JOINS), ("b", JOINS))
        world.sql(store, "UPDATE {work} SET payloads = '[]' WHERE batch_id = ?", damaged)
        lease = lease_on(store, "s1")
        before = world.dump(store)

        with pytest.raises(CorruptRecord) as found:
            store.queue.claim_exactly(lease, "idle", [sound, damaged])

        assert (found.value.record_kind, found.value.key) == ("queued_work", damaged)
        assert world.dump(store) == before
        assert exactly(store, lease, [sound]) == ["a"]

    def test_a_damaged_one_is_not_looked_at_where_nothing_is_taken(
        self, world: World, store: Any
    ) -> None:
        (damaged,) = ids(store, ("a", JOINS))
        world.sql(store, "UPDATE {work} SET payloads = '[]' WHERE batch_id = ?", damaged)

        takes_nothing(world, store, lease_on(store, "s1"), [damaged, "qwb:unknown"])

    @pytest.mark.parametrize(
        "given", ["qwb:one", [""], [None], ["a\0b"], [str(n) for n in range(10_001)], None]
    )
    def test_what_is_no_list_of_ids_is_refused(self, world: World, store: Any, given: Any) -> None:
        lease = lease_on(store, "s1")
        world.backend(store).counts.clear()

        with pytest.raises(InvalidArgument) as refused:
            store.queue.claim_exactly(lease, "idle", given)

        assert refused.value.field == "batch_ids"
        assert not +world.backend(store).counts
