"""A call in a graph executes code of few files of the package: what one has to read to follow it."""

from __future__ import annotations

import json
import os
import subprocess
import sys

# Without the passes, which do not change what a call means. Five files match the installed release and the index, five
# ask for the chip, fusions, dumps and storage formats, three run native code.
MAX_TO_COMPILE, MAX_TO_REPEAT = 33, 13
OFF = {**os.environ, "GRAPH_QUANT_PASSES": "off"}

WALK = """
import json, sys
import graph_quant, torch, torch_npu
from pathlib import Path

roots = [f"{Path(sys.modules[name].__path__[0])}/" for name in ("graph_quant", "graph_quant.meta")]
roots.append(f"{Path(roots[1]).parent / 'converters'}/")

def quantise(x, scale, ends):
    return torch_npu.npu_group_quant(x, scale, ends, dst_dtype=torch.quint4x2)

def files(call):
    names = set()
    def note(frame, event, _):
        if event == "call" and frame.f_code.co_name != "<module>":
            names.update(frame.f_code.co_filename for root in roots if frame.f_code.co_filename.startswith(root))
    sys.setprofile(note)
    call()
    sys.setprofile(None)
    return sorted(names)

inputs = torch.randn(6, 16).half().npu(), torch.rand(2, 16).npu(), torch.tensor([2, 6], dtype=torch.int32).npu()
torch.compile(quantise, backend="npu", fullgraph=True)(*inputs)  # imports what the walk needs
torch._dynamo.reset()
compiled = torch.compile(quantise, backend="npu", fullgraph=True)
print(json.dumps([files(lambda: compiled(*inputs)) for _ in range(2)]))
"""


def test_quantisation_in_a_graph_runs_few_files() -> None:
    done = subprocess.run([sys.executable, "-c", WALK], capture_output=True, text=True, env=OFF)
    assert done.returncode == 0, done.stderr
    first, again = json.loads(done.stdout.splitlines()[-1])
    assert any(name.endswith("converters/quant/group_quant.py") for name in first)
    assert len(first) <= MAX_TO_COMPILE, first
    assert len(again) <= MAX_TO_REPEAT, again
