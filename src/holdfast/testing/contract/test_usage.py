"""Section 9: the ledger of what models consumed."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast import (
    Append,
    HeadRevisionConflict,
    InvalidArgument,
    ReplaceFull,
    SessionCreate,
    Splice,
    TokenLedgerEntry,
    TokenUsage,
    diff_token_ledger,
    usage_report,
)
from holdfast.testing.contract.samples import chain, message, put, spent
from holdfast.testing.world import World

ALL_FIVE = (1, 20, 300, 4_000, 5)


def ledger(store: Any, session_id: str = "s1") -> list[TokenLedgerEntry]:
    """What a load says was used."""
    entries: list[TokenLedgerEntry] = store.sessions.load(session_id).token_ledger
    return entries


@pytest.mark.scenario("USE-T1")
def test_one_delta_comes_back_with_its_counters(store: Any) -> None:
    put(store, "s1", usage_deltas=[spent("chat", "m", *ALL_FIVE)])

    assert ledger(store) == [TokenLedgerEntry("chat", "m", TokenUsage(*ALL_FIVE))]
    assert ledger(store)[0].usage.total == 4_321


class TestSums:
    """USE-T2: pairs are summed, in order of their first appearance."""

    A, B, A_AGAIN = spent("chat", "m", 1, 2), spent("tool", "m", 5), spent("chat", "m", 10, 20, 1)
    EXPECTED = (spent("chat", "m", 11, 22, 1), spent("tool", "m", 5))

    @pytest.mark.scenario("USE-T2")
    def test_across_commits(self, store: Any) -> None:
        for delta in (self.A, self.B, self.A_AGAIN):
            put(store, "s1", usage_deltas=[delta])

        assert ledger(store) == list(self.EXPECTED)

    @pytest.mark.scenario("USE-T2")
    def test_within_one_commit(self, store: Any) -> None:
        put(store, "s1", usage_deltas=[self.A, self.B, self.A_AGAIN])

        assert ledger(store) == list(self.EXPECTED)

    @pytest.mark.scenario("USE-T2")
    def test_by_appearance_and_not_by_name(self, store: Any) -> None:
        put(store, "s1", usage_deltas=[spent("z"), spent("b")])
        put(store, "s1", usage_deltas=[spent("a"), spent("z")])

        assert [entry.source for entry in ledger(store)] == ["z", "b", "a"]

    @pytest.mark.scenario("USE-T2")
    @pytest.mark.parametrize("place", range(5))
    def test_a_sum_stops_at_what_can_be_stored(self, store: Any, world: World, place: int) -> None:
        column = TokenUsage.__struct_fields__[place]
        counters = [int(place == each) for each in range(5)]
        put(store, "s1", usage_deltas=[spent("chat", "m", *counters), self.B])
        world.sql(store, f"UPDATE {{usage}} SET {column} = ? WHERE source = 'chat'", 2**63 - 3)  # noqa: S608

        for expected in (2**63 - 2, 2**63 - 1, 2**63 - 1):
            put(store, "s1", usage_deltas=[spent("chat", "m", *counters), self.B])

            found = getattr(ledger(store)[0].usage, column)
            assert (type(found), found) == (int, expected)
        assert ledger(store)[1] == spent("tool", "m", 20)
        two = usage_report([*ledger(store), *ledger(store)]).overall
        assert getattr(two, column) >= 2**64 - 2


def test_labels_are_compared_as_text(store: Any) -> None:
    pairs = [("a", "bc"), ("ab", "c"), ("A", "bc"), ("", "abc"), ("é", "m"), ("e\u0301", "m")]

    put(store, "s1", usage_deltas=[spent(source, model) for source, model in pairs])

    assert [(entry.source, entry.model) for entry in ledger(store)] == pairs


@pytest.mark.scenario("USE-T3")
def test_an_entry_of_zeros_only_is_left_out(store: Any) -> None:
    cached = spent("cached", "m", 0, 0, 7)

    put(store, "s1", usage_deltas=[spent("idle", "m", 0, 0, 0, 0, 0), cached])

    assert ledger(store) == [cached]


@pytest.mark.scenario("USE-T5")
@pytest.mark.parametrize("place", range(5))
@pytest.mark.parametrize("wrong", [-1, 0.5, True, None], ids=str)
def test_a_counter_that_is_no_count_is_refused(store: Any, place: int, wrong: Any) -> None:
    counters = [wrong if place == each else 1 for each in range(5)]

    with pytest.raises(InvalidArgument) as refused:
        put(store, "s1", usage_deltas=[spent("chat", "m", *counters)])

    assert refused.value.field.startswith("usage_deltas[0].usage.")
    assert store.sessions.load("s1") is None


def test_a_commit_that_fails_adds_nothing(store: Any) -> None:
    put(store, "s1", usage_deltas=[spent("chat")])

    with pytest.raises(HeadRevisionConflict):
        put(store, "s1", expected_head_revision=7, usage_deltas=[spent("chat")])

    assert ledger(store) == [spent("chat")]


@pytest.mark.scenario("USE-T6")
def test_a_load_reads_one_row_for_each_pair(store: Any, world: World) -> None:
    # What is kept is one row for each pair, however many commits there were, so that the rows a
    # load can read are counted as well by few commits as by 10,000; in memory we make them all.
    commits = 100 if world.is_durable else 10_000
    pair = [spent("chat", "m", 1), spent("tool", "m", 2)]

    for _ in range(commits):
        put(store, "s1", usage_deltas=pair)

    assert world.sql(store, "SELECT count(*) FROM {usage}") == [(2,)]
    assert ledger(store) == [spent("chat", "m", commits), spent("tool", "m", 2 * commits)]


@pytest.mark.parametrize("delta", [ReplaceFull([message("x")]), Splice(0), Append([])], ids=repr)
def test_what_happens_to_the_graph_does_not_touch_it(store: Any, delta: Any) -> None:
    put(store, "s1", graph=chain("a", "b"), usage_deltas=[spent("chat")])

    put(store, "s1", graph=delta)

    assert ledger(store) == [spent("chat")]


def test_forks_and_recreated_sessions_begin_empty(store: Any) -> None:
    put(store, "s1", graph=chain("a"), usage_deltas=[spent("chat")])

    store.sessions.fork("s1", SessionCreate(session_id="s2"))
    store.sessions.delete("s1")
    put(store, "s1")

    assert (ledger(store, "s1"), ledger(store, "s2")) == ([], [])


class TestDifferences:
    """USE-T7: what was added between two ledgers."""

    BEFORE = (spent("chat", "m", 5), spent("tool", "m", 1))

    @pytest.mark.scenario("USE-T7")
    def test_equal_ledgers_do_not_differ(self) -> None:
        assert diff_token_ledger(self.BEFORE, self.BEFORE) == []

    @pytest.mark.scenario("USE-T7")
    @pytest.mark.parametrize("after", [[], [spent("chat", "m", 4), spent("tool", "m", 1)]])
    def test_a_ledger_that_shrinks_is_an_error(self, after: list[TokenLedgerEntry]) -> None:
        with pytest.raises(InvalidArgument, match=r"chat.*m"):
            diff_token_ledger(self.BEFORE, after)

    def test_differences_are_sorted_by_pair(self) -> None:
        after = [*self.BEFORE, spent("b", "z", 2), spent("b", "a", 3), spent("tool", "m", 1)]

        found = diff_token_ledger(self.BEFORE, after)

        assert found == [spent("b", "a", 3), spent("b", "z", 2), spent("tool", "m", 1)]


def test_a_report_sums_up_by_each_label() -> None:
    report = usage_report([spent("chat", "m", 1), spent("chat", "n", 2), spent("tool", "m", 4)])

    assert report.overall == TokenUsage(7)
    assert report.by_source == {"chat": TokenUsage(3), "tool": TokenUsage(4)}
    assert report.by_model == {"m": TokenUsage(5), "n": TokenUsage(2)}
    assert report.by_pair[("chat", "n")] == TokenUsage(2)
