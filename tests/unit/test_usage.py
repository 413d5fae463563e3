import pytest

from holdfast.errors import InvalidArgument
from holdfast.model.usage import TokenLedgerEntry, TokenUsage
from holdfast.rules.usage import check_deltas, diff_token_ledger, usage_report


def entry(source, model, *counters):
    return TokenLedgerEntry(source, model, TokenUsage(*counters))


def test_only_entries_of_zeros_are_ignored():
    cached = entry("chat", "m", 0, 0, 1)
    assert check_deltas([entry("chat", "m"), cached, entry("", "", 1)]) == [
        cached,
        entry("", "", 1),
    ]
    assert check_deltas(()) == []


@pytest.mark.parametrize(
    ("deltas", "field", "reason"),
    [
        ([entry("s", "m", -1)], "usage_deltas[0].usage.input_tokens", "negative"),
        (
            [entry("s", "m"), entry("s", "m", 0, 1.5)],
            "usage_deltas[1].usage.output_tokens",
            "not_an_integer",
        ),
        (
            [entry("s", "m", 0, 0, 0, 0, True)],
            "usage_deltas[0].usage.reasoning_output_tokens",
            "not_an_integer",
        ),
        ([entry("s", "m", 10**15 + 1)], "usage_deltas[0].usage.input_tokens", "too_large"),
        ([entry("s\0", "m", 1)], "usage_deltas[0].source", "nul"),
        ([entry("s", 5, 1)], "usage_deltas[0].model", "not_text"),
        ([entry("s", "m" * 1025, 1)], "usage_deltas[0].model", "too_large"),
        ([("s", "m")], "usage_deltas[0]", "not_a_ledger_entry"),
        ([entry("s", "m", 1)] * 1001, "usage_deltas", "too_large"),
        (None, "usage_deltas", "not_a_list"),
    ],
)
def test_deltas_that_are_refused(deltas, field, reason):
    with pytest.raises(InvalidArgument) as refused:
        check_deltas(deltas)
    assert (refused.value.field, refused.value.reason) == (field, reason)


def test_the_limits_themselves_are_legal():
    assert len(check_deltas([entry("s", "m" * 1024, 10**15)] * 1000)) == 1000


def test_differences_are_sorted_and_without_what_stayed():
    before = [entry("b", "m", 1, 2), entry("a", "m", 5)]
    after = [entry("b", "m", 4, 2, 0, 1), entry("a", "m", 5), entry("a", "k", 0, 0, 0, 0, 7)]
    assert diff_token_ledger(before, after) == [
        entry("a", "k", 0, 0, 0, 0, 7),
        entry("b", "m", 3, 0, 0, 1),
    ]
    assert diff_token_ledger(after, after) == []
    assert diff_token_ledger([], []) == []


@pytest.mark.parametrize("after", [[], [entry("chat", "m", 5, 1)], [entry("chat", "other", 5, 2)]])
def test_a_ledger_that_shrinks_is_an_error_naming_the_pair(after):
    with pytest.raises(InvalidArgument, match=r"'chat'.*'m'"):
        diff_token_ledger([entry("chat", "m", 5, 2)], after)


def test_a_report_sums_by_every_label():
    report = usage_report(
        [entry("a", "m", 1, 2), entry("a", "k", 3), entry("b", "m", 0, 4, 5, 6), entry("a", "m", 1)]
    )
    assert report.overall == TokenUsage(5, 6, 5, 6)
    assert report.by_source == {"a": TokenUsage(5, 2), "b": TokenUsage(0, 4, 5, 6)}
    assert report.by_model == {"m": TokenUsage(2, 6, 5, 6), "k": TokenUsage(3)}
    assert report.by_pair[("a", "m")] == TokenUsage(2, 2)
    assert report.overall.total == 22
