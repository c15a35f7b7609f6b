"""No line that a person must read is longer than 300 characters."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LONGEST = 300
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")])
DOCUMENTS = [path for path in DOCUMENTS if path.parents[1].name != "operators"]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_lines_are_short_enough(document: Path) -> None:
    lines = document.read_text(encoding="utf-8").splitlines()
    assert [number for number, line in enumerate(lines, 1) if len(line) > LONGEST] == []
