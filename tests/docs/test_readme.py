"""The README's example runs, and its commands exist."""

import re
from pathlib import Path

import pytest
from graph_quant import cli

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "examples").rglob("*.md")])


def test_the_example_prints_packed_int4(run_python) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    done = run_python(f"import graph_quant\n{code.replace('print(', 'result = (')}\nprint(result.shape, result.dtype)")
    assert done.stdout == "torch.Size([6, 1]) torch.int32\n", done.stderr


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_commands_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert set(re.findall(r"(?:^|`)make ([a-z-]+)", text, re.MULTILINE)) <= targets
    assert set(re.findall(r"(?:^|[`$ ])graph-quant ([a-z]+)", text, re.MULTILINE)) <= set(cli.COMMANDS)
