"""Section 2: every limit of GEN-17 is met, and not exceeded."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

import holdfast
from holdfast import (
    Append,
    BlobDescriptor,
    CheckpointDraft,
    CorruptRecord,
    InvalidArgument,
    Node,
    Payload,
    QueuedWorkClaimSuperseded,
    QueuedWorkCompletion,
    TokenLedgerEntry,
    TokenUsage,
    TurnInputClaimSuperseded,
    TurnInputCompletion,
)
from holdfast.rules.blobs import manifest, ref_of
from holdfast.testing.contract.catalogue import a_work_claim, an_input_claim
from holdfast.testing.contract.lanes import submit
from holdfast.testing.contract.samples import chain, create, lease_on, put
from holdfast.testing.world import World

MIB = 1024 * 1024
VALUE = 16 * MIB
BLOB = 256 * MIB
SMALL = 1_000
#: For what a busy machine may take long to do between the trips of a transaction.
PATIENCE_MS = 60_000


def _too_large(field: str, call: Callable[[], Any]) -> None:
    with pytest.raises(InvalidArgument) as refused:
        call()
    assert (refused.value.field, refused.value.reason) == (field, "too_large")


def _node(body: Any, **fields: Any) -> Append:
    return Append([Node(node_id="a", body=body, **fields)])


def _text(size: int) -> str:
    """A text whose canonical JSON has this many bytes."""
    return "x" * (size - 2)


def _frame(size: int) -> dict[str, str]:
    around = len('{"frame_id":"f","x":""}')
    return {"frame_id": "f", "x": "x" * (size - around)}


#: Commits that carry one value of a size, by the field that is refused.
ONE_VALUE: dict[str, Callable[[int], dict[str, Any]]] = {
    "graph.nodes[0].body": lambda size: {"graph": _node(_text(size))},
    "graph.nodes[0].caused_by": lambda size: {"graph": _node({}, caused_by=_text(size))},
    "config": lambda size: {"config": {"x": "x" * (size - 8)}},
    "agent_frames[0]": lambda size: {
        "agent_frames": [_frame(size)],
        "current_agent_frame_id": "f",
    },
    "turn_state": lambda size: {"checkpoint": CheckpointDraft(turn_state=_text(size))},
}
PAYLOADS: dict[str, Callable[[int], dict[str, Any]]] = {
    "graph.nodes[0].body": lambda size: {"graph": _node(Payload(b"x" * size, "tag"))},
    "config": lambda size: {"config": Payload("é" * (size // 2), "tag")},
}


@pytest.mark.scenario("GEN-T9")
def test_one_value_has_16_mib_of_canonical_json(store: Any) -> None:
    field, carrying = next(iter(ONE_VALUE.items()))
    _too_large(field, lambda: put(store, "s1", **carrying(VALUE + 1)))
    assert store.sessions.open("s1") is None

    put(store, "s1", **carrying(VALUE))

    assert len(store.sessions.load_node("s1", "a").body) == VALUE - 2


@pytest.mark.scenario("GEN-T9")
def test_a_setting_lowers_the_limit_of_every_kind_of_value(world: World) -> None:
    store = world.open(max_value_bytes=SMALL)
    for kinds, beyond in ((ONE_VALUE, 1), (PAYLOADS, 2)):
        for number, (field, carrying) in enumerate(kinds.items()):
            _too_large(field, lambda: put(store, "none", **carrying(SMALL + beyond)))  # noqa: B023
            put(store, f"s{beyond}{number}", **carrying(SMALL))

    assert store.sessions.open("none") is None


@pytest.mark.scenario("GEN-T9")
def test_several_values_of_the_full_size_fit_into_one_commit(world: World) -> None:
    store = world.open(max_value_bytes=SMALL)
    frames = [{**_frame(SMALL), "frame_id": name} for name in "fghi"]

    put(store, "s1", agent_frames=frames, current_agent_frame_id="")

    assert store.sessions.load("s1").agent_frames == frames


def _nested(depth: int) -> Any:
    value: Any = 0
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.scenario("GEN-T9")
def test_values_nest_as_deep_as_the_encoder_goes(store: Any) -> None:
    put(store, "s1", graph=_node(_nested(500)))
    assert store.sessions.load_node("s1", "a").body == _nested(500)

    for depth in (501, 100_000):
        with pytest.raises(InvalidArgument) as refused:
            put(store, "s2", graph=_node(_nested(depth)))
        assert (refused.value.field, refused.value.reason) == ("graph.nodes[0].body", "too_deep")
    assert store.sessions.open("s2") is None


@pytest.mark.scenario("GEN-T9")
def test_an_integer_in_a_value_has_4_300_digits(world: World, store: Any) -> None:
    nines = 10**4_300 - 1
    for field, delta in (
        ("body", _node(nines + 1)),
        ("caused_by", _node({}, caused_by={"x": [-nines - 1]})),
    ):
        _too_large(f"graph.nodes[0].{field}", lambda: put(store, "s1", graph=delta))  # noqa: B023
    assert store.sessions.open("s1") is None

    put(store, "s1", graph=_node([nines, -nines]))

    assert store.sessions.load_node("s1", "a").body == [nines, -nines]
    world.sql(store, "UPDATE {node} SET body = ?", b"1" + b"0" * 4_300)
    with pytest.raises(CorruptRecord) as fault:
        store.sessions.load("s1")
    assert fault.value.record_kind == "session_node"


@pytest.mark.scenario("GEN-T9")
def test_a_blob_has_256_mib(world: World) -> None:
    # Zeros, because they are as many when they are checked and few when they are stored.
    store = world.open(compression="balanced")
    squeezed = BlobDescriptor(compressible=True)
    _too_large("content", lambda: store.blobs.put(bytes(BLOB + 1), squeezed))
    _too_large("content", lambda: store.artifacts.put("space", "name", bytes(BLOB + 1)))
    assert store.artifacts.list("space") == []

    assert store.blobs.has(store.blobs.put(bytes(BLOB), squeezed))


@pytest.mark.scenario("GEN-T9")
def test_a_setting_lowers_the_limit_of_every_kind_of_blob(world: World) -> None:
    store = world.open(max_blob_bytes=SMALL)
    fits, beyond = bytes(SMALL), bytes(SMALL + 1)

    def carried(content: bytes) -> dict[str, Any]:
        return {"checkpoint": CheckpointDraft(turn_state={}, components={"role": content})}

    _too_large("content", lambda: store.blobs.put(beyond))
    _too_large("content", lambda: store.artifacts.put("space", "name", beyond))
    _too_large("checkpoint.components.role", lambda: put(store, "s1", **carried(beyond)))
    assert store.sessions.open("s1") is None

    store.artifacts.put("space", "name", fits)
    put(store, "s1", **carried(fits))

    assert store.artifacts.get("space", "name") == store.blobs.get(ref_of(fits)) == fits


@pytest.mark.scenario("GEN-T9")
def test_a_commit_carries_512_mib(world: World) -> None:
    store = world.open(compression="balanced")
    around = len(manifest({}, {"a": ref_of(b""), "b": ref_of(b"")}))

    def draft(size: int) -> CheckpointDraft:
        halves: dict[str, Any] = {"a": bytes(BLOB), "b": bytes(size - BLOB - around)}
        return CheckpointDraft(turn_state={}, components=halves)

    _too_large("commit", lambda: put(store, "s1", checkpoint=draft(2 * BLOB + 1)))
    assert store.sessions.open("s1") is None

    assert put(store, "s1", checkpoint=draft(2 * BLOB)).head_revision == 1


@pytest.mark.scenario("GEN-T9")
def test_what_caused_a_node_counts_towards_its_commit(
    store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The limit itself is met above; to fill half a gigabyte with causes takes minutes.
    monkeypatch.setattr("holdfast.rules.commits.MAX_COMMIT_BYTES", 100)

    _too_large("commit", lambda: put(store, "s1", graph=_node(_text(50), caused_by=_text(51))))
    put(store, "s1", graph=_node(_text(50), caused_by=_text(50)))


TEXTS: dict[str, Callable[[Any, str], Any]] = {
    "session_name": lambda store, text: create(store, session_name=text),
    "model": lambda store, text: create(store, model=text),
    "cwd": lambda store, text: create(store, cwd=text),
    "graph.nodes[0].role": lambda store, text: put(store, "s1", graph=_node({}, role=text)),
    "graph.nodes[0].agent_frame_id": lambda store, text: put(
        store, "s1", graph=_node({}, agent_frame_id=text)
    ),
}


@pytest.mark.scenario("GEN-T9")
@pytest.mark.parametrize("field", TEXTS)
def test_other_text_has_4_kib(store: Any, field: str) -> None:
    _too_large(field, lambda: TEXTS[field](store, "é" * 2_048 + "x"))
    assert store.sessions.open("s1") is None

    TEXTS[field](store, "é" * 2_048)


def test_a_model_that_a_config_names_at_any_length_makes_metadata(store: Any) -> None:
    put(store, "s1", config={"model": "é" * 10_000})

    assert store.sessions.load_meta("s1").model == "é" * 1_024


@pytest.mark.scenario("GEN-T9")
def test_a_checkpoint_has_64_components(store: Any) -> None:
    parts = {str(number): b"x" for number in range(65)}
    _too_large(
        "checkpoint.components",
        lambda: put(store, "s1", checkpoint=CheckpointDraft(turn_state={}, components=parts)),
    )
    assert store.sessions.open("s1") is None

    del parts["0"]
    put(store, "s1", checkpoint=CheckpointDraft(turn_state={}, components=parts))
    assert len(store.sessions.load("s1").checkpoint.components) == 64


@pytest.mark.scenario("GEN-T9")
@pytest.mark.parametrize("label", ["source", "model"])
def test_a_usage_delta_has_labels_of_1_kib(store: Any, label: str) -> None:
    def spend(text: str) -> Any:
        labels = {"source": "s", "model": "m"} | {label: text}
        return put(store, "s1", usage_deltas=[TokenLedgerEntry(**labels, usage=TokenUsage(1))])

    _too_large(f"usage_deltas[0].{label}", lambda: spend("é" * 512 + "x"))
    assert store.sessions.open("s1") is None

    spend("é" * 512)

    (kept,) = store.sessions.load("s1").token_ledger
    assert getattr(kept, label) == "é" * 512


@pytest.mark.scenario("GEN-T9")
@pytest.mark.parametrize("counter", TokenUsage.__struct_fields__)
def test_a_usage_delta_has_counters_up_to_a_quadrillion(store: Any, counter: str) -> None:
    def spend(count: int) -> Any:
        usage = TokenUsage(**{counter: count})
        return put(store, "s1", usage_deltas=[TokenLedgerEntry("s", "m", usage)])

    _too_large(f"usage_deltas[0].usage.{counter}", lambda: spend(10**15 + 1))
    assert store.sessions.open("s1") is None

    spend(10**15)

    (kept,) = store.sessions.load("s1").token_ledger
    assert getattr(kept.usage, counter) == 10**15


@pytest.mark.scenario("GEN-T9")
def test_a_turn_input_has_16_mib_of_canonical_json(store: Any) -> None:
    around = len('{"text":""}')
    _too_large("input", lambda: submit(store, "x" * (VALUE + 1 - around)))
    assert store.inputs.list("s1") == []

    submit(store, "x" * (VALUE - around))

    (kept,) = store.inputs.list_pending("s1")
    assert len(kept.input["text"]) == VALUE - around


@pytest.mark.scenario("GEN-T9")
def test_a_delta_has_100_000_nodes(world: World) -> None:
    store = world.open(idle_in_transaction_ms=PATIENCE_MS)
    ids = [str(number) for number in range(100_001)]
    _too_large("graph.nodes", lambda: put(store, "s1", graph=chain(*ids)))
    assert store.sessions.open("s1") is None

    put(store, "s1", graph=chain(*ids[:-1]))

    assert store.sessions.picker_info("s1").node_count == 100_000
    assert store.sessions.load("s1", last=1).graph.nodes[0].node_id == ids[-2]


@pytest.mark.scenario("GEN-T9")
def test_a_commit_has_1_000_frames_and_1_000_usage_deltas(store: Any) -> None:
    frames = [{"frame_id": str(number)} for number in range(1_001)]
    deltas = [TokenLedgerEntry("chat", str(number), TokenUsage(1)) for number in range(1_001)]
    _too_large(
        "agent_frames",
        lambda: put(store, "s1", agent_frames=frames, current_agent_frame_id="0"),
    )
    _too_large("usage_deltas", lambda: put(store, "s1", usage_deltas=deltas))
    assert store.sessions.open("s1") is None

    put(
        store,
        "s1",
        agent_frames=frames[:-1],
        current_agent_frame_id="0",
        usage_deltas=deltas[:-1],
    )

    loaded = store.sessions.load("s1")
    assert (len(loaded.agent_frames), len(loaded.token_ledger)) == (1_000, 1_000)


@pytest.mark.invariant("INV-10")
@pytest.mark.scenario("GEN-T9")
def test_any_other_list_has_10_000_items(world: World, store: Any) -> None:
    create(store)
    lease = lease_on(store, "s1")
    before = world.dump(store)
    names = [str(number) for number in range(10_001)]
    lists: list[tuple[str, Callable[[list[str]], Any]]] = [
        ("node_ids", lambda given: store.sessions.tombstone("s1", given)),
        ("remove", lambda given: store.sessions.update_labels("s1", {}, given)),
        ("hydrate", lambda given: store.sessions.load("s1", hydrate=given)),
        ("targets", lambda given: store.inputs.cancel("s1", given)),
        ("states", lambda given: store.inputs.list("s1", states=["cancelled"] * len(given))),
        ("batch_ids", lambda given: store.queue.claim_exactly(lease, "idle", given)),
        ("attachment_ids", lambda given: store.attachments.commit_refs("s1", _hashes(given))),
        ("attachment_ids", lambda given: store.attachments.live_refs(_hashes(given), 0)),
        ("claims", lambda given: store.queue.abandon_many([a_work_claim("s1")] * len(given))),
        ("claims", lambda given: store.inputs.abandon_many([an_input_claim("s1")] * len(given))),
    ]

    for field, call in lists:
        _too_large(field, lambda: call(names))  # noqa: B023
    assert world.dump(store) == before
    for _, call in lists:
        call(names[:-1])


def _hashes(names: list[str]) -> list[str]:
    return [f"{int(name):064x}" for name in names]


#: Lists of a commit; what is named in them is not there, which is told behind the check of sizes.
OF_A_COMMIT: dict[str, Callable[[int], dict[str, Any]]] = {
    "committed_attachment_ids": lambda count: {
        "committed_attachment_ids": [f"{number:064x}" for number in range(count)]
    },
    "completed_queue_claims": lambda count: {
        "completed_queue_claims": [_completion(number) for number in range(count)]
    },
    "completed_queue_claims[0].batch_ids": lambda count: {
        "completed_queue_claims": [_completion(0, count)]
    },
    "completed_turn_input_claims": lambda count: {
        "completed_turn_input_claims": [
            TurnInputCompletion(**_claimed(number), input_ids=["i"]) for number in range(count)
        ]
    },
    "originating_claims": lambda count: {
        "originating_claims": [_completion(0)] * count,
        "completed_queue_claims": [_completion(0)],
    },
}


def _completion(number: int, count: int = 1) -> QueuedWorkCompletion:
    batch_ids = [f"batch {each}" for each in range(count)]
    return QueuedWorkCompletion(**_claimed(number), batch_ids=batch_ids)


def _claimed(number: int) -> dict[str, Any]:
    return {"session_id": "s1", "claim_id": f"claim {number}", "claim_token": "no such token"}


@pytest.mark.scenario("GEN-T9")
@pytest.mark.parametrize("field", OF_A_COMMIT)
def test_every_list_of_a_commit_has_10_000_items(store: Any, field: str) -> None:
    _too_large(field, lambda: put(store, "s1", **OF_A_COMMIT[field](10_001)))
    assert store.sessions.open("s1") is None

    with suppress(QueuedWorkClaimSuperseded, TurnInputClaimSuperseded):
        put(store, "s1", **OF_A_COMMIT[field](10_000))


@pytest.mark.scenario("GEN-T9")
def test_a_listing_has_10_000_lines(store: Any) -> None:
    listings: list[Callable[[int], Any]] = [
        lambda limit: store.sessions.list(limit=limit),
        lambda limit: store.sessions.list_nodes("s1", limit=limit),
        lambda limit: store.artifacts.list("space", limit=limit),
    ]
    for listing in listings:
        _too_large("limit", lambda: listing(10_001))  # noqa: B023
        listing(10_000)


@pytest.mark.parametrize("name", ["max_value_bytes", "max_blob_bytes"])
def test_no_setting_raises_a_limit(world: World, name: str) -> None:
    highest = {"max_value_bytes": VALUE, "max_blob_bytes": BLOB}[name]
    fits: dict[str, Any] = {name: highest}
    beyond: dict[str, Any] = {name: highest + 1}

    _too_large(name, lambda: holdfast.open(world.url, **beyond))
    holdfast.open(world.url, **fits).close()
