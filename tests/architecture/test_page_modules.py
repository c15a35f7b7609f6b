"""The JavaScript modules of the dump page are complete and valid."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

from graph_quant.dumps.render.page_script import MODULES, join_script

FOLDER = Path(__file__).parents[2] / "graph_quant" / "dumps" / "render" / "page"
TEXTS = {path.stem: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.mjs")}


def test_every_module_is_joined_once() -> None:
    assert sorted(MODULES) == sorted(TEXTS)
    joined = join_script()
    assert not re.search(r"^(import|export)\b", joined, re.MULTILINE)


def test_linter_has_no_findings() -> None:
    oxlint = Path(sys.executable).parent / "oxlint"
    command = [oxlint, "--quiet", "--config", FOLDER / ".oxlintrc.json", FOLDER]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_node_parses_modules(tmp_path) -> None:
    node = shutil.which("node")
    if node is None:
        return  # the browser's tests run the script
    (tmp_path / "joined.js").write_text(join_script(), encoding="utf-8")
    for path in [*FOLDER.glob("*.mjs"), tmp_path / "joined.js"]:
        done = subprocess.run([node, "--check", path], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
