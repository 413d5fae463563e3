"""Every error, setting and public name is documented, as it is."""

import re
from pathlib import Path

import msgspec
import pytest

import holdfast
from holdfast import errors
from holdfast.settings import Settings

DOCS = Path(__file__).parents[2] / "docs"
REFERENCE = (DOCS / "reference.md").read_text()
SIMPLE = (bool, int, str, type(None))


def rows(heading):
    """The table under a heading, as lists of cells by the name in the first one."""
    section = REFERENCE.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    cells = [
        line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| `")
    ]
    return {row[0].strip("`"): row[1:] for row in cells}


def names_in(cell):
    return tuple(re.findall(r"`(\w+)`", cell))


def raised():
    """Every class that may be raised as itself: the families are not."""
    families = (errors.HoldfastError, errors.Refused, errors.Fault)
    found = [value for value in vars(errors).values() if isinstance(value, type)]
    return [e for e in found if issubclass(e, errors.HoldfastError) and e not in families]


def family(error):
    return " and ".join(f.__name__ for f in (errors.Refused, errors.Fault) if issubclass(error, f))


def test_each_error_is_documented_and_no_other():
    assert list(rows("Errors")) == [error.__name__ for error in raised()]


@pytest.mark.parametrize("error", raised(), ids=lambda error: error.__name__)
def test_an_errors_row_says_its_code_family_and_fields(error):
    code, shown_family, fields, _ = rows("Errors")[error.__name__]
    assert (code, shown_family) == (f"`{error.code}`", family(error))
    assert names_in(fields) == error.fields


def test_each_setting_is_documented_and_no_other():
    assert list(rows("Settings")) == list(Settings.__struct_fields__)


@pytest.mark.parametrize("field", msgspec.structs.fields(Settings), ids=lambda field: field.name)
def test_a_settings_row_says_its_default(field):
    shown = rows("Settings")[field.name][0]
    if isinstance(field.default, SIMPLE):
        assert shown == f"`{field.default!r}`"


@pytest.mark.parametrize("name", holdfast.__all__)
def test_each_public_name_is_documented(name):
    pages = "".join(page.read_text() for page in DOCS.rglob("*.md"))
    assert re.search(rf"`(?:holdfast\.)?{name}\b", pages), (
        f"say what {name} is in docs/reference.md"
    )


def test_each_name_that_is_documented_is_public():
    assert set(rows("Names")) <= set(holdfast.__all__)
