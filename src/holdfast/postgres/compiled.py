"""Statements made ready for one schema: our schema's name put in, parameters numbered.

Every statement spells the schema `holdfast.`, which is replaced once, at opening, wherever it is
code: not in string literals, quoted names and comments, but inside `$$` function bodies.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from holdfast.errors import InvalidArgument
from holdfast.postgres.parameters import UNKNOWN, UNTYPED, encode
from holdfast.statements import Statement

_MAX_IDENTIFIER_BYTES = 63
_TOKEN = re.compile(
    r"""
      (?P<comment>--[^\n]*|/\*.*?\*/)
    | (?P<literal>\b[eE]'(?:[^'\\]|\\.|'')*'|'(?:[^']|'')*'|"(?:[^"]|"")*")
    | (?P<schema>(?<![\w$.])holdfast\.)
    | %\((?P<parameter>\w+)\)s
    """,
    re.VERBOSE | re.DOTALL,
)


class Schema:
    """The schema a store lives in, as a name and as SQL."""

    def __init__(self, name: str) -> None:
        if not name or "\0" in name or len(name.encode()) > _MAX_IDENTIFIER_BYTES:
            raise InvalidArgument("schema", "must be a name of 1 to 63 bytes")
        if name.startswith("pg_") or name == "information_schema":
            raise InvalidArgument("schema", "belongs to the server")
        self.name = name
        self.quoted = _quoted(name)

    def place(self, sql: str) -> str:
        """The same SQL with this schema in place of `holdfast.`; comments are dropped."""
        return _place(sql, self, {})


class Bound(NamedTuple):
    """A statement with its parameters encoded, and the name it may be prepared under."""

    statement: Compiled
    name: bytes
    values: list[bytes | None]
    oids: tuple[int, ...]
    formats: list[int]


class Compiled:
    """One statement of one store, ready to be sent by any of its connections."""

    def __init__(self, statement: Statement, schema: Schema) -> None:
        numbers: dict[str, int] = {}
        self.name = statement.name
        self.sql = _place(statement.sql, schema, numbers).strip().rstrip(";").encode()
        self.order = tuple(numbers)
        self.bulk = statement.bulk
        self.tuples = statement.tuples
        self.uses_clock = "now_ms" in numbers
        # A null takes the type its parameter had before: one prepared statement serves both.
        self._learned = [UNKNOWN] * len(self.order)
        self._names: dict[tuple[int, ...], bytes] = {}

    def bind(self, params: Mapping[str, Any], now_ms: int | None) -> Bound:
        """The statement with these parameters; a missing or unknown one is a KeyError."""
        given = {**params, "now_ms": now_ms} if self.uses_clock else params
        if len(given) != len(self.order) or "now_ms" in params:
            self._refuse(params)
        try:
            return self._encode([given[name] for name in self.order])
        except KeyError:
            self._refuse(params)
            raise

    def bind_rows(self, rows: Sequence[tuple[Any, ...]], now_ms: int | None) -> Bound:
        """A bulk statement with its rows: one array for each column."""
        columns = dict(zip(self.bulk, map(list, zip(*rows, strict=True)), strict=True))
        return self.bind(columns, now_ms)

    def _encode(self, values: list[Any]) -> Bound:
        wires = [encode(value) for value in values]
        oids = tuple([self._type_of(place, wire.oid) for place, wire in enumerate(wires)])
        return Bound(self, self._name_for(oids), [w[0] for w in wires], oids, [w[2] for w in wires])

    def _type_of(self, place: int, oid: int) -> int:
        if oid == UNTYPED:
            return self._learned[place]
        self._learned[place] = oid
        return oid

    def _name_for(self, oids: tuple[int, ...]) -> bytes:
        """A name made of the content: under it, whatever pooler is between, is this statement."""
        name = self._names.get(oids)
        if name is None:
            content = repr(oids).encode() + self.sql
            name = b"holdfast_" + hashlib.sha256(content).hexdigest()[:32].encode()
            self._names[oids] = name
        return name

    def _refuse(self, params: Mapping[str, Any]) -> None:
        wanted = set(self.order) - {"now_ms"}
        raise KeyError(
            f"{self.name}: missing {sorted(wanted - set(params))}, "
            f"unknown {sorted(set(params) - wanted)}"
        )


def compile_text(name: str, sql: str, schema: Schema) -> Compiled:
    """A statement of the driver's own."""
    return Compiled(Statement(name, sql, frozenset(), (), False, ""), schema)


def _quoted(name: str) -> str:
    # A dollar could end the function body the name stands in, so it is spelled as an escape.
    if "$" not in name:
        return '"' + name.replace('"', '""') + '"'
    escaped = name.replace("\\", "\\\\").replace('"', '""').replace("$", "\\0024")
    return f'U&"{escaped}"'


def _place(sql: str, schema: Schema, numbers: dict[str, int]) -> str:
    def replace(token: re.Match[str]) -> str:
        kind = token.lastgroup
        if kind == "schema":
            return schema.quoted + "."
        if kind == "parameter":
            return f"${numbers.setdefault(token['parameter'], len(numbers) + 1)}"
        return " " if kind == "comment" else token[0]

    return _TOKEN.sub(replace, sql)
