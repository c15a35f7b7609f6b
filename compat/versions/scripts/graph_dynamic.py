"""A GE graph with dynamic shapes: a quantised linear of several sizes, by one trace."""

import torch
import torch_npu
from torch._dynamo.utils import counters


def linear(x, weight, scale):
    rows, row_scale = torch_npu.npu_dynamic_quant(x)
    product = torch_npu.npu_quant_matmul(rows, weight, scale, pertoken_scale=row_scale, output_dtype=torch.float16)
    return torch.nn.functional.silu(product).reshape(-1, 2)


weight, scale = torch.randint(-128, 128, (32, 16), dtype=torch.int8).npu(), torch.rand(16).npu()
compiled = torch.compile(linear, backend="npu", fullgraph=True, dynamic=True)
calls = [torch.randn(tokens, 32).half().npu() for tokens in (4, 7, 30)]
results = [compiled(x, weight, scale) for x in calls]
assert counters["stats"]["unique_graphs"] == 1, counters["stats"]
for x, result in zip(calls, results, strict=True):
    assert torch.equal(result, linear(x, weight, scale))
