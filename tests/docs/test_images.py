"""The pictures show what the current version prints: their texts are compared, not their pixels."""

import runpy
from pathlib import Path
from typing import Any

import pytest

from support.browser import chromium

IMAGES = Path(__file__).parents[2] / "docs" / "images"
REMEDY = "the output has changed: run `make docs-images`, and look at the pictures"


@pytest.fixture(scope="module")
def make() -> dict[str, Any]:
    return runpy.run_path(str(IMAGES / "make.py"))


def test_terminal_shows_the_current_output(make: dict[str, Any]) -> None:
    assert make["terminal_text"]() == (IMAGES / "terminal.txt").read_text(encoding="utf-8"), REMEDY


def test_page_shows_the_current_output(make: dict[str, Any], tmp_path: Path) -> None:
    browser = chromium()
    if browser is None:
        pytest.skip("this machine has no Chromium with its driver")
    try:
        assert make["graph_page_text"](browser, tmp_path) == (IMAGES / "page.txt").read_text(encoding="utf-8"), REMEDY
    finally:
        browser.quit()
