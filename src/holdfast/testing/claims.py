"""Compares the scenarios of the contract, and the invariants, with those that tests claim.

`python -m holdfast.testing.claims [docs/contract]` prints what is wrong and exits non-zero. The
documents print a scenario as `COM-T7: given ...`; processes.md numbers them, and `P3-T17` is
scenario 17 of its section 3. A test claims with `@pytest.mark.scenario("COM-T7", ...)`; it has to
be one of the shipped suite. An invariant has a row of docs/invariants.md, and is defended by any
test of the project with `@pytest.mark.invariant("INV-7", ...)`.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

SUITE = Path(__file__).parent / "contract"
PRINTED = ("sessions.md", "extensions.md")
NUMBERED = "processes.md"
INVARIANTS = Path("..", "invariants.md")
OTHER_TESTS = Path("..", "..", "tests")
NO_DOCUMENTS = """\
{folder} holds no documents of the contract. They are not part of the installed package: run this
in a checkout of the project, or name the folder docs/contract of one.
"""

_MARKS = {"pytest.mark.scenario": "scenario", "pytest.mark.invariant": "invariant"}
_SECTION = re.compile(r"## (\d+)\. ")
_PRINTED_ID = re.compile(r"\b([A-Z]{2,3}-T\d+): ")
_NUMBERED_ID = re.compile(r"(\d+)\. ")
_INVARIANT_ROW = re.compile(r"^\| (INV-\d+) \| ", re.MULTILINE)
_VOID_ROW = re.compile(r"\| ([A-Z0-9]+-T\d+) \| (.+) \|")


class Scenario(NamedTuple):
    """Where the contract states a scenario."""

    id: str
    document: str
    section: int


class Contract(NamedTuple):
    """Every scenario of the documents, the lists that excuse some of them, and the invariants."""

    scenarios: list[Scenario]
    void: list[str]
    not_built: dict[str, Any]
    invariants: list[str]


class Claim(NamedTuple):
    """A test that says it shows a scenario, or defends an invariant."""

    marker: str
    id: str
    test: str


def read_contract(folder: Path) -> Contract:
    """Read the documents and the two lists beside them."""
    scenarios = [s for name in PRINTED for s in _printed(name, (folder / name).read_text())]
    scenarios += _numbered((folder / NUMBERED).read_text())
    rows = map(_VOID_ROW.fullmatch, (folder / "void.md").read_text().splitlines())
    not_built = tomllib.loads((folder / "not-built.toml").read_text())
    invariants = _INVARIANT_ROW.findall((folder / INVARIANTS).read_text())
    return Contract(scenarios, [row[1] for row in rows if row], not_built, invariants)


def read_claims(folder: Path, suite: Path = SUITE) -> list[Claim]:
    """The claims of the suite, and of the invariants those of the other tests too.

    They are read from the source, without importing it.
    """
    claims = _claims_under(suite)
    others = _claims_under(folder / OTHER_TESTS)
    return claims + [claim for claim in others if claim.marker == "invariant"]


def find_faults(contract: Contract, claims: list[Claim]) -> list[str]:
    """What is wrong with the claims, in words; nothing when all is well."""
    known = {scenario.id for scenario in contract.scenarios}
    claimed = _ids(claims, "scenario")
    waiting, faults = _waiting(contract)
    faults += _repeated(contract)
    faults += [f"void.md: {id}: no such scenario" for id in contract.void if id not in known]
    for claim in claims:
        faults += [f"{claim.test}: {claim.id}: {why}" for why in _refused(claim, contract, waiting)]
    excused = claimed | waiting | set(contract.void)
    faults += [
        f"{s.document}: {s.id}: no test claims it"
        for s in contract.scenarios
        if s.id not in excused
    ]
    defended = _ids(claims, "invariant")
    faults += [
        f"invariants.md: {id}: no test defends it"
        for id in contract.invariants
        if id not in defended
    ]
    return faults


def main(arguments: list[str]) -> int:
    """Print every fault, or one line of counts."""
    folder = Path(arguments[0] if arguments else "docs/contract")
    if not (folder / NUMBERED).exists():
        sys.stdout.write(NO_DOCUMENTS.format(folder=folder))
        return 2
    contract, claims = read_contract(folder), read_claims(folder)
    faults = find_faults(contract, claims)
    waiting, _ = _waiting(contract)
    claimed = len(_ids(claims, "scenario"))
    lines = faults or [
        f"{len(contract.scenarios)} scenarios: {claimed} claimed, "
        f"{len(waiting)} not built, {len(contract.void)} void; "
        f"{len(contract.invariants)} invariants, each defended"
    ]
    sys.stdout.write("\n".join(lines) + "\n")
    return 1 if faults else 0


def _printed(document: str, text: str) -> Iterator[Scenario]:
    section = 0
    for line in text.splitlines():
        if heading := _SECTION.match(line):
            section = int(heading[1])
        yield from (Scenario(id, document, section) for id in _PRINTED_ID.findall(line))


def _numbered(text: str) -> Iterator[Scenario]:
    section, listing = 0, False
    for line in text.splitlines():
        if line.startswith("#"):
            listing = line == "### Conformance scenarios"
        if heading := _SECTION.match(line):
            section = int(heading[1])
        if listing and (item := _NUMBERED_ID.match(line)):
            yield Scenario(f"P{section}-T{item[1]}", NUMBERED, section)


def _claims_under(suite: Path) -> list[Claim]:
    files = sorted(suite.rglob("*.py"))
    return [claim for file in files for claim in _claims(file, ast.parse(file.read_text()))]


def _claims(file: Path, tree: ast.Module) -> Iterator[Claim]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            for mark in node.decorator_list:
                for marker, id in _named_by(mark):
                    yield Claim(marker, id, f"{file.name}:{node.lineno} {node.name}")


def _named_by(mark: ast.expr) -> Iterator[tuple[str, str]]:
    """A mark's name and each argument; one that is no literal claims nothing real."""
    if isinstance(mark, ast.Call) and (marker := _MARKS.get(ast.unparse(mark.func))):
        for argument in mark.args:
            match argument:
                case ast.Constant(value=str(id)):
                    yield marker, id
                case _:
                    yield marker, ast.unparse(argument)


