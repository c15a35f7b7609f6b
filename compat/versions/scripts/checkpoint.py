"""A checkpoint: a quantised model is saved, loaded into another process's model, and gives the same bits in a graph."""

import tempfile
from pathlib import Path

import graph_quant  # noqa: F401  (before torch)
import torch
from graph_quant.nn import DynamicW8A8, quantize_
from safetensors.torch import load_file, save_file
from torch import nn


def build() -> nn.Module:
    model = nn.Sequential(nn.Linear(64, 128), nn.SiLU(), nn.Linear(128, 64)).half().npu().eval()
    quantize_(model, DynamicW8A8())
    return model


model, restored = build(), build()
path = Path(tempfile.mkdtemp()) / "model.safetensors"
save_file({name: value.cpu().contiguous() for name, value in model.state_dict().items()}, path)
restored.load_state_dict({name: value.npu() for name, value in load_file(path).items()})
x = torch.randn(4, 64).half().npu()
with torch.no_grad():
    expected = model(x)
    assert torch.equal(restored(x), expected)
    assert torch.equal(torch.compile(restored, backend="npu", fullgraph=True, dynamic=True)(x), expected)
