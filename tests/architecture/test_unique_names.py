"""One word, one thing: no two classes of the package share a name that others may ask for."""

from __future__ import annotations

import re
from collections import defaultdict
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).parents[2]
PARTS = ("graph_quant", "meta", "converters")


def test_class_names_are_unique() -> None:
    homes: dict[str, list[str]] = defaultdict(list)
    for path in (path for part in PARTS for path in (ROOT / part).rglob("*.py")):
        for name in re.findall(r"^class ([A-Z]\w*)", path.read_text(encoding="utf-8"), re.MULTILINE):
            homes[name].append(str(path.relative_to(ROOT)))
    assert len(homes) > 100
    assert {name: found for name, found in homes.items() if len(found) > 1} == {}


def test_benchmarks_import_existing_modules() -> None:
    """Also in the scripts that they give to other processes, which nothing else reads."""
    texts = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "benchmarks").glob("*.py")}
    asked = {(name, module) for name in texts for module in re.findall(r"from (graph_quant[\w.]*) import", texts[name])}
    assert len(asked) > 10
    assert [each for each in sorted(asked) if find_spec(each[1]) is None] == []
