"""Section 4, metadata: what a session is called, how it is related, when it changed."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from holdfast import (
    Child,
    CorruptRecord,
    Fork,
    InvalidArgument,
    Relation,
    Root,
    SessionBindingMismatch,
    SessionMeta,
)
from holdfast.testing.clock import ManualClock
from holdfast.testing.contract.samples import chain, create, lease_on, put, turn
from holdfast.testing.world import World

RELATIONS: list[Relation] = [
    Root(),
    Child("no such session"),
    Child("p", caused_by={"tool": ["x", None, 1.5, "a\0b"]}),
    Fork("p", "n", 7),
    Fork("p", None, 1),
]


def full_meta(session_id: str = "s1", relation: Relation = RELATIONS[2]) -> SessionMeta:
    """A record with every field set."""
    return SessionMeta(
        session_id=session_id,
        session_name="Grüße 👋",
        created_at_ms=-12_345,
        updated_at_ms=99,
        model="m-1",
        cwd="/home/änne",
        relation=relation,
        scope=("tenant", "a/b", "é"),
        labels={"colour": "red", "empty": "", "quote'\"": "\\"},
        activity_us=1_234_567,
    )


@pytest.mark.scenario("MET-T1")
@pytest.mark.parametrize("relation", RELATIONS, ids=str)
def test_saved_metadata_comes_back_field_by_field(
    world: World, store: Any, relation: Relation
) -> None:
    given = full_meta(relation=relation)

    store.session("s1").save_meta(given)

    other = world.open() if world.is_durable else store
    expected = msgspec.structs.replace(given, updated_at_ms=world.clock.now_ms())
    assert store.sessions.load_meta("s1") == expected
    assert other.session("s1").load_meta() == expected


@pytest.mark.scenario("MET-T2")
def test_a_view_saves_no_metadata_of_another_session(world: World, store: Any) -> None:
    view = create(store, "s1")
    before = world.dump(store)

    with pytest.raises(SessionBindingMismatch) as refused:
        view.save_meta(full_meta("s2"))

    assert (refused.value.bound_session_id, refused.value.attempted_session_id) == ("s1", "s2")
    assert world.dump(store) == before


@pytest.mark.scenario("MET-T3")
@pytest.mark.parametrize(
    "damage",
    ["", "{", "null", "{}", '{"kind":"cousin"}', '{"kind":"child"}', '{"parent_session_id":"p"}'],
)
def test_a_damaged_relation_never_reads_as_a_root(world: World, store: Any, damage: str) -> None:
    create(store, "s1", relation=Child("p"))
    world.sql(store, "UPDATE {session_meta} SET relation = ?", damage)
    view = store.session("s1")

    for read in (view.load_meta, view.picker_info, store.sessions.list):
        with pytest.raises(CorruptRecord) as corrupt:
            read()
        assert (corrupt.value.record_kind, corrupt.value.key) == ("session_meta", "s1")


def test_a_save_replaces_the_whole_record(store: Any) -> None:
    store.sessions.save_meta(full_meta())
    bare = SessionMeta(session_id="s1", session_name="", created_at_ms=5)

    store.sessions.save_meta(bare)

    saved = store.sessions.load_meta("s1")
    assert (saved.session_name, saved.created_at_ms, saved.model, saved.cwd) == ("", 5, "", None)
    assert (saved.relation, saved.scope, saved.labels) == (Root(), (), {})


def test_a_save_needs_no_lease(store: Any) -> None:
    lease_on(store, "s1")

    store.sessions.save_meta(full_meta())

    assert store.sessions.load_meta("s1").session_name == "Grüße 👋"


def test_metadata_does_not_need_a_head_nor_make_one(store: Any) -> None:
    store.sessions.save_meta(full_meta())

    assert store.sessions.load("s1") is None
    assert store.sessions.picker_info("s1").head_revision == 0


def test_a_session_that_is_only_present_has_no_metadata(store: Any) -> None:
    lease_on(store, "s1")

    assert store.sessions.load_meta("s1") is None
    assert store.sessions.picker_info("s1") is None
    assert store.sessions.load_meta("s2") is None


def test_a_new_name_leaves_the_conversation_alone(store: Any) -> None:
    put(store, "s1", graph=chain("a"))
    before = store.sessions.load("s1")

    store.sessions.save_meta(full_meta())

    assert store.sessions.load("s1") == before
    assert store.sessions.picker_info("s1").user_message_count == 1


OUT_OF_BOUNDS: list[dict[str, Any]] = [
    {"session_name": "a\0b"},
    {"model": "\ud800"},
    {"cwd": "\0"},
    {"relation": Child("")},
    {"relation": Fork("a\0", "n", 1)},
    {"scope": ("",)},
    {"scope": tuple("abcdefghi")},
    {"labels": {"": "x"}},
    {"labels": {str(number): "" for number in range(33)}},
]


def test_metadata_out_of_bounds_is_refused(world: World, store: Any) -> None:
    create(store, "s1")
    before = world.dump(store)

    for change in OUT_OF_BOUNDS:
        with pytest.raises(InvalidArgument) as refused:
            store.sessions.save_meta(msgspec.structs.replace(full_meta(), **change))
        assert refused.value.field.partition(".")[0] in change

    assert world.dump(store) == before


class TestTheTimeOfTheLastChange:
    """MET-5: set by saves of metadata and by applied commits, and by nothing else."""

    @pytest.fixture(autouse=True)
    def known(self, store: Any, clock: ManualClock) -> None:
        put(store, "s1", graph=chain("a"), turn_commit=turn("t1"))
        clock.advance(1_000)

    def times(self, store: Any) -> tuple[int, int]:
        meta = store.sessions.load_meta("s1")
        return meta.updated_at_ms, meta.activity_us

    @pytest.mark.scenario("MET-T9")
    def test_a_replayed_turn_leaves_it(self, store: Any) -> None:
        before = self.times(store)

        again = put(store, "s1", graph=chain("a"), turn_commit=turn("t1"))

        assert again.replayed
        assert self.times(store) == before

    @pytest.mark.scenario("MET-T9")
    def test_a_replayed_append_leaves_it(self, store: Any) -> None:
        before = self.times(store)

        assert put(store, "s1", graph=chain("a")).replayed
        assert self.times(store) == before

    def test_a_lease_leaves_it(self, store: Any) -> None:
        before = self.times(store)

        store.sessions.release_lease(lease_on(store, "s1"))

        assert self.times(store) == before

    def test_an_applied_commit_sets_it(self, store: Any, clock: ManualClock) -> None:
        put(store, "s1", graph=chain("b"))

        assert self.times(store) == (clock.now_ms(), clock.now_ms() * 1_000)

    def test_a_save_sets_it_whatever_the_record_says(self, store: Any, clock: ManualClock) -> None:
        stale = msgspec.structs.replace(full_meta(), updated_at_ms=1, activity_us=None)

        store.sessions.save_meta(stale)

        assert self.times(store) == (clock.now_ms(), clock.now_ms() * 1_000)

    def test_activity_is_what_a_save_gives(self, store: Any, clock: ManualClock) -> None:
        store.sessions.save_meta(full_meta())

        assert self.times(store) == (clock.now_ms(), 1_234_567)

    def test_changed_labels_set_it(self, store: Any, clock: ManualClock) -> None:
        store.sessions.update_labels("s1", {"colour": "red"})

        assert self.times(store) == (clock.now_ms(), clock.now_ms() * 1_000)
