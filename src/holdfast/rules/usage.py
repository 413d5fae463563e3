"""Token usage: what a commit may add, and how ledgers are compared and summed up."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, TypeAlias

import msgspec

from holdfast.errors import InvalidArgument
from holdfast.model.usage import TokenLedgerEntry, TokenUsage, UsageReport
from holdfast.rules.checks import limit, listed, text

MAX_DELTAS: Final = 1_000
#: Far above any bill; the databases hold thousands of times as much, and stop adding there.
MAX_COUNTER: Final = 10**15
#: Source and model are index columns together.
LABEL_BYTES: Final = 1024

COUNTERS: Final = TokenUsage.__struct_fields__
_NOTHING: Final = TokenUsage()

_Pair: TypeAlias = tuple[str, str]


def check_deltas(deltas: Any, field: str = "usage_deltas") -> list[TokenLedgerEntry]:
    """The deltas that count: checked, in order, without those of zeros only."""
    entries = listed(deltas, field, MAX_DELTAS)
    for index, entry in enumerate(entries):
        _check_entry(entry, f"{field}[{index}]")
    return [entry for entry in entries if entry.usage != _NOTHING]


def diff_token_ledger(
    before: Iterable[TokenLedgerEntry], after: Iterable[TokenLedgerEntry]
) -> list[TokenLedgerEntry]:
    """What was added per (source, model), sorted by them; a counter that shrank is an error."""
    old, new = _totals(before), _totals(after)
    changes = []
    for pair in sorted(old.keys() | new.keys()):
        change = _difference(pair, old.get(pair, _NOTHING), new.get(pair, _NOTHING))
        if change != _NOTHING:
            changes.append(TokenLedgerEntry(*pair, change))
    return changes


def usage_report(entries: Iterable[TokenLedgerEntry]) -> UsageReport:
    """Totals of a ledger, overall and by each of its labels."""
    by_pair = _totals(entries)
    overall, by_source, by_model = _NOTHING, dict[str, TokenUsage](), dict[str, TokenUsage]()
    for (source, model), usage in by_pair.items():
        overall = add(overall, usage)
        by_source[source] = add(by_source.get(source, _NOTHING), usage)
        by_model[model] = add(by_model.get(model, _NOTHING), usage)
    return UsageReport(overall, by_source, by_model, by_pair)


def add(one: TokenUsage, other: TokenUsage) -> TokenUsage:
    """The sum, counter by counter."""
    return TokenUsage(*(a + b for a, b in zip(_counters(one), _counters(other), strict=True)))


def _check_entry(entry: object, field: str) -> None:
    if not isinstance(entry, TokenLedgerEntry) or not isinstance(entry.usage, TokenUsage):
        raise InvalidArgument(field, "not_a_ledger_entry")
    text(entry.source, f"{field}.source", LABEL_BYTES)
    text(entry.model, f"{field}.model", LABEL_BYTES)
    for name in COUNTERS:
        limit(getattr(entry.usage, name), f"{field}.usage.{name}", MAX_COUNTER)


def _totals(entries: Iterable[TokenLedgerEntry]) -> dict[_Pair, TokenUsage]:
    totals: dict[_Pair, TokenUsage] = {}
    for entry in entries:
        pair = (entry.source, entry.model)
        totals[pair] = add(totals.get(pair, _NOTHING), entry.usage)
    return totals


def _difference(pair: _Pair, before: TokenUsage, after: TokenUsage) -> TokenUsage:
    change = [new - old for old, new in zip(_counters(before), _counters(after), strict=True)]
    if min(change) < 0:
        source, model = pair
        raise InvalidArgument("after", f"decreased for source {source!r}, model {model!r}")
    return TokenUsage(*change)


def _counters(usage: TokenUsage) -> tuple[int, ...]:
    return msgspec.structs.astuple(usage)
