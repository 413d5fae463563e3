"""The lines that are printed: what was measured, against what was wanted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

#: What each of them asks for is said in README.md.
Goal = Literal["S1", "S2", "S3", "S4", "S5", "S6", "S8", "S9", "S15", "Q1", "Q2", "F1", "F2"]


class Line(NamedTuple):
    """One comparison; where nothing is wanted it only informs."""

    goal: Goal
    what: str
    ratio: float
    at_most: float | None = None
    at_least: float | None = None
    detail: str = ""

    @property
    def wanted(self) -> str:
        """The goal as text."""
        if self.at_most is not None:
            return f"<= {self.at_most:g}"
        return f">= {self.at_least:g}" if self.at_least is not None else ""

    @property
    def verdict(self) -> str:
        """Whether the goal was met in this run."""
        if self.at_most is None and self.at_least is None:
            return ""
        over = self.at_most is not None and self.ratio > self.at_most
        under = self.at_least is not None and self.ratio < self.at_least
        return "MISSED" if over or under else "met"


def print_lines(title: str, lines: Iterable[Line]) -> None:
    """Print comparisons under a title."""
    rows = [
        (line.goal, line.what, f"{line.ratio:.2f}", line.wanted, line.verdict, line.detail)
        for line in lines
    ]
    print_table(title, ("goal", "compared", "ratio", "wanted", "", "medians"), rows)


def print_table(title: str, heads: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print rows under heads, each column as wide as it needs."""
    table = [[str(cell) for cell in row] for row in (heads, *rows)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    print(f"\n{title}\n{'-' * len(title)}")
    for row in table:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        print("  ".join(cells).rstrip())
