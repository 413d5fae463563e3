"""A named statement as SQLite runs it: in parts, with its bulk rows spelled out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from holdfast import statements
from holdfast.statements import NOW, ROWS, Statement

#: Rows of a bulk statement that go into one statement; bounds its text and its parameters.
CHUNK: Final = 200
#: Bulk texts of so many rows stay prepared, and full ones; those in between come too seldom.
_KEPT: Final = 32


class Part:
    """One SQL statement and the names of its columns, which the first run finds out."""

    __slots__ = ("columns", "keep", "sql")

    def __init__(self, sql: str, *, keep: bool = True) -> None:
        self.sql = sql
        self.keep = keep
        self.columns: tuple[str, ...] | None = None


class Plan:
    """A named statement, prepared for running; shared by all connections of a store."""

    __slots__ = ("_sizes", "_statement", "arity", "name", "needs_now", "parts", "tuples")

    def __init__(self, statement: Statement) -> None:
        self._statement = statement
        self._sizes: dict[int, Part] = {}
        self.name = statement.name
        self.arity = len(statement.arguments)
        self.needs_now = NOW in statement.params
        self.tuples = statement.tuples
        self.parts = tuple(Part(sql) for sql in statements.split(statement.sql))

    def mismatch(self, params: Mapping[str, Any]) -> KeyError:
        """What to raise when the parameters given are not those the statement has."""
        wanted = self._statement.arguments
        missing, unknown = sorted(wanted - params.keys()), sorted(params.keys() - wanted)
        return KeyError(f"{self.name}: missing parameters {missing}, unknown {unknown}")

    def chunks(
        self, rows: Sequence[tuple[Any, ...]], now_ms: int | None
    ) -> Iterator[tuple[Part, list[Any]]]:
        """A bulk statement's parts with their bindings, each for at most `CHUNK` rows."""
        width = len(self._statement.bulk)
        if not width:
            raise KeyError(f"{self.name} takes no rows")
        for start in range(0, len(rows), CHUNK):
            chunk = rows[start : start + CHUNK]
            values = [value for row in chunk for value in row]
            if len(values) != width * len(chunk):
                raise ValueError(f"{self.name}: a row has not {width} columns")
            if self.needs_now:
                values.insert(0, now_ms)
            yield self._sized(len(chunk)), values

    def _sized(self, count: int) -> Part:
        part = self._sizes.get(count)
        if part is None:
            part = Part(self._spelled(count), keep=count <= _KEPT or count == CHUNK)
            part.columns = next((each.columns for each in self._sizes.values()), None)
            self._sizes[count] = part
        return part

    def _spelled(self, count: int) -> str:
        """The text for so many rows. With the clock, which is ?1, all places are numbered."""
        width = len(self._statement.bulk)
        numbers = iter(range(2, 2 + count * width)) if self.needs_now else None

        def row() -> str:
            return ",".join(f"?{next(numbers)}" if numbers else "?" for _ in range(width))

        spelling = {NOW: "?1", ROWS: ",".join(f"({row()})" for _ in range(count))}
        return statements.rewrite(self.parts[0].sql, spelling.__getitem__)


class Plans(dict[str, Plan]):
    """The plans of a store's statements, by name; each is made when it is first needed."""

    def __init__(self, found: Mapping[str, Statement]) -> None:
        super().__init__()
        self._found = found

    def __missing__(self, name: str) -> Plan:
        plan = self[name] = Plan(self._found[name])
        return plan
