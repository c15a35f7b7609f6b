"""No two public classes of the package share a name."""

from __future__ import annotations

import re
from collections import defaultdict
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).parents[2]
PARTS = ("graph_quant", "meta", "converters")


def test_class_names_are_unique() -> None:
    locations: dict[str, list[str]] = defaultdict(list)
    for path in (path for part in PARTS for path in (ROOT / part).rglob("*.py")):
        for name in re.findall(r"^class ([A-Z]\w*)", path.read_text(encoding="utf-8"), re.MULTILINE):
            locations[name].append(str(path.relative_to(ROOT)))
    assert len(locations) > 100
    assert {name: paths for name, paths in locations.items() if len(paths) > 1} == {}


def test_benchmarks_import_existing_modules() -> None:
    """Imports in the code that benchmarks pass to other processes count too."""
    texts = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "benchmarks").glob("*.py")}
    imported = {
        (name, module) for name in texts for module in re.findall(r"from (graph_quant[\w.]*) import", texts[name])
    }
    assert len(imported) > 10
    assert [pair for pair in sorted(imported) if find_spec(pair[1]) is None] == []
