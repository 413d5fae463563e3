"""docs/contract/methods.md names every method of the face, and none that is not there."""

import re
from pathlib import Path

import pytest

import holdfast

PAGE = (Path(__file__).parents[2] / "docs" / "contract" / "methods.md").read_text()
SHOWN = re.compile(r"^\| [^|]+ \| `(\w+)\.(\w+)` \|(?:[^|]+\| (?:`([\w.]+)`)? ?\|)?", re.MULTILINE)
AREAS = ("sessions", "queue", "inputs", "blobs", "artifacts", "maintenance")
#: What a bound view has of these areas is a part of its own.
PARTS = ("queue", "inputs")


def shown(area):
    return {row[1] for row in SHOWN.findall(PAGE) if row[0] == area}


def offered(face):
    return {
        name for name in dir(face) if not name.startswith("_") and callable(getattr(face, name))
    }


@pytest.fixture
def store():
    with holdfast.open("sqlite://") as store:
        yield store


@pytest.mark.parametrize("area", AREAS)
def test_each_method_of_an_area_is_on_the_page(area, store):
    assert offered(getattr(store, area)) == shown(area)


def test_each_method_of_a_bound_view_is_on_the_page(store):
    view = store.session("s")
    found = offered(view) | {
        f"{part}.{name}" for part in PARTS for name in offered(getattr(view, part))
    }
    assert found == {row[2] for row in SHOWN.findall(PAGE) if row[2]}


def test_each_function_without_a_store_is_public():
    functions = re.findall(r"`holdfast\.(\w+)`", PAGE)
    assert functions
    assert set(functions) <= set(holdfast.__all__)
