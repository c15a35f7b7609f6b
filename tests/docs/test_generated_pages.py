"""Generated pages are what their generator writes now, and name everything that they are of."""

import re
import runpy
from pathlib import Path

import pytest
from graph_quant.settings import VARIABLES

ROOT = Path(__file__).parents[2]
GENERATOR = runpy.run_path(str(ROOT / "docs" / "pages.py"))
PACKAGE = [path for name in ("graph_quant", "meta", "converters") for path in (ROOT / name).rglob("*.[pch]*")]
TESTS = [path for name in ("tests", "docs", "examples", "benchmarks") for path in (ROOT / name).rglob("*.py")]
# C's include guards have the same form.
VARIABLE = re.compile(r"\bGRAPH_QUANT_(?!\w+_H\b)[A-Z_]+[A-Z]\b")


@pytest.mark.parametrize("name", GENERATOR["PAGES"])
def test_page_is_fresh(name: str) -> None:
    lines = "\n".join(GENERATOR["PAGES"][name]()) + "\n"
    assert (ROOT / "docs" / name).read_text(encoding="utf-8") == lines, "write it with `make docs-pages`"


def variables(paths: list[Path]) -> set[str]:
    sources = [path for path in paths if path.suffix in (".py", ".c", ".h")]
    return {name for path in sources for name in VARIABLE.findall(path.read_text(encoding="utf-8"))}


def test_every_variable_that_the_package_reads_is_in_the_table() -> None:
    assert variables(PACKAGE) == {variable.name for variable in VARIABLES}


def test_every_variable_of_the_tests_is_on_the_page() -> None:
    known = {variable.name for variable in VARIABLES} | set(GENERATOR["TEST_VARIABLES"])
    assert variables([*TESTS, ROOT / "tests" / "conftest.py"]) <= known
