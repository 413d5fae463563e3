"""Loads the named SQL of a backend: package data, parsed once, the same way for both dialects.

    -- fragment: live
    deleted_at_ms IS NULL

    -- name: read_head
    -- Why it is written this way.
    -- returns: tuples
    SELECT revision FROM session WHERE session_id = :session_id AND {live};

A name is followed by its comment, in which `-- bulk:` and `-- returns:` are directives, and by
SQL up to the next name. `{live}` stands for the text of a fragment, from whichever file of the
folder. SQLite spells a parameter `:name`, PostgreSQL `%(name)s`; nothing of this is looked for
inside strings, quoted names and comments, and a `::cast` is no parameter.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Final, NamedTuple

#: Given by the driver, never by an operation.
NOW: Final = "now_ms"
#: Where a bulk statement of SQLite takes its rows: `VALUES :rows`.
ROWS: Final = "rows"

_HEAD = re.compile(r"^-- (name|fragment):[ \t]*(.*?)[ \t]*$", re.MULTILINE)
_IDENTIFIER = re.compile(r"[a-z_][a-z0-9_]*")
_TOKEN = re.compile(
    r"""
      (?P<aside> --[^\n]* | /\*.*?\*/ )
    | (?P<quoted> '(?:[^']|'')*' | "(?:[^"]|"")*" | `[^`]*` | (?P<tag>\$\w*\$).*?(?P=tag) )
    | %% | ::
    | %\( (?P<server> [A-Za-z_]\w* ) \)s
    | (?<!\w) : (?P<embedded> [A-Za-z_]\w* )
    | \{ (?P<fragment> \w+ ) \}
    | (?P<end> ; )
    """,
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Statement:
    """One named statement; `params` are the names its text mentions, `now_ms` included."""

    name: str
    sql: str
    params: frozenset[str]
    bulk: tuple[str, ...] = ()
    tuples: bool = False
    comment: str = ""

    @property
    def arguments(self) -> frozenset[str]:
        """What a caller has to give: every parameter the driver does not give by itself."""
        return frozenset() if self.bulk else self.params - {NOW}


class BadStatement(ValueError):
    """A statement file of ours is wrong; never a matter of data."""


class _Block(NamedTuple):
    """A statement or fragment as it stands in its file."""

    kind: str
    name: str
    where: str
    directives: Mapping[str, str]
    comment: str
    sql: str


def load(source: str | Traversable) -> dict[str, Statement]:
    """Every statement of the `.sql` files of a package, read once, or of a folder, by name."""
    return dict(_shipped(source)) if isinstance(source, str) else _read(source)


def parse(texts: Mapping[str, str]) -> dict[str, Statement]:
    """Every statement of some files, given as file name to text, by name."""
    kinds: dict[str, dict[str, _Block]] = {"name": {}, "fragment": {}}
    for origin, text in texts.items():
        for block in _blocks(text, origin):
            if block.name in kinds[block.kind]:
                raise BadStatement(f"{block.where} is defined twice")
            kinds[block.kind][block.name] = block
    fragments = {name: block.sql for name, block in kinds["fragment"].items()}
    return {name: _statement(block, fragments) for name, block in kinds["name"].items()}


def parameters(sql: str) -> frozenset[str]:
    """The names of the parameters in a text."""
    tokens = _TOKEN.finditer(sql)
    names = (token["server"] or token["embedded"] for token in tokens)
    return frozenset(name for name in names if name)


def rewrite(sql: str, spell: Callable[[str], str]) -> str:
    """The text with every parameter replaced by what `spell` says for its name."""

    def replaced(token: re.Match[str]) -> str:
        name = token["server"] or token["embedded"]
        return spell(name) if name else token[0]

    return _TOKEN.sub(replaced, sql)


def code(sql: str) -> str:
    """The text without comments and surrounding blanks: empty if there is nothing to run."""
    return _TOKEN.sub(lambda token: " " if token["aside"] else token[0], sql).strip()


def split(sql: str) -> list[str]:
    """The `;`-separated parts of a text, without comments."""
    bare = code(sql)
    ends = [token for token in _TOKEN.finditer(bare) if token["end"]]
    starts = [0] + [end.end() for end in ends]
    stops = [end.start() for end in ends] + [len(bare)]
    parts = (bare[start:stop].strip() for start, stop in zip(starts, stops, strict=True))
    return [part for part in parts if part]


@functools.cache
def _shipped(package: str) -> dict[str, Statement]:
    return _read(resources.files(package))


def _read(folder: Traversable) -> dict[str, Statement]:
    files = sorted(folder.iterdir(), key=lambda file: file.name)
    sources = [file for file in files if file.name.endswith(".sql")]
    return parse({file.name: file.read_text(encoding="utf-8") for file in sources})


def _blocks(text: str, origin: str) -> Iterator[_Block]:
    heads = list(_HEAD.finditer(text))
    if code(text[: heads[0].start()] if heads else text):
        raise BadStatement(f"{origin}: SQL before the first name")
    ends = [head.start() for head in heads[1:]] + [len(text)]
    for head, end in zip(heads, ends, strict=True):
        kind, name, where = head[1], head[2], f"{origin}: {head[2]}"
        if not _IDENTIFIER.fullmatch(name):
            raise BadStatement(f"{origin}: {name!r} is no name")
        lines = text[head.end() : end].strip("\n").split("\n")
        length = next((n for n, line in enumerate(lines) if line[:2] != "--"), len(lines))
        directives, comment = _header(lines[:length])
        sql = "\n".join(lines[length:]).strip()
        if not code(sql):
            raise BadStatement(f"{where} has no SQL")
        yield _Block(kind, name, where, directives, comment, sql)


def _header(lines: list[str]) -> tuple[dict[str, str], str]:
    """The directives of a block's header, and what remains: its comment."""
    directives: dict[str, str] = {}
    comment: list[str] = []
    for line in lines:
        text = line[2:].strip()
        word, colon, value = text.partition(":")
        if colon and word in ("bulk", "returns"):
            directives[word] = value.strip()
        else:
            comment.append(text)
    return directives, "\n".join(comment)


def _statement(block: _Block, fragments: Mapping[str, str]) -> Statement:
    bulk = tuple(re.findall(r"[^,\s]+", block.directives.get("bulk", "")))
    if block.directives.get("returns", "tuples") != "tuples":
        raise BadStatement(f"{block.where} returns neither dicts (the default) nor tuples")
    sql = _expand(block.sql, fragments, block.where)
    params = parameters(sql)
    if bulk and params - {NOW} not in (frozenset({ROWS}), frozenset(bulk)):
        raise BadStatement(f"{block.where} takes other parameters than its rows: {sorted(params)}")
    tuples = "returns" in block.directives
    return Statement(block.name, sql, params, bulk, tuples, block.comment)


def _expand(sql: str, fragments: Mapping[str, str], where: str, depth: int = 0) -> str:
    """The text with every fragment in place, those of fragments too."""

    def put(token: re.Match[str]) -> str:
        name = token["fragment"]
        if not name:
            return token[0]
        if name not in fragments or depth > len(fragments):
            raise BadStatement(f"{where}: fragment {name} is not defined, or contains itself")
        return _expand(fragments[name], fragments, where, depth + 1)

    return _TOKEN.sub(put, sql)
