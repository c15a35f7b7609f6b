"""Every example on a page prints the output below it, and every graph on a page is a golden one.

`GRAPH_QUANT_UPDATE_DOCS=1 pytest tests/docs/test_examples.py` writes the output and the graphs into the pages.
"""

import contextlib
import io
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import torch
from graph_quant import meta

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs" / "operators").glob("*/npu_*.md"))
LOWERED = [page for page in PAGES if "## GE nodes" in page.read_text()]
EXAMPLES = [*PAGES, *(ROOT / "docs" / name for name in ("quickstart.md", "quantising-a-model.md", "planning.md"))]
UPDATE = bool(os.environ.get("GRAPH_QUANT_UPDATE_DOCS"))
EXAMPLE = re.compile(r"(```python\n)(?P<code>.*?)(```\n\n```text\n)(?P<printed>.*?)(```\n)", re.DOTALL)
GRAPH = re.compile(r"(```text (?P<name>[\w-]+)\n)(?P<graph>.*?)(```\n)", re.DOTALL)


def printed(code: str) -> str:
    torch._dynamo.reset()
    module = sys.modules["example"] = ModuleType("example")  # Dynamo looks up the globals of the example here
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(code, "example", "exec"), vars(module))
    return out.getvalue()


def golden(name: str) -> str:
    return (ROOT / "tests" / "converters" / "golden" / f"{name}.txt").read_text()


def check(page: Path, blocks: re.Pattern[str], group: str, expected: Callable[[re.Match[str]], str]) -> None:
    text = page.read_text()
    matches = list(blocks.finditer(text))
    assert matches
    for block in reversed(matches):
        wanted = expected(block)
        if UPDATE:
            text = text[: block.start(group)] + wanted + text[block.end(group) :]
        else:
            assert block[group] == wanted
    if UPDATE:
        page.write_text(text)


@pytest.mark.parametrize("page", EXAMPLES, ids=lambda page: page.stem)
def test_example_prints_what_the_page_says(page: Path) -> None:
    check(page, EXAMPLE, "printed", lambda block: printed(block["code"]))


@pytest.mark.parametrize("page", LOWERED, ids=lambda page: page.stem)
def test_graph_is_the_golden_one(page: Path) -> None:
    check(page, GRAPH, "graph", lambda block: golden(block["name"]))


def test_every_operator_has_a_page() -> None:
    """A page's title names the operators it is of; those with an underscore before their name go with another."""
    ruled = {record.title for record in meta.RECORDS.values() if record.rules and record.reference}
    named = {name for page in PAGES for name in page.read_text().splitlines()[0].removeprefix("# ").split(", ")}
    assert named >= {title for title in ruled if not title.startswith("_")}
