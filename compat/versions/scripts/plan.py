"""``plan``: a dry run of a quantised model lowers it as one graph."""

import graph_quant  # before torch
import torch
from graph_quant.nn import DynamicW8A8, quantize_
from torch import nn

model = nn.Sequential(nn.Linear(64, 128), nn.SiLU(), nn.Linear(128, 64)).half().npu().eval()
assert quantize_(model, DynamicW8A8()) == ["0", "2"]
result = graph_quant.plan(model, torch.randn(4, 64).half().npu())
assert result.ok, str(result)
assert "QuantBatchMatmulV3" in str(result), str(result)
