"""No line that a person must read is longer than 300 characters: code, with its golden graphs, and titles aside."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LONGEST = 300
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")])


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_lines_are_short_enough(document: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", document.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    assert [line for line in text.splitlines() if len(line) > LONGEST and not line.startswith("# ")] == []
