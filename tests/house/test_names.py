"""One word, one thing: no two classes of the package share a name that others may ask for."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[2]
PARTS = ("graph_quant", "meta", "converters")


def test_no_two_classes_share_a_name() -> None:
    homes: dict[str, list[str]] = defaultdict(list)
    for path in (path for part in PARTS for path in (ROOT / part).rglob("*.py")):
        for name in re.findall(r"^class ([A-Z]\w*)", path.read_text(encoding="utf-8"), re.MULTILINE):
            homes[name].append(str(path.relative_to(ROOT)))
    assert len(homes) > 100
    assert {name: found for name, found in homes.items() if len(found) > 1} == {}
