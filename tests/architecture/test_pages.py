"""Pages escape all values."""

from __future__ import annotations

from pathlib import Path

import jinja2
import pytest
from graph_quant import pages
from graph_quant.verification import Report, Thresholds
from graph_quant.verification.report.to_html import to_html

ROOT = Path(__file__).parents[2]


def test_values_are_escaped() -> None:
    page = to_html(Report('<script>alert("x")</script>', "a <device>", Thresholds(None, None)))
    assert "<script" not in page
    assert "&lt;script&gt;alert(" in page
    assert "a &lt;device&gt;" in page


def test_missing_value_is_an_error() -> None:
    with pytest.raises(jinja2.UndefinedError):
        pages.render("graph_quant.dumps.render", "page.html", style="")


def test_no_template_disables_escaping() -> None:
    templates = list((ROOT / "graph_quant").rglob("*.html"))
    assert len(templates) == 3
    for template in templates:
        assert not {"safe", "autoescape"} & set(template.read_text(encoding="utf-8").replace("|", " ").split())
