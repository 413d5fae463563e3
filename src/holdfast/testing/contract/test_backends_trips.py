"""Section 16: what each operation costs, in round trips or in statements (BAK-5)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

import holdfast
from holdfast import Append, SessionCreate, SessionMeta, Splice, local_process
from holdfast.rules.blobs import ref_of
from holdfast.testing.contract.owners import replaced
from holdfast.testing.contract.samples import (
    ALICE,
    chain,
    checkpoint,
    commit,
    create,
    lease_on,
    put,
    spent,
    turn,
)
from holdfast.testing.wire import CountingProxy
from holdfast.testing.world import World

Act = Callable[[Any, int], Any]


def nodes(count: int, stem: str = "n") -> Append:
    """That many new nodes."""
    return chain(*(f"{stem}{number}" for number in range(count)))


def whole(count: int) -> dict[str, Any]:
    """A commit of every kind of content, with that many of each."""
    parts: dict[str, Any] = {f"part{number}": b"%d" % number for number in range(min(count, 64))}
    return {
        "graph": nodes(count),
        "config": {"n": count},
        "agent_frames": [{"frame_id": f"f{number}"} for number in range(count)],
        "current_agent_frame_id": "f0",
        "checkpoint": checkpoint(**parts),
        "usage_deltas": [spent(f"s{number}") for number in range(count)],
        "turn_commit": turn("t1"),
        "committed_attachment_ids": ids(count),
        "head_tag": "tag",
    }


def ids(count: int) -> list[str]:
    """The ids of that many attachments."""
    return [f"{number:064x}" for number in range(count)]


def meta(count: int) -> SessionMeta:
    """A record to save."""
    return SessionMeta(session_id="s1", session_name=f"{count}", created_at_ms=1)


#: Bytes that are stored, and their ref.
CONTENT = b"content"
PUT = ref_of(CONTENT)

#: Operations that need one trip; their session `s1` has 200 nodes and is free.
ONE: dict[str, Act] = {
    "claim": lambda store, _: store.sessions.claim_lease("s1", ALICE),
    "read of a lease": lambda store, _: store.sessions.lease("s1"),
    "light commit": lambda store, n: put(store, "s1", graph=nodes(n), config={"n": n}),
    "light splice": lambda store, n: put(store, "s1", graph=Splice(-n)),
    "light creation": lambda store, n: store.sessions.commit_with_fresh_lease(
        commit("s2", graph=nodes(n), create=SessionCreate(session_id="s2", scope=("a",)))
    ),
    "metadata": lambda store, n: store.sessions.save_meta(meta(n)),
    "labels": lambda store, n: store.sessions.update_labels(
        "s1", {f"label{number}": "value" for number in range(min(n, 32))}
    ),
    "tombstone": lambda store, n: store.sessions.tombstone("s1", [f"old{i}" for i in range(n)]),
    "point read": lambda store, _: store.sessions.load_node("s1", "old0"),
    "metadata read": lambda store, _: store.sessions.load_meta("s1"),
    "stamp read": lambda store, _: store.sessions.load_turn_commit("s1", "t0"),
    "page of nodes": lambda store, n: store.sessions.list_nodes("s1", limit=n),
    "page of sessions": lambda store, n: store.sessions.list(limit=n),
    "path of a node": lambda store, n: store.sessions.find_path("old199", last=n),
    "attachment intent": lambda store, _: store.attachments.record_intent("s1", ids(1)[0]),
    "attachment stamps": lambda store, n: store.attachments.commit_refs("s1", ids(n)),
    "attachment forgotten": lambda store, _: store.attachments.delete("s1", ids(1)[0]),
    "attachment held": lambda store, _: store.attachments.holds("s1", ids(1)[0]),
    "page of intents": lambda store, n: store.attachments.list_uncommitted(2**62, limit=n),
    "page of references": lambda store, n: store.attachments.list_refs(limit=n),
    "attachments alive": lambda store, n: store.attachments.live_refs(ids(n), 2**62),
    "one attachment alive": lambda store, _: store.attachments.is_live(ids(1)[0], 2**62),
    "line of a session": lambda store, _: store.sessions.picker_info("s1"),
    "creation": lambda store, _: create(store, "s2", scope=("a",), labels={"name": "value"}),
    "blob": lambda store, n: store.blobs.put(bytes(n)),
    "blob read": lambda store, _: store.blobs.get(PUT),
    "blob there": lambda store, _: store.blobs.has(PUT),
    "artifact": lambda store, n: store.artifacts.put("space", "name", bytes(n)),
    "artifact read": lambda store, _: store.artifacts.get("space", "put"),
    "artifact deleted": lambda store, _: store.artifacts.delete("space", "put"),
    "page of artifacts": lambda store, n: store.artifacts.list("space", limit=n),
    "load": lambda store, n: store.sessions.load("s1", last=n),
}
TWO: dict[str, Act] = {
    "whole commit": lambda store, n: put(store, "s1", **whole(n)),
    "checkpoint alone": lambda store, _: put(store, "s1", checkpoint=checkpoint()),
}
#: A session that begins elsewhere without a commit needs one trip less than with one.
THREE: dict[str, Act] = {
    "fork": lambda store, _: store.sessions.fork("s1", SessionCreate(session_id="s2")),
}
ALL = ONE | TWO | THREE
TRIPS = dict.fromkeys(ONE, 1) | dict.fromkeys(TWO, 2) | dict.fromkeys(THREE, 3)


def furnished(store: Any) -> Any:
    """The session that operations are counted on."""
    create(store, "s1")
    put(store, "s1", graph=nodes(200, "old"), turn_commit=turn("t0"), checkpoint=checkpoint())
    store.artifacts.put("space", "put", CONTENT)
    return store


def spent_by(world: World, store: Any, act: Callable[[], Any]) -> tuple[int, int]:
    """Trips and statements of an operation."""
    counts = world.backend(store).counts
    counts.clear()
    act()
    trips = counts.pop("trips", 0)
    del counts["transactions"]
    return trips, sum(counts.values())


def measured(world: World, store: Any, count: int) -> dict[str, tuple[int, int]]:
    """Trips and statements of each operation, for so many items."""
    found = {}
    for name, act in ALL.items():
        for session_id in ("s1", "s2"):
            store.sessions.delete(session_id, force=True)
        furnished(store)
        found[name] = spent_by(world, store, partial(act, store, count))
    return found


@pytest.mark.scenario("BAK-T4")
@pytest.mark.parametrize("count", [1, 200])
def test_an_operation_takes_no_more_trips_than_allowed(
    world: World, store: Any, count: int
) -> None:
    trips = {name: trips for name, (trips, _) in measured(world, store, count).items()}

    if world.is_server:
        assert trips == TRIPS
    else:
        assert set(trips.values()) == {0}


@pytest.mark.scenario("BAK-T4")
def test_the_number_of_items_does_not_change_the_number_of_statements(
    world: World, store: Any
) -> None:
    assert measured(world, store, 200) == measured(world, store, 1)


@pytest.mark.scenario("BAK-T4")
def test_a_lease_costs_one_trip_at_each_step(world: World, store: Any) -> None:
    furnished(store)
    allowed = (1 if world.is_server else 0, 1)
    held = lease_on(store, "s1")

    def cost(act: Callable[[], Any]) -> tuple[int, int]:
        return spent_by(world, store, act)

    assert cost(lambda: store.sessions.claim_lease("s1", ALICE)) == allowed
    assert cost(lambda: store.sessions.renew_lease(held)) == allowed
    light = commit("s1", graph=nodes(3), session_execution_lease=held)
    assert cost(lambda: store.sessions.commit(light))[0] == allowed[0]
    assert cost(lambda: store.sessions.release_lease(held)) == allowed


@pytest.mark.scenario("BAK-T4")
def test_a_takeover_costs_one_trip(world: World, store: Any) -> None:
    lease_on(store, "s1", replaced())
    observed, me = store.sessions.lease("s1"), local_process("me")

    taken = spent_by(world, store, lambda: store.sessions.reclaim_lease(observed, me))

    assert taken == (1 if world.is_server else 0, 1)


@pytest.mark.scenario("BAK-T4")
def test_the_wire_carries_no_more_turns_than_were_counted(world: World) -> None:
    if not world.is_server:
        pytest.skip("an embedded store has no wire")
    turns = {}
    with CountingProxy(world.url) as proxy:
        store = holdfast.open(proxy.url, schema=world.schema, clock=world.clock, pool_size=1)
        calm = world.calm(store)
        for name, act in ALL.items():
            calm.sessions.delete("s1", force=True)
            calm.sessions.delete("s2", force=True)
            furnished(calm)
            proxy.turns = 0
            act(calm, 3)
            turns[name] = proxy.turns
        store.close()

    assert turns == TRIPS
