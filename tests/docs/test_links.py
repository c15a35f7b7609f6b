"""Every link between the documents leads somewhere."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
LINK = re.compile(r"\]\((?!https?:)([^)#\s]+)")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(document: Path) -> None:
    missing = [link for link in LINK.findall(document.read_text()) if not (document.parent / link).exists()]
    assert not missing


def test_tests_on_the_page_of_defects_exist() -> None:
    page = " ".join((ROOT / "docs" / "upstream-defects.md").read_text(encoding="utf-8").split())
    sources = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    named = [
        name for test in re.findall(r"- Test: (.*?)(?= - | ##|$)", page) for name in re.findall("`([^`…]+)`", test)
    ]
    assert [name for name in named if name not in sources and not (ROOT / name).exists()] == []
