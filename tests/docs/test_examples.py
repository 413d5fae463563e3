"""What documents and docstrings show runs, and shows what happens."""

import doctest
import importlib
import pkgutil
import re
from pathlib import Path

import pytest

import holdfast

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
SHOWN = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def modules():
    found = pkgutil.walk_packages(holdfast.__path__, "holdfast.")
    return ["holdfast", *(module.name for module in found if not module.name.endswith("__main__"))]


@pytest.mark.parametrize("name", modules())
def test_the_examples_of_a_docstring_run(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    failed, _ = doctest.testmod(importlib.import_module(name))
    assert failed == 0


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_examples_of_a_page_run(page, tmp_path, monkeypatch):
    """Python blocks of one page run one after another, as one program in an empty folder."""
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "__main__"}
    for block in SHOWN.findall(page.read_text()):
        if ">>>" in block:
            example = doctest.DocTestParser().get_doctest(block, names, page.name, str(page), 0)
            assert doctest.DocTestRunner().run(example, clear_globs=False).failed == 0
        else:
            exec(compile(block, str(page), "exec"), names)
