"""The page of what works is what the command prints; `GRAPH_QUANT_UPDATE_DOCS=1 pytest` writes it."""

import os
from pathlib import Path

from graph_quant.operator_support_page import page

PAGE = Path(__file__).parents[2] / "docs" / "operator-support.md"


def test_the_page_is_what_is_registered() -> None:
    text = "\n".join(page()) + "\n"
    if os.environ.get("GRAPH_QUANT_UPDATE_DOCS"):
        PAGE.write_text(text, encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == text