def _ids(claims: list[Claim], marker: str) -> set[str]:
    return {claim.id for claim in claims if claim.marker == marker}


def _refused(claim: Claim, contract: Contract, waiting: set[str]) -> Iterator[str]:
    if claim.marker == "invariant":
        if claim.id not in contract.invariants:
            yield "no such invariant"
    elif claim.id in contract.void:
        yield "is void"
    elif claim.id in waiting:
        yield "is listed as not built; take it off not-built.toml"
    elif claim.id not in {scenario.id for scenario in contract.scenarios}:
        yield "no such scenario"


def _waiting(contract: Contract) -> tuple[set[str], list[str]]:
    """The ids that wait for what is not built, and the entries that match nothing."""
    void, faults = set(contract.void), []
    waiting: set[str] = set()
    for entry in contract.not_built.get("section", ()):
        for section in entry["sections"]:
            place = (entry["document"], section)
            found = {s.id for s in contract.scenarios if (s.document, s.section) == place}
            if not found - void:
                faults.append(f"not-built.toml: {place[0]} section {section}: no scenario there")
            waiting |= found - void
    known = {scenario.id for scenario in contract.scenarios} - void
    for entry in contract.not_built.get("scenario", ()):
        if entry["id"] not in known - waiting:
            faults.append(f"not-built.toml: {entry['id']}: void, listed twice or no such scenario")
        waiting |= {entry["id"]} & known
    for entry in contract.not_built.get("partial", ()):
        if entry["id"] not in known - waiting:
            faults.append(f"not-built.toml: {entry['id']}: partial, yet void, not built or unknown")
    return waiting, faults


def _repeated(contract: Contract) -> list[str]:
    ids = [scenario.id for scenario in contract.scenarios]
    return [f"{id}: stated more than once" for id in sorted({i for i in ids if ids.count(i) > 1})]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
