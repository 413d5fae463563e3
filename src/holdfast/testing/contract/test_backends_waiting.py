"""Section 16: an operation that waited for a section answers as if it had come after (BAK-7)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from holdfast import (
    Acquired,
    Busy,
    HeadRevisionConflict,
    InvalidArgument,
    LeaseLost,
    SessionBusy,
    SessionCreate,
    SessionDeleted,
    SessionMeta,
    StartAt,
    Tag,
    local_process,
)
from holdfast.testing.contract.lanes import mortal
from holdfast.testing.contract.samples import (
    ALICE,
    AN_ID,
    chain,
    checkpoint,
    commit,
    lease_on,
    put,
    turn,
)
from holdfast.testing.world import World, racing

#: What somebody else does in the section while others wait for it.
TAKEN = (
    "UPDATE {session} SET generation = generation + 1, owner_id = 'carol', incarnation_id = 'c',"
    """ liveness = '{"kind":"opaque"}', token = 'hers', expires_at_ms = 9000000000000000"""
)
RELEASED = (
    "UPDATE {session} SET owner_id = NULL, incarnation_id = NULL, liveness = NULL, token = NULL,"
    " claimed_at_ms = 0, expires_at_ms = 0"
)
MOVED = "UPDATE {session} SET head_revision = head_revision + 1, head_tag = 'moved'"
#: As a creator does who is neither committing nor changing the session's row.
DESCRIBED = (
    "INSERT INTO {session_meta} (session, session_name, created_at_ms, model, relation,"
    " relation_kind) SELECT key, 'theirs', 1, 'm',"
    """ '{"kind":"root"}', 'root' FROM {session} WHERE id = 's1'""",
    "INSERT INTO {listing} (session, id, scope, activity_us, updated_at_ms)"
    " SELECT s.key, s.id, l.scope, 1, 1 FROM {session} s, {listing} l"
    " WHERE s.id = 's1' AND l.id = 'source'",
)
LOCKED = "UPDATE {session} SET displaced = displaced WHERE id = 's1'"
DELETED = ("DELETE FROM {session_meta}", "DELETE FROM {listing}", "DELETE FROM {session}")

_WAITING = (
    "SELECT count(*) FROM pg_stat_activity WHERE pg_backend_pid() = ANY(pg_blocking_pids(pid))"
)

#: A commit of one trip, and one of two.
CONTENTS: dict[str, dict[str, Any]] = {"light": {}, "whole": {"checkpoint": checkpoint()}}


def after(world: World, store: Any, *changes: str, act: Callable[[], Any]) -> Any:
    """What an operation returns or raises that waited while somebody made these changes."""
    outcome: list[Any] = []
    thread = threading.Thread(target=lambda: outcome.extend(racing(1, lambda _: act())))
    with world.beneath(store) as run:
        run("BEGIN" if world.is_server else "BEGIN IMMEDIATE")
        for change in changes:
            run(change)
        thread.start()
        if world.is_server:
            while not run(_WAITING)[0][0]:
                assert not outcome
        time.sleep(0.03)
        assert not outcome, "it did not wait"
        run("COMMIT")
    thread.join()
    return outcome[0]


def under(store: Any, lease: Any, content: str, **fields: Any) -> Callable[[], Any]:
    """A commit under a lease."""
    given = CONTENTS[content] | {"graph": chain("late"), "session_execution_lease": lease}
    return lambda: store.sessions.commit(commit("s1", **given | fields))


def alone(store: Any, content: str, **fields: Any) -> Callable[[], Any]:
    """A commit without a lease."""
    given = CONTENTS[content] | {"graph": chain("late")} | fields
    return lambda: put(store, "s1", **given)


@pytest.mark.invariant("INV-5")
@pytest.mark.scenario("BAK-T7")
@pytest.mark.parametrize("content", CONTENTS)
@pytest.mark.parametrize(
    ("change", "reason"), [(TAKEN, "superseded"), (RELEASED, "released")], ids=["taken", "released"]
)
def test_a_commit_whose_lease_passed_on_while_it_waited_is_refused(
    world: World, store: Any, content: str, change: str, reason: str
) -> None:
    put(store, "s1", graph=chain("a"))
    held = lease_on(store, "s1", ALICE)

    outcome = after(world, store, change, act=under(store, held, content))

    assert isinstance(outcome, LeaseLost)
    assert outcome.reason == reason
    assert store.sessions.load("s1").head_revision == 1


@pytest.mark.scenario("BAK-T7")
@pytest.mark.parametrize("content", CONTENTS)
def test_a_commit_without_a_lease_meets_the_one_that_was_claimed(
    world: World, store: Any, content: str
) -> None:
    put(store, "s1", graph=chain("a"))

    outcome = after(world, store, TAKEN, act=alone(store, content))

    assert isinstance(outcome, SessionBusy)
    assert outcome.holder.owner.owner_id == "carol"


@pytest.mark.invariant("INV-5")
@pytest.mark.scenario("BAK-T7")
@pytest.mark.parametrize("content", CONTENTS)
@pytest.mark.parametrize("expected", [1, Tag(None)], ids=["revision", "tag"])
def test_a_commit_whose_head_moved_while_it_waited_is_refused(
    world: World, store: Any, content: str, expected: Any
) -> None:
    put(store, "s1", graph=chain("a"))
    act = alone(store, content, expected_head_revision=expected)

    outcome = after(world, store, MOVED, act=act)

    assert isinstance(outcome, HeadRevisionConflict)
    assert (outcome.actual, outcome.actual_tag) == (2, "moved")


@pytest.mark.scenario("BAK-T7")
@pytest.mark.parametrize("content", CONTENTS)
def test_a_commit_follows_a_head_that_moved_where_it_expects_nothing(
    world: World, store: Any, content: str
) -> None:
    put(store, "s1", graph=chain("a"))

    outcome = after(world, store, MOVED, act=alone(store, content))

    assert outcome.head_revision == 3


@pytest.mark.scenario("BAK-T7")
@pytest.mark.parametrize("content", CONTENTS)
def test_a_commit_to_a_session_deleted_meanwhile_begins_anew_or_not_at_all(
    world: World, store: Any, content: str
) -> None:
    put(store, "s1", graph=chain("a"))
    act = alone(store, content, expected_head_revision=1)
    refused = after(world, store, *DELETED, act=act)
    assert isinstance(refused, HeadRevisionConflict)
    assert refused.actual == 0

    put(store, "s1", config={"n": 1})
    begun = after(world, store, *DELETED, act=alone(store, content))
    assert begun.head_revision == 1


@pytest.mark.scenario("BAK-T7")
@pytest.mark.parametrize("content", CONTENTS)
def test_a_first_commit_leaves_the_metadata_that_was_made_while_it_waited(
    world: World, store: Any, content: str
) -> None:
    put(store, "source")
    held = lease_on(store, "s1", ALICE)

    outcome = after(world, store, LOCKED, *DESCRIBED, act=under(store, held, content))

    assert outcome.head_revision == 1
    assert store.sessions.load_meta("s1").session_name == "theirs"


@pytest.mark.scenario("BAK-T7")
def test_a_fork_or_a_start_elsewhere_leaves_a_session_made_known_while_it_waited(
    world: World, store: Any
) -> None:
    put(store, "source", graph=chain("a"))
    lease_on(store, "s1", ALICE, ttl_ms=0)
    start = SessionCreate(session_id="s1", start_at=StartAt("a", "source"))
    target = SessionCreate(session_id="s1")

    begun = after(world, store, LOCKED, *DESCRIBED, act=alone(store, "whole", create=start))
    store.sessions.delete("s1")
    lease_on(store, "s1", ALICE, ttl_ms=0)
    fork = after(
        world, store, LOCKED, *DESCRIBED, act=lambda: store.sessions.fork("source", target)
    )

    assert begun.head_revision == 1
    assert isinstance(fork, InvalidArgument)
    assert fork.reason == "session_exists"
    assert store.sessions.load("s1") is None


@pytest.mark.scenario("BAK-T7")
@pytest.mark.parametrize("content", CONTENTS)
def test_first_commits_of_a_session_that_was_only_leased_apply_one_after_the_other(
    world: World, content: str
) -> None:
    stores = [world.open() for _ in range(4)] if world.is_durable else [world.open()] * 4
    lease_on(stores[0], "s1", ALICE, ttl_ms=0)

    done = racing(4, lambda n: alone(stores[n], content, graph=chain(f"n{n}"))())

    assert sorted(one.head_revision for one in done) == [1, 2, 3, 4]


@pytest.mark.scenario("BAK-T7")
@pytest.mark.parametrize(
    "act",
    [
        lambda view: view.commit_with_fresh_lease(commit("s1", config={"n": 2})),
        lambda view: view.commit_with_fresh_lease(commit("s1", checkpoint=checkpoint())),
        lambda view: view.claim_lease(ALICE),
        lambda view: view.update_labels({"name": "value"}),
        lambda view: view.tombstone(["a"]),
        lambda view: view.save_meta(
            SessionMeta(session_id="s1", session_name="named", created_at_ms=1)
        ),
        lambda view: view.attachments.record_intent(AN_ID),
        lambda view: view.attachments.commit_refs([AN_ID]),
    ],
    ids=["light", "whole", "claim", "labels", "tombstone", "meta", "intent", "refs"],
)
def test_a_view_notices_a_deletion_it_waited_for(
    world: World, store: Any, act: Callable[[Any], Any]
) -> None:
    put(store, "s1", graph=chain("a"))
    view = store.session("s1")
    view.load_meta()

    outcome = after(world, store, *DELETED, act=lambda: act(view))

    assert isinstance(outcome, SessionDeleted)


@pytest.mark.scenario("BAK-T7")
def test_a_renewal_and_a_release_that_waited_meet_the_new_holder(world: World, store: Any) -> None:
    held = lease_on(store, "s1", ALICE)

    released = after(world, store, TAKEN, act=lambda: store.sessions.release_lease(held))
    renewed = after(world, store, TAKEN, act=lambda: store.sessions.renew_lease(held))

    assert released is False
    assert (renewed.reason, renewed.current_generation) == ("superseded", 3)


@pytest.mark.scenario("BAK-T7")
def test_a_claim_that_waited_meets_what_is_there_then(world: World, store: Any) -> None:
    lease_on(store, "s1", ALICE, ttl_ms=0)
    busy = after(world, store, TAKEN, act=lambda: store.sessions.claim_lease("s1", ALICE))
    acquired = after(world, store, RELEASED, act=lambda: store.sessions.claim_lease("s1", ALICE))

    assert isinstance(busy, Busy)
    assert busy.holder.owner.owner_id == "carol"
    assert isinstance(acquired, Acquired)
    assert (acquired.lease.generation, acquired.displaced) == (3, None)


@pytest.mark.scenario("BAK-T7")
def test_a_takeover_that_waited_meets_another_holder_than_it_observed(
    world: World, store: Any
) -> None:
    lease_on(store, "s1", mortal())
    observed, me = store.sessions.lease("s1"), local_process("me")

    outcome = after(world, store, TAKEN, act=lambda: store.sessions.reclaim_lease(observed, me))

    assert isinstance(outcome, Busy)
    assert outcome.holder.generation == observed.generation + 1


@pytest.mark.scenario("BAK-T7")
def test_a_deletion_that_waited_meets_the_lease_or_the_head_of_then(
    world: World, store: Any
) -> None:
    put(store, "s1", graph=chain("a"))

    moved = after(world, store, MOVED, act=lambda: store.sessions.delete("s1", expect=1))
    busy = after(world, store, TAKEN, act=lambda: store.sessions.delete("s1"))

    assert isinstance(moved, HeadRevisionConflict)
    assert moved.actual == 2
    assert isinstance(busy, SessionBusy)
    assert store.sessions.load("s1").head_revision == 2


@pytest.mark.invariant("INV-17")
@pytest.mark.scenario("BAK-T7")
def test_a_turn_committed_by_several_at_once_is_applied_once(world: World) -> None:
    stores = [world.open() for _ in range(4)] if world.is_durable else [world.open()] * 4
    put(stores[0], "s1", graph=chain("a"))

    done = racing(4, lambda n: put(stores[n], "s1", graph=chain("b"), turn_commit=turn("t1")))

    assert sorted(one.replayed for one in done) == [False, True, True, True]
    assert {one.head_revision for one in done} == {2}


@pytest.mark.invariant("INV-5", "INV-15", "INV-22")
@pytest.mark.scenario("BAK-T7")
@pytest.mark.parametrize("content", CONTENTS)
def test_sequences_of_racing_appends_are_contiguous(world: World, content: str) -> None:
    stores = [world.open() for _ in range(4)] if world.is_durable else [world.open()] * 4

    racing(8, lambda n: alone(stores[n % 4], content, graph=chain(f"x{n}", f"y{n}"))())

    page = stores[0].sessions.list_nodes("s1")
    assert [node.sequence for node in page.nodes] == list(range(1, 17))
    assert stores[0].sessions.load("s1").head_revision == 8


@pytest.mark.scenario("BAK-T7")
def test_an_intent_that_waited_has_the_revision_of_then(world: World, store: Any) -> None:
    put(store, "s1", graph=chain("a"))

    after(world, store, MOVED, act=lambda: store.attachments.record_intent("s1", AN_ID))

    (intent,) = store.attachments.list_uncommitted(2**62)
    assert intent.intent_revision == 2
