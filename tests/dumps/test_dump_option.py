"""Dumps that one option asks for: named after the function, with the caller's lines."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from graph_quant import dumps

SCRIPT = """
import functools, sys
import torch, torch_npu
from graph_quant import nn

def as_models_of_transformers_are(forward):
    @functools.wraps(forward)
    def wrapper(self, *args, **kwargs):
        return forward(self, *args, **kwargs)
    return wrapper

class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up = torch.nn.Linear(16, 16, dtype=torch.float16)

    @as_models_of_transformers_are
    def forward(self, x):
        return torch.relu(self.up(x)) + x  # the caller's line

model = Block().npu().eval()
nn.quantize_(model, nn.DynamicW8A8())
x = torch.randn(4, 16, dtype=torch.float16).npu()

def step(x):
    return model(x) * 2

with torch.no_grad():
    torch.compile(model, backend="npu")(x)
    torch.compile(step, backend="npu")(x)
    torch.compile(lambda x: step(x) + 1, backend="npu", options={"dump": sys.argv[1]})(x)
    torch.compile(lambda x: step(x) + 3, backend="npu")(x)

@torch.compile(backend="npugraph_ex", fullgraph=True)
def captured(x):
    return x + 1

captured(x)
"""
LINE = 1 + SCRIPT.splitlines().index("        return torch.relu(self.up(x)) + x  # the caller's line")


@pytest.fixture(scope="module")
def folders(tmp_path_factory) -> tuple[Path, Path, Path]:
    folder = tmp_path_factory.mktemp("dump")
    script = folder / "script.py"
    script.write_text(SCRIPT)
    command = ["run", "--dump", folder / "all", script, folder / "one"]
    done = subprocess.run([sys.executable, "-m", "graph_quant", *map(str, command)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    skipped = [line for line in done.stderr.splitlines() if "no dump of" in line]
    assert skipped == ["graph_quant: no dump of captured: it is captured or runs eagerly, and has no GE graph"]
    return folder / "all", folder / "one", script


def test_files_are_named_after_functions(folders) -> None:
    assert sorted(path.name for path in folders[0].iterdir()) == ["Block.txt", "lambda.txt", "step.txt"]
    assert [path.name for path in folders[1].iterdir()] == ["lambda.txt"]


def test_lines_are_the_callers(folders) -> None:
    dump = dumps.load(folders[0] / "Block.txt")
    lines = {node.type: (node.source.file, node.source.line, node.source.module) for node in dump.order}
    script = str(folders[2])
    assert lines["QuantBatchMatmulV3"] == lines["DynamicQuant"] == (script, LINE, "up")
    assert lines["Relu"] == (script, LINE, "")
    assert dump.nodes["Relu"].source.function == "forward"
    assert dumps.load(folders[0] / "step.txt").nodes["QuantBatchMatmulV3"].source.module == "up"


def test_lines_do_not_change_a_comparison(folders, tmp_path) -> None:
    text = (folders[0] / "Block.txt").read_text()
    (tmp_path / "other.txt").write_text(text.replace("script.py", "elsewhere.py"))
    assert not dumps.load(folders[0] / "Block.txt").diff(dumps.load(tmp_path / "other.txt"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--dump"], "--dump must be followed by a folder"),
        (["--dump", "out"], "--dump must be followed by a script, -m module or -c code"),
        (["--dump", "/dev/null/out", "a.py"], "--dump /dev/null/out: Not a directory"),
    ],
)
def test_wrong_options(arguments, message, capsys) -> None:
    from graph_quant.cli import main

    assert main(["run", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_option_must_be_a_folder() -> None:
    from graph_quant.start.dumping import take_option

    with pytest.raises(TypeError, match=r'options\["dump"\] must be a folder, got 3'):
        take_option(lambda *_: None)(options={"dump": 3})
