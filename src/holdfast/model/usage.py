"""Token usage, counted in five ways."""

from __future__ import annotations

import msgspec


class TokenUsage(msgspec.Struct, frozen=True):
    """What a model call consumed. `reasoning_output_tokens` is part of `output_tokens`."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_input_tokens: int = 0
    cache_write_input_tokens: int = 0
    reasoning_output_tokens: int = 0

    @property
    def total(self) -> int:
        """Everything billed once: input, output, cache reads and cache writes."""
        return (
            self.input_tokens
            + self.output_tokens
            + self.cache_read_input_tokens
            + self.cache_write_input_tokens
        )


class TokenLedgerEntry(msgspec.Struct, frozen=True):
    """Usage under one (source, model) pair; both are opaque labels."""

    source: str
    model: str
    usage: TokenUsage


class UsageReport(msgspec.Struct, frozen=True):
    """Totals of a ledger, overall and by each of its labels."""

    overall: TokenUsage
    by_source: dict[str, TokenUsage]
    by_model: dict[str, TokenUsage]
    by_pair: dict[tuple[str, str], TokenUsage]
