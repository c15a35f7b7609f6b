"""Makes the pictures of the documentation, and the texts that they show (`make docs-images`).

tests/docs/test_images.py compares the stored texts with the output of the current version: where it fails, make the
pictures again, and look at them.
"""

from __future__ import annotations

import html
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import graph_quant  # noqa: F401  (before torch)

IMAGES = Path(__file__).parent
TESTS = IMAGES.parents[1] / "tests"
UPSTREAM = TESTS / "dumps" / "data" / "upstream_group_quant_int4.pbtxt"
COMMANDS = ("verify mlp.py", "lint upstream.pbtxt")
_STYLE = """
body { margin: 0; background: #fff; }
main { display: inline-block; margin: 12px; border-radius: 8px; background: #16181d; color: #d7dae0;
       padding: 0 18px 14px; font: 15px/1.35 "DejaVu Sans Mono", monospace; }
header { padding: 10px 0 8px; }
header i { display: inline-block; width: 12px; height: 12px; border-radius: 6px; margin-right: 7px; }
pre { margin: 0; font: inherit; }
b { color: #8fd38f; }
em { color: #ff8f8f; font-style: normal; }
u { color: #f2c56b; text-decoration: none; }
"""


def terminal_text() -> str:
    """The commands of the picture and what they print, each in a process of its own, as a user runs them."""
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(IMAGES / "mlp.py", folder)
        shutil.copy(UPSTREAM, Path(folder) / "upstream.pbtxt")
        for command in COMMANDS:
            run = subprocess.run(
                [sys.executable, "-m", "graph_quant", *command.split()],
                cwd=folder,
                env={**os.environ, "COLUMNS": "96"},
                stdout=subprocess.PIPE,
                text=True,
                check=False,  # lint ends with 1: it has found something
            )
            lines += [f"$ graph-quant {command}", *(line.rstrip() for line in run.stdout.splitlines()), ""]
    return "\n".join(lines)


def terminal_page(text: str) -> str:
    """A page that looks like a terminal."""
    dots = "".join(f'<i style="background:{colour}"></i>' for colour in ("#ff5f57", "#febc2e", "#28c840"))
    body = "\n".join(map(_coloured, text.rstrip().splitlines()))
    head = f"<!doctype html><meta charset=utf-8><style>{_STYLE}</style>"
    return f"{head}<main><header>{dots}</header><pre>{body}</pre></main>"


def _coloured(line: str) -> str:
    escaped = html.escape(line)
    for start, tag in (("$ ", "b"), ("✓", "b"), ("equal", "b"), ("✗", "em"), ("error", "em"), ("warning", "u")):
        if line.startswith(start):
            return f"<{tag}>{escaped}</{tag}>"
    return escaped


def write_graph_page(folder: Path) -> str:
    """Write the page of a model of 28 layers; return its address, at one of its nodes."""
    sys.path.append(str(TESTS))
    from graph_quant import cli

    from support.layered_dump import layered

    (folder / "model.py").write_text(layered(28), encoding="utf-8")
    page = folder / "model.html"
    cli.main(["inspect", str(folder / "model.py"), "--format", "html", "-o", str(page)])
    return f"{page.as_uri()}#node=linear1"


def graph_page_text(browser: Any, folder: Path) -> str:
    """What the page shows, with the card of one node."""
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.ui import WebDriverWait

    browser.get(write_graph_page(folder))
    WebDriverWait(browser, 60).until(lambda _: "QuantBatchMatmulV3" in browser.find_element(By.TAG_NAME, "body").text)
    return "\n".join(line.rstrip() for line in browser.find_element(By.TAG_NAME, "body").text.splitlines()) + "\n"


def main() -> None:
    """Write the texts and the pictures."""
    sys.path.append(str(TESTS))
    from selenium.webdriver.common.by import By

    from support.browser import chromium

    browser = chromium()
    if browser is None:
        raise SystemExit("docs/images/make.py: Chromium and chromedriver are needed (apt-get install chromium-driver)")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        text = terminal_text()
        (IMAGES / "terminal.txt").write_text(text, encoding="utf-8")
        (folder / "terminal.html").write_text(terminal_page(text), encoding="utf-8")
        browser.get((folder / "terminal.html").as_uri())
        browser.find_element(By.TAG_NAME, "main").screenshot(str(IMAGES / "terminal.png"))
        (IMAGES / "page.txt").write_text(graph_page_text(browser, folder), encoding="utf-8")
        browser.save_screenshot(str(IMAGES / "page.png"))
    browser.quit()


if __name__ == "__main__":
    main()
