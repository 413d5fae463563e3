"""Section 2: the limits of GEN-17 that queued work has are met, and not exceeded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from holdfast import InvalidArgument, QueuedWorkBatchDraft
from holdfast.testing.contract.lanes import enqueue, names, work
from holdfast.testing.contract.samples import lease_on, put
from holdfast.testing.world import World

MIB = 1024 * 1024
VALUE = 16 * MIB
SMALL = 1_000


def _too_large(field: str, call: Callable[[], Any]) -> None:
    with pytest.raises(InvalidArgument) as refused:
        call()
    assert (refused.value.field, refused.value.reason) == (field, "too_large")


def _payload(size: int, letter: str = "x") -> dict[str, str]:
    """A payload whose canonical JSON has this many bytes."""
    around = len('{"text":"","type":"x"}')
    return {"type": "x", "text": letter * ((size - around) // len(letter.encode()))}


def _sized(size: int, letter: str = "x") -> QueuedWorkBatchDraft:
    """A draft whose list of payloads has this many bytes."""
    return work(payloads=[_payload(size - 2, letter)])


def _outbox(store: Any, drafts: list[QueuedWorkBatchDraft]) -> Any:
    return put(store, "s1", enqueued_queue_batches=drafts)


@pytest.mark.scenario("GEN-T9")
def test_a_batch_has_a_thousand_payloads(store: Any) -> None:
    payloads = [{"type": "tick", "number": number} for number in range(1_001)]
    _too_large("payloads", lambda: enqueue(store, payloads=payloads))
    _too_large("drafts[1].payloads", lambda: _many(store, [work(), work(payloads=payloads)]))
    _too_large(
        "enqueued_queue_batches[0].payloads", lambda: _outbox(store, [work(payloads=payloads)])
    )
    assert store.queue.list("s1") == []

    enqueue(store, payloads=payloads[:-1])

    (batch,) = store.queue.list("s1")
    assert [item.payload for item in batch.items] == payloads[:-1]


def _many(store: Any, drafts: list[QueuedWorkBatchDraft]) -> Any:
    return store.queue.enqueue_many(drafts)


@pytest.mark.scenario("GEN-T9")
def test_an_outbox_has_a_thousand_drafts(store: Any) -> None:
    drafts = [work(str(number)) for number in range(1_001)]
    _too_large("enqueued_queue_batches", lambda: _outbox(store, drafts))
    assert store.queue.list("s1") == []

    _outbox(store, drafts[:-1])

    assert names(store.queue.list("s1", limit=10_000)) == [str(number) for number in range(1_000)]


@pytest.mark.scenario("GEN-T9")
def test_one_call_enqueues_ten_thousand_drafts(store: Any) -> None:
    drafts = [work(str(number), f"s{number % 3}") for number in range(10_001)]
    _too_large("drafts", lambda: _many(store, drafts))
    assert store.queue.list("s1") == []

    outcomes = _many(store, drafts[:-1])

    assert names([each.batch for each in outcomes]) == [str(number) for number in range(10_000)]
    listed = names(store.queue.list("s1", limit=10_000))
    assert listed == [str(number) for number in range(1, 10_000, 3)]


@pytest.mark.scenario("GEN-T9")
def test_one_payload_has_16_mib_of_canonical_json(store: Any) -> None:
    _too_large("payloads[0]", lambda: enqueue(store, payloads=[_payload(VALUE + 1)]))
    assert store.queue.list("s1") == []

    enqueue(store, payloads=[_payload(VALUE)])

    (batch,) = store.queue.list("s1")
    assert batch.items[0].payload == _payload(VALUE)


@pytest.mark.scenario("GEN-T9")
def test_a_setting_lowers_the_limit_of_a_payload(world: World) -> None:
    store = world.open(max_value_bytes=SMALL)
    several = [_payload(SMALL), _payload(SMALL + 1)]
    _too_large("payloads[1]", lambda: enqueue(store, payloads=several))
    assert store.queue.list("s1") == []

    enqueue(store, payloads=[_payload(SMALL)] * 3)


@pytest.mark.scenario("GEN-T9")
def test_the_drafts_of_one_call_have_128_mib_together(store: Any) -> None:
    full = _sized(VALUE)
    _too_large("drafts", lambda: _many(store, [*[full] * 7, _sized(VALUE + 1)]))
    _too_large("payloads", lambda: enqueue(store, payloads=[_payload(VALUE)] * 8))
    assert store.queue.list("s1") == []

    _many(store, [full] * 8)

    assert len(store.queue.list("s1", limit=1)[0].items[0].payload["text"]) > VALUE - 30


WAYS: dict[str, tuple[str, Callable[[Any, int, str], Any]]] = {
    "one batch": (
        "payloads",
        lambda store, size, letter: store.queue.enqueue(_sized(size, letter)),
    ),
    "one of many": (
        "drafts[0].payloads",
        lambda store, size, letter: _many(store, [_sized(size, letter)]),
    ),
    "many": (
        "drafts",
        lambda store, size, letter: _many(store, [_sized(SMALL), _sized(size - SMALL, letter)]),
    ),
    "outbox": (
        "enqueued_queue_batches",
        lambda store, size, letter: _outbox(store, [_sized(SMALL), _sized(size - SMALL, letter)]),
    ),
}


@pytest.mark.scenario("GEN-T9")
@pytest.mark.parametrize("letter", ["x", "é", "😀"])
@pytest.mark.parametrize("way", WAYS)
def test_what_is_enqueued_together_is_measured_in_bytes(
    store: Any, monkeypatch: pytest.MonkeyPatch, way: str, letter: str
) -> None:
    # The limit itself is met above; in each of these ways it takes its time.
    monkeypatch.setattr("holdfast.rules.queue.MAX_ENQUEUED_BYTES", 4 * SMALL)
    field, act = WAYS[way]
    width = len(letter.encode())
    _too_large(field, lambda: act(store, 4 * SMALL + width, letter))
    assert store.queue.list("s1") == []

    act(store, 4 * SMALL, letter)

    assert store.queue.list("s1") != []


@pytest.mark.scenario("GEN-T9")
def test_a_claim_takes_10_000_batches_and_a_listing_has_as_many_lines(store: Any) -> None:
    lease = lease_on(store, "s1")
    limits: dict[str, list[Callable[[int], Any]]] = {
        "limit": [
            lambda limit: store.queue.list("s1", limit=limit),
            lambda limit: store.queue.list_pending("s1", limit=limit),
            lambda limit: store.queue.ready_sessions(limit=limit),
            lambda limit: store.inputs.list("s1", limit=limit),
            lambda limit: store.inputs.list_pending("s1", limit=limit),
        ],
        "max_batches": [lambda limit: store.queue.claim(lease, "idle", limit)],
        "max_inputs": [
            lambda limit: store.inputs.claim_next(lease, limit),
            lambda limit: store.inputs.claim_active(lease, "t", "after_work", limit),
        ],
    }
    for field, calls in limits.items():
        for act in calls:
            _too_large(field, lambda: act(10_001))  # noqa: B023
            act(10_000)
