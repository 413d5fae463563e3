"""Links between pages lead somewhere, and rules that pages cite exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])
RULE = re.compile(
    r"\b(?:GEN|FAC|MET|GRA|COM|CHK|BLB|GCX|USE|LEA|OWN|QUE|INP|ATT|TUR|MNT|BAK|EXT|KV|SNP)-\d+\b"
)
SECTIONS = ("sessions.md", "extensions.md")


def named(page):
    return str(page.relative_to(ROOT))


def stated():
    """Every rule the contract states; a line may state several, as `**FAC-12, FAC-13** void`."""
    texts = [(DOCS / "contract" / name).read_text() for name in SECTIONS]
    bold = [
        title for text in texts for title in re.findall(r"^- \*\*([^*]+)\*\*", text, re.MULTILINE)
    ]
    return {rule for title in bold for rule in RULE.findall(title)}


def anchors(page):
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    plain = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {heading.replace(" ", "-") for heading in plain}


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_links_lead_somewhere(page):
    for target, anchor in re.findall(r"\]\((?!https?:)([^)#]*)(?:#([^)]*))?\)", page.read_text()):
        aim = (page.parent / target) if target else page
        assert aim.exists(), f"{named(page)} links to {target}"
        if anchor:
            assert anchor in anchors(aim), f"{named(page)} links to {target}#{anchor}"


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_cited_rules_are_stated(page):
    assert set(RULE.findall(page.read_text())) <= stated()


def test_source_cites_rules_that_are_stated():
    for file in (ROOT / "src").rglob("*"):
        if file.suffix in (".py", ".sql"):
            assert set(RULE.findall(file.read_text())) <= stated(), named(file)
