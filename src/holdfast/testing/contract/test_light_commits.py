"""Extensions 2: the light commit, one trip whatever plain content it carries (EXT-7)."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
import pytest

import holdfast
from holdfast import (
    HeadRevisionConflict,
    LeaseLost,
    LeaseOwner,
    Payload,
    ReplaceFull,
    SessionBusy,
    SessionCreate,
    Splice,
    Tag,
)
from holdfast.testing.contract.samples import (
    ALICE,
    BOB,
    chain,
    commit,
    lease_on,
    message,
    path_ids,
    put,
    turn,
)
from holdfast.testing.wire import CountingProxy
from holdfast.testing.world import World

#: Everything a light commit may carry, alone and together.
LIGHT: dict[str, dict[str, Any]] = {
    "nothing": {},
    "nodes": {"graph": chain(*(f"n{number}" for number in range(200)))},
    "a pop": {"graph": Splice(-1)},
    "a pop and nodes": {"graph": Splice(-1, [message("n0"), message("n1")])},
    "a replacement": {"graph": ReplaceFull([message("n0"), message("n1")])},
    "nothing instead of all": {"graph": ReplaceFull([])},
    "config": {"config": {"model": "m"}},
    "a payload": {"config": Payload(b"\xff\x00", tag="raw")},
    "tag": {"head_tag": "new"},
    "no tag": {"head_tag": None},
    "activity": {"activity_us": 5},
    "create": {"create": SessionCreate(session_id="s1", scope=("a",), labels={"k": "v"})},
    "revision": {"expected_head_revision": 1, "graph": chain("n0")},
    "expected tag": {"expected_head_revision": Tag("old"), "graph": chain("n0")},
    "all": {
        "expected_head_revision": 1,
        "graph": chain("n0"),
        "config": {"model": "m"},
        "head_tag": "new",
        "activity_us": 5,
        "create": SessionCreate(session_id="s1"),
    },
}


def begun(store: Any) -> Any:
    """A session with one node and a tag."""
    put(store, "s1", graph=chain("first"), head_tag="old")
    return store


def cost_of(world: World, store: Any, name: str) -> Counter[str]:
    """What the store counted for a light commit under a lease, which applied."""
    store.sessions.delete("s1", force=True)
    held = lease_on(begun(store), "s1", ALICE)
    counts: Counter[str] = world.backend(store).counts
    counts.clear()
    done = store.sessions.commit(commit("s1", session_execution_lease=held, **LIGHT[name]))
    counted = counts.copy()
    assert (name, done.head_revision) == (name, 2)
    assert store.sessions.lease("s1").generation == held.generation
    return counted


@pytest.mark.scenario("EXT-T9")
def test_a_light_commit_under_a_lease_takes_one_trip(world: World, store: Any) -> None:
    rows = ("insert_nodes", "insert_branches", "put_config", "touch_listing", "update_head")
    for name in LIGHT:
        counts = cost_of(world, store, name)

        assert counts["transactions"] == 1
        if world.is_server:
            assert (name, counts["trips"]) == (name, 1)
        else:
            assert max(counts[kind] for kind in rows) == 1, name


@pytest.mark.scenario("EXT-T9")
def test_the_one_trip_is_one_on_the_wire(world: World, store: Any) -> None:
    if not world.is_server:
        pytest.skip("an embedded store has no wire")
    begun(store)
    with CountingProxy(world.url) as proxy:
        through = holdfast.open(proxy.url, schema=world.schema, clock=world.clock, pool_size=1)
        calm = world.calm(through)
        held = lease_on(calm, "s1", ALICE)
        proxy.turns = 0
        calm.sessions.commit(commit("s1", session_execution_lease=held, graph=chain("n")))
        turns = proxy.turns
        through.close()

    assert turns == 1


@pytest.mark.scenario("EXT-T9")
@pytest.mark.parametrize("holder", [ALICE, BOB], ids=["own", "anothers"])
def test_a_live_lease_of_anybody_refuses_a_light_commit_without_it(
    store: Any, holder: LeaseOwner
) -> None:
    lease_on(begun(store), "s1", holder)

    for content in LIGHT.values():
        with pytest.raises(SessionBusy) as refused:
            put(store, "s1", **content)
        assert refused.value.holder.owner == holder

    assert store.sessions.load("s1").head_revision == 1
    assert path_ids(store) == ["first"]


def test_a_light_commit_under_a_stale_lease_is_refused_like_any_other(
    world: World, store: Any
) -> None:
    held = lease_on(begun(store), "s1", ALICE)
    world.clock.advance(30_000)
    light = commit("s1", session_execution_lease=held, graph=chain("n"))

    with pytest.raises(LeaseLost) as expired:
        store.sessions.commit(light)
    lease_on(store, "s1", BOB)
    with pytest.raises(LeaseLost) as superseded:
        store.sessions.commit(light)

    assert (expired.value.reason, superseded.value.reason) == ("expired", "superseded")
    assert path_ids(store) == ["first"]


@pytest.mark.parametrize(
    "change",
    [
        {"token": "another"},
        {"generation": 9},
        {"owner": LeaseOwner("another", ALICE.incarnation_id)},
        {"owner": LeaseOwner(ALICE.owner_id, "another")},
    ],
    ids=["token", "generation", "owner", "incarnation"],
)
def test_a_light_commit_needs_the_very_lease_that_was_given(
    store: Any, change: dict[str, Any]
) -> None:
    held = lease_on(begun(store), "s1", ALICE)
    forged = msgspec.structs.replace(held, **change)

    with pytest.raises(LeaseLost) as refused:
        store.sessions.commit(commit("s1", session_execution_lease=forged, graph=chain("n")))

    assert refused.value.reason == "superseded"
    assert path_ids(store) == ["first"]


@pytest.mark.invariant("INV-1")
def test_a_refused_light_commit_leaves_nothing(world: World, store: Any) -> None:
    begun(store)
    before = world.dump(store)

    with pytest.raises(HeadRevisionConflict):
        put(store, "s1", **LIGHT["all"] | {"expected_head_revision": 7})

    assert world.dump(store) == before


def test_a_light_commit_may_release_its_lease(store: Any) -> None:
    held = lease_on(begun(store), "s1", ALICE)

    store.sessions.commit(
        commit(
            "s1",
            session_execution_lease=held,
            release_session_execution_lease=True,
            graph=chain("n"),
        )
    )

    assert store.sessions.lease("s1") is None
    assert path_ids(store) == ["first", "n"]


@pytest.mark.parametrize("content", [{}, {"turn_commit": turn("t1")}], ids=["light", "whole"])
@pytest.mark.parametrize("how", ["released", "momentary"])
def test_a_commit_leaves_nothing_of_a_lease_that_it_ends(
    world: World, store: Any, how: str, content: dict[str, Any]
) -> None:
    lease_on(store, "s1", BOB, ttl_ms=0)
    held = lease_on(store, "s1", ALICE, ttl_ms=30_000 if how == "released" else 0)
    assert None not in world.sql(store, "SELECT owner_id, displaced FROM {session}")[0]
    if how == "released":
        fields = {"session_execution_lease": held, "release_session_execution_lease": True}
        store.sessions.commit(commit("s1", **fields, **content))
    else:
        put(store, "s1", **content)

    columns = "owner_id, incarnation_id, liveness, token, displaced, claimed_at_ms, expires_at_ms"
    left = world.sql(store, f"SELECT {columns} FROM {{session}}")  # noqa: S608
    assert left == [(None, None, None, None, None, 0, 0)]
