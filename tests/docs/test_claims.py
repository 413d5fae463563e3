"""The contract's scenarios and the suite's claims agree, and the check that says so can fail."""

from pathlib import Path

import pytest

from holdfast.testing import claims

ROOT = Path(__file__).parents[2]
DOCUMENTS = ROOT / "docs" / "contract"

SESSIONS = """\
## 1. Reading
1. GEN-T1: given a thing, then another.
Scenarios: GEN-T2: given two, on one line. GEN-T3: given three (as GEN-T1 says).
## 2. Queue
1. QUE-T1: given a queue, then work.
2. QUE-T2: void (ruling 2).
"""
PROCESSES = """\
## 1. Records
1. A rule, not a scenario.
### Conformance scenarios
1. Given a process, then a record.
2. Given two, then two.
"""
NOT_BUILT = """\
[[section]]
document = "processes.md"
sections = [1]
reason = "processes"
[[scenario]]
id = "QUE-T1"
reason = "the queue"
[[partial]]
id = "GEN-T3"
missing = "half of it"
"""
SUITE = """\
class Contract:
    @pytest.mark.scenario("GEN-T1", "GEN-T2")
    def test_one(self): ...

    @pytest.mark.timeout(3)
    @pytest.mark.scenario("GEN-T3")
    async def test_two(self): ...

    @pytest.mark.invariant("INV-1")
    def test_three(self): ...
"""
INVARIANTS = """\
| | Always true | From |
| INV-1 | One thing. | GEN-1 |
| INV-2 | Another, as INV-1 says. | GEN-2 |
"""
OTHER_TESTS = """\
@pytest.mark.scenario("GEN-T9")
@pytest.mark.invariant("INV-2")
def test_a_rule(): ...
"""
PLACES = {
    "sessions": "docs/contract/sessions.md",
    "void": "docs/contract/void.md",
    "not_built": "docs/contract/not-built.toml",
    "invariants": "docs/invariants.md",
    "suite": "suite/test_things.py",
    "others": "tests/unit/test_rules.py",
}


@pytest.fixture
def faults_of(tmp_path):
    """Find the faults of a small contract, in which one file may be another."""

    def faults_of(**changed):
        files = {
            "docs/contract/sessions.md": SESSIONS,
            "docs/contract/extensions.md": "",
            "docs/contract/processes.md": PROCESSES,
            "docs/contract/void.md": "| QUE-T2 | 2: gone |\n",
            "docs/contract/not-built.toml": NOT_BUILT,
            "docs/invariants.md": INVARIANTS,
            "suite/test_things.py": SUITE,
            "tests/unit/test_rules.py": OTHER_TESTS,
        } | {PLACES.get(name, name): text for name, text in changed.items()}
        for name, text in files.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text)
        folder = tmp_path / "docs" / "contract"
        found = claims.read_claims(folder, tmp_path / "suite")
        return claims.find_faults(claims.read_contract(folder), found)

    return faults_of


def claiming(*ids):
    arguments = ", ".join(repr(id) for id in ids)
    return SUITE + f"    @pytest.mark.scenario({arguments})\n    def test_four(self): ...\n"


def not_built(table, **entry):
    lines = "".join(f"{name} = {value!r}\n" for name, value in entry.items())
    return NOT_BUILT + f"[[{table}]]\n" + lines


def test_every_scenario_is_claimed_void_or_not_built():
    contract = claims.read_contract(DOCUMENTS)
    assert claims.find_faults(contract, claims.read_claims(DOCUMENTS)) == []


def test_a_claim_for_each_scenario_and_invariant_is_no_fault(faults_of):
    assert faults_of() == []


CASES = {
    "nobody claims it": (
        {"suite": SUITE.replace('"GEN-T1", ', "")},
        "sessions.md: GEN-T1: no test claims it",
    ),
    "no such scenario": (
        {"suite": claiming("GEN-T4")},
        "test_things.py:12 test_four: GEN-T4: no such scenario",
    ),
    "not a literal": (
        {"suite": SUITE + "    @pytest.mark.scenario(ID)\n    def test_four(self): ...\n"},
        "test_things.py:12 test_four: ID: no such scenario",
    ),
    "void": (
        {"suite": claiming("QUE-T2")},
        "test_things.py:12 test_four: QUE-T2: is void",
    ),
    "not built": (
        {"suite": claiming("QUE-T1")},
        "test_things.py:12 test_four: QUE-T1: is listed as not built; take it off not-built.toml",
    ),
    "in a section that is not built": (
        {"suite": claiming("P1-T2")},
        "test_things.py:12 test_four: P1-T2: is listed as not built; take it off not-built.toml",
    ),
    "void entry that matches nothing": (
        {"void": "| QUE-T2 | 2: gone |\n| QUE-T9 | 2: gone |\n"},
        "void.md: QUE-T9: no such scenario",
    ),
    "section entry that matches nothing": (
        {"not_built": not_built("section", document="processes.md", sections=[2])},
        "not-built.toml: processes.md section 2: no scenario there",
    ),
    "scenario entry that matches nothing": (
        {"not_built": not_built("scenario", id="GEN-T9")},
        "not-built.toml: GEN-T9: void, listed twice or no such scenario",
    ),
    "scenario entry listed twice": (
        {"not_built": not_built("scenario", id="P1-T1")},
        "not-built.toml: P1-T1: void, listed twice or no such scenario",
    ),
    "partial entry that is not built at all": (
        {"not_built": not_built("partial", id="QUE-T1")},
        "not-built.toml: QUE-T1: partial, yet void, not built or unknown",
    ),
    "an invariant nobody defends": (
        {"invariants": INVARIANTS + "| INV-3 | A third thing. | GEN-3 |\n"},
        "invariants.md: INV-3: no test defends it",
    ),
    "an invariant that is not there": (
        {"others": OTHER_TESTS.replace("INV-2", 'INV-2", "INV-4')},
        "test_rules.py:3 test_a_rule: INV-4: no such invariant",
    ),
    "stated twice": (
        {"sessions": SESSIONS + "9. GEN-T1: given it again.\n"},
        "GEN-T1: stated more than once",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_the_check_fails_when_a_scenario_is(case, faults_of):
    changed, fault = CASES[case]
    assert faults_of(**changed) == [fault]


def test_scenarios_are_found_in_every_document():
    found = claims.read_contract(DOCUMENTS).scenarios
    ids = {scenario.id: scenario for scenario in found}
    assert ids["COM-T7"].section == 6
    assert ids["BAK-T8"].document == "sessions.md"
    assert ids["EXT-T18"].section == 2
    assert ids["KV-T12"].section == 3
    assert ids["P3-T17"].section == 3
    assert len(ids) == len(found) > 500


def test_the_command_says_what_it_needs_where_there_are_no_documents(tmp_path, capsys):
    assert claims.main([str(tmp_path / "docs")]) == 2
    assert "in a checkout of the project" in capsys.readouterr().out


def test_the_command_prints_faults_and_fails(tmp_path, capsys):
    folder = tmp_path / "docs" / "contract"
    folder.mkdir(parents=True)
    names = ("sessions.md", "extensions.md", "processes.md", "void.md", "not-built.toml")
    for name in (*names, "../invariants.md"):
        (folder / name).write_text(
            "## 1. Things\n1. GEN-T77: given.\n" if name == "sessions.md" else ""
        )
    assert claims.main([str(folder)]) == 1
    assert "sessions.md: GEN-T77: no test claims it" in capsys.readouterr().out
