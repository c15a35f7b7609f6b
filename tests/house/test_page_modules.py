"""The modules of the page's script fit together."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

from graph_quant.dumps.render.script import MODULES, script

FOLDER = Path(__file__).parents[2] / "graph_quant" / "dumps" / "render" / "page"
TEXTS = {path.stem: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.mjs")}


def _exports(text: str) -> set[str]:
    lines = re.findall(r"^export (?:const|let|function) (.*)$", text, re.MULTILINE)
    return {name for line in lines for name in [*re.findall(r"(?:^|, )(\w+) = ", line), *re.findall(r"^(\w+)", line)]}


def test_every_module_is_joined_once() -> None:
    assert sorted(MODULES) == sorted(TEXTS)
    joined = script()
    assert not re.search(r"^(import|export)\b", joined, re.MULTILINE)


def test_what_is_imported_is_exported_and_used() -> None:
    for name, text in TEXTS.items():
        body = re.sub(r"^import .*$", "", text, flags=re.MULTILINE)
        for names, source in re.findall(r'^import \{ (.*) \} from "\./(\w+)\.mjs";$', text, re.MULTILINE):
            assert set(names.split(", ")) <= _exports(TEXTS[source]), f"{name} imports what {source} does not export"
            unused = [each for each in names.split(", ") if not re.search(rf"\b{each}\b", body)]
            assert unused == [], f"{name} imports what it does not use"


def test_node_reads_them(tmp_path) -> None:
    node = shutil.which("node")
    if node is None:
        return  # the browser's tests run the script
    (tmp_path / "joined.js").write_text(script(), encoding="utf-8")
    for path in [*FOLDER.glob("*.mjs"), tmp_path / "joined.js"]:
        done = subprocess.run([node, "--check", path], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
