"""Section 11.2: what is enqueued is stored as it was drafted, and in order (QUE-1 to QUE-3)."""

from __future__ import annotations

import re
from typing import Any

import pytest

from holdfast import (
    Group,
    InvalidArgument,
    QueuedWorkBatchDraft,
    QueuedWorkItem,
)
from holdfast.testing.clock import ManualClock
from holdfast.testing.contract.lanes import enqueue, names, queued, work
from holdfast.testing.contract.samples import create, lease_on
from holdfast.testing.world import World

#: A key, and a text, that every encoding on the way has to leave as they are.
AWKWARD = 'it\'s "so" \\u0041 \\ {x} %s :y\n\té\u2028😀'


class TestWhatIsStored:
    """11.1: the draft, and what the store adds."""

    def test_a_batch_has_the_fields_of_its_draft(self, store: Any, clock: ManualClock) -> None:
        payloads = [{"type": "tick", "text": AWKWARD + "\0", "n": [1, None, 0.5]}, {"type": "tock"}]
        draft = QueuedWorkBatchDraft(
            session_id="s1",
            payloads=payloads,
            delivery_policy="earliest_safe_boundary",
            slot_policy="join",
            merge_key=Group(AWKWARD),
            source_key=AWKWARD,
            available_at_ms=2**63 - 1,
            dedupe="pending",
        )

        outcome = store.queue.enqueue(draft)

        batch = outcome.batch
        for field in draft.__struct_fields__:
            if field != "payloads":
                assert getattr(batch, field) == getattr(draft, field), field
        assert [item.payload for item in batch.items] == payloads
        assert (outcome.created, outcome.content_matches, outcome.settled) == (True, True, False)
        assert batch.enqueued_at_ms == clock.now_ms()
        assert batch.enqueue_seq > 0
        assert store.queue.list("s1") == [batch]

    def test_a_draft_says_little_by_default(self, store: Any) -> None:
        draft = QueuedWorkBatchDraft(session_id="s1", payloads=[{"type": "tick"}])

        batch = store.queue.enqueue(draft).batch

        assert batch.delivery_policy == "after_current_turn_commit"
        assert (batch.slot_policy, batch.merge_key) == ("exclusive", "never")
        assert (batch.source_key, batch.available_at_ms, batch.dedupe) == (None, 0, "once")

    def test_ids_are_random_and_items_are_numbered_under_them(self, store: Any) -> None:
        draft = work(payloads=[{"type": "tick"}] * 11)

        first, second = store.queue.enqueue(draft), store.queue.enqueue(draft)

        assert first.batch_id != second.batch_id
        for outcome in (first, second):
            assert re.fullmatch(r"qwb:[0-9a-f]{32}", outcome.batch_id)
            assert outcome.batch.batch_id == outcome.batch_id
            assert [item.item_id for item in outcome.batch.items] == [
                f"{outcome.batch_id}:item:{index}" for index in range(11)
            ]

    @pytest.mark.parametrize("key", ["never", "payload_default", Group("never"), Group("g")])
    def test_a_merge_key_comes_back(self, store: Any, key: Any) -> None:
        enqueue(store, merge_key=key)

        assert store.queue.list("s1")[0].merge_key == key

    @pytest.mark.parametrize(
        ("type", "work_class"),
        [
            ("session_command", "session_command"),
            ("process_wake", "turn_work"),
            ("Session_Command", "turn_work"),
            ("", "turn_work"),
        ],
    )
    def test_a_batch_has_the_class_of_its_payloads(
        self, store: Any, type: str, work_class: str
    ) -> None:
        outcome = enqueue(store, payloads=[{"type": type}, {"type": type, "more": 1}])

        assert outcome.batch.work_class == work_class
        assert store.queue.list("s1")[0].work_class == work_class

    def test_the_class_was_stored_when_it_was_enqueued(self, world: World, store: Any) -> None:
        enqueue(store, payloads=[{"type": "session_command"}])

        assert world.sql(store, "SELECT class FROM {work}") == [("session_command",)]

    def test_changing_what_was_answered_changes_nothing_stored(self, store: Any) -> None:
        payload = {"type": "tick", "list": [1]}
        batch = enqueue(store, payloads=[payload]).batch
        payload["list"] = "changed"
        batch.items[0].payload["list"].append(2)

        (stored,) = store.queue.list("s1")

        assert stored.items == [
            QueuedWorkItem(f"{batch.batch_id}:item:0", {"type": "tick", "list": [1]})
        ]


