"""The table of what vLLM serves is that of the last run of its suite; `GRAPH_QUANT_UPDATE_DOCS=1 pytest` writes it."""

import json
import os
from pathlib import Path

from compat.engine.page import SUITE, table

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "serving.md"
START, END = "<!-- the table of the suite -->\n", "<!-- end of the table -->"


def test_the_table_is_that_of_the_last_run() -> None:
    results = json.loads((ROOT / "compat" / "table.json").read_text(encoding="utf-8"))["suites"][SUITE]
    text = PAGE.read_text(encoding="utf-8")
    before, rest = text.split(START)
    _, after = rest.split(END)
    expected = f"{before}{START}\n{table(results)}\n\n{END}{after}"
    if os.environ.get("GRAPH_QUANT_UPDATE_DOCS"):
        PAGE.write_text(expected, encoding="utf-8")
        text = expected
    assert text == expected


def test_a_row_says_what_each_mode_gave() -> None:
    results = {
        "qwen3-bf16, embedding, eager": ["passed", "embeddings are off by 0.0011 of their length"],
        "qwen3-w8a8-dynamic, eager": ["passed", "32, 31, 32 of 32 tokens are those of transformers in float32"],
        "qwen3-w8a8-dynamic, FULL_DECODE_ONLY": ["refused by name", "Refusal: an operator: a rule"],
    }
    rows = table(results).splitlines()
    assert "| qwen3-bf16, embedding | eager: off by 0.0011 | FULL_DECODE_ONLY: not run |" in rows
    refused = "FULL_DECODE_ONLY: **refused by name** Refusal: an operator: a rule"
    assert f"| qwen3-w8a8-dynamic | eager: 32, 31, 32 of 32 | {refused} |" in rows
