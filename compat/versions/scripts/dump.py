"""A dump: TorchAir writes the graph, ``graph-quant inspect``, ``lint`` and ``replay`` read it."""

import subprocess
import sys
import tempfile
from pathlib import Path

import torch
import torch_npu
import torchair

folder = Path(tempfile.mkdtemp())
config = torchair.CompilerConfig()
for options in (config.debug.graph_dump,):
    options.type = "pbtxt"
    if hasattr(options, "path"):  # older releases write into the current folder
        options.path = str(folder)


def quantise(x, scale):
    return torch_npu.npu_quantize(x + 1, scale, None, torch.qint8, -1, False)


def run(*arguments: str) -> str:
    command = [sys.executable, "-m", "graph_quant", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


backend = torchair.get_npu_backend(compiler_config=config)
compiled = torch.compile(quantise, backend=backend, fullgraph=True, dynamic=False)
compiled(torch.randn(4, 32).half().npu(), torch.rand(32).half().npu() + 0.5)
(dump,) = [*folder.glob("dynamo_optimized_graph_*"), *Path().glob("dynamo_optimized_graph_*")]
shown = run("inspect", str(dump))
assert "AscendQuantV2" in shown, shown
run("lint", str(dump))
assert "int8" in run("replay", str(dump))