class TestWhatIsValid:
    """QUE-2: an invalid batch never enters the queue."""

    WRONG: tuple[tuple[QueuedWorkBatchDraft, str], ...] = (
        (work(payloads=[]), "payloads"),
        (work(payloads={"type": "tick"}), "payloads"),
        (work(payloads=[{"type": "tick"}, {"type": "session_command"}]), "payloads"),
        (work(payloads=[{"type": "tick"}, "text"]), "payloads[1]"),
        (work(payloads=[{"type": 1}]), "payloads[0]"),
        (work(payloads=[{"kind": "tick"}]), "payloads[0]"),
        (work(payloads=[{"type": "tick", "x": float("nan")}]), "payloads[0]"),
        (work(payloads=[{"type": "tick", "x": "\ud800"}]), "payloads[0]"),
        (work(session_id=""), "session_id"),
        (work(session_id="\0"), "session_id"),
        (work(delivery_policy="sometime"), "delivery_policy"),
        (work(slot_policy="shared"), "slot_policy"),
        (work(merge_key="always"), "merge_key"),
        (work(merge_key={"group": "g"}), "merge_key"),
        (work(merge_key=Group("")), "merge_key.group"),
        (work(merge_key=Group(1)), "merge_key.group"),  # type: ignore[arg-type]
        (work(source_key=" "), "source_key"),
        (work(source_key="x" * 1_025), "source_key"),
        (work(available_at_ms=-1), "available_at_ms"),
        (work(available_at_ms=0.5), "available_at_ms"),
        (work(available_at_ms=2**63), "available_at_ms"),
        (work(dedupe="never"), "dedupe"),
    )

    @pytest.mark.scenario("QUE-T5")
    @pytest.mark.parametrize(("draft", "field"), WRONG)
    def test_an_invalid_draft_leaves_the_queue_as_it_is(
        self, world: World, store: Any, draft: QueuedWorkBatchDraft, field: str
    ) -> None:
        enqueue(store, "before")
        before = world.dump(store)
        world.backend(store).counts.clear()

        with pytest.raises(InvalidArgument) as one:
            store.queue.enqueue(draft)
        with pytest.raises(InvalidArgument) as many:
            store.queue.enqueue_many([work("valid"), draft])

        assert (one.value.field, many.value.field) == (field, f"drafts[1].{field}")
        assert not +world.backend(store).counts
        assert world.dump(store) == before

    @pytest.mark.parametrize("wrong", [{"session_id": "s1"}, "draft", None])
    def test_what_is_no_draft_is_refused(self, store: Any, wrong: Any) -> None:
        with pytest.raises(InvalidArgument) as many:
            store.queue.enqueue_many([work(), wrong])
        with pytest.raises(InvalidArgument) as whole:
            store.queue.enqueue_many(wrong)

        assert (many.value.field, whole.value.field) == ("drafts[1]", "drafts")
        assert store.queue.list("s1") == []


class TestOrder:
    """QUE-3: every batch has a place of its own behind those that came before."""

    @pytest.mark.scenario("QUE-T3")
    def test_a_thousand_in_one_millisecond_are_in_the_order_of_their_calls(
        self, store: Any
    ) -> None:
        outcomes = [enqueue(store, str(number)) for number in range(1_000)]

        listed = store.queue.list("s1", limit=1_000)
        assert names(listed) == [str(number) for number in range(1_000)]
        assert listed == [outcome.batch for outcome in outcomes]
        sequences = [batch.enqueue_seq for batch in listed]
        assert sequences == sorted(set(sequences))
        assert len({batch.batch_id for batch in listed}) == 1_000
        assert len({batch.enqueued_at_ms for batch in listed}) == 1

    def test_availability_is_no_order(self, store: Any) -> None:
        enqueue(store, "later", available_at_ms=2**50)
        enqueue(store, "now")

        assert queued(store) == ["later", "now"]

    def test_drafts_of_one_call_are_in_their_order(self, store: Any) -> None:
        order = [str(number) for number in (5, 3, 9, 1, 7)]

        outcomes = store.queue.enqueue_many([work(name, source_key=name) for name in order])

        assert store.queue.list("s1") == [outcome.batch for outcome in outcomes]
        assert queued(store) == order

    def test_a_sequence_number_is_never_used_again(self, store: Any) -> None:
        last = enqueue(store, "gone").batch
        store.queue.cancel("s1", last.batch_id)

        assert enqueue(store, "next").batch.enqueue_seq > last.enqueue_seq


class TestWhereItGoes:
    """QUE-3: an enqueue needs neither a lease nor a session."""

    @pytest.mark.scenario("QUE-T27")
    def test_an_enqueue_makes_a_session_present_but_not_known(self, store: Any) -> None:
        enqueue(store, "early")

        assert queued(store) == ["early"]
        assert store.sessions.open("s1") is None
        assert store.sessions.list().sessions == []

    @pytest.mark.scenario("QUE-T27")
    def test_what_an_unknown_session_was_sent_survives_a_reopening(self, durable: World) -> None:
        store = durable.open()
        batch = enqueue(store, "early").batch
        store.close()

        assert durable.open().queue.list("s1") == [batch]

    @pytest.mark.scenario("QUE-T27")
    def test_what_an_unknown_session_was_sent_is_deleted_with_it(self, store: Any) -> None:
        enqueue(store, "early")

        assert store.sessions.delete("s1").deleted

        assert (store.queue.list("s1"), store.queue.list_pending("s1")) == ([], [])
        assert store.queue.ready_sessions() == []

    def test_whoever_runs_the_session_need_not_be_asked(self, store: Any) -> None:
        create(store)
        lease_on(store, "s1")

        assert enqueue(store, "meanwhile").created

        assert queued(store) == ["meanwhile"]

    def test_many_drafts_go_to_any_sessions_in_one_call(self, store: Any) -> None:
        create(store, "s2")
        enqueue(store, "known", source_key="k")
        drafts = [
            work("a", "s2"),
            work("b"),
            work("known", source_key="k"),
            work("other", source_key="k"),
            work("c", "s3", source_key="k"),
            work("c", "s3", source_key="k"),
        ]

        outcomes = store.queue.enqueue_many(drafts)

        answered = [(*names([each.batch]), each.created, each.content_matches) for each in outcomes]
        assert answered == [
            ("a", True, True),
            ("b", True, True),
            ("known", False, True),
            ("known", False, False),
            ("c", True, True),
            ("c", False, True),
        ]
        assert queued(store, "s1") == ["known", "b"]
        assert (queued(store, "s2"), queued(store, "s3")) == (["a"], ["c"])

    def test_no_drafts_are_nothing_to_do(self, world: World, store: Any) -> None:
        store.sessions.list()
        world.backend(store).counts.clear()

        assert store.queue.enqueue_many([]) == []

        assert not +world.backend(store).counts
