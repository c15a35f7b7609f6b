"""npugraph_ex: a compiled function is captured and replayed, also with a mutated cache."""

import sys

import torch
import torch_npu

try:
    import torch_npu.dynamo.npugraph_ex
except ImportError:
    print("absent: torch_npu.dynamo.npugraph_ex")
    sys.exit()


def step(x, weight, scale, cache):
    rows, row_scale = torch_npu.npu_dynamic_quant(x)
    product = torch_npu.npu_quant_matmul(rows, weight, scale, pertoken_scale=row_scale, output_dtype=torch.float16)
    cache.add_(product)
    return cache * 2


weight, scale = torch.randint(-128, 128, (32, 16), dtype=torch.int8).npu(), torch.rand(16).npu()
compiled = torch.compile(step, backend="npugraph_ex", fullgraph=True, dynamic=False)
eager_cache, cache = torch.zeros(4, 16).half().npu(), torch.zeros(4, 16).half().npu()
for _ in range(4):
    x = torch.randn(4, 32).half().npu()
    assert torch.equal(compiled(x, weight, scale, cache), step(x, weight, scale, eager_cache))
    assert torch.equal(cache, eager_cache)
