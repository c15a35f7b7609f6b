"""A captured graph: torch.npu.graph, replays with other inputs, memory of its own, a second graph in the same pool."""

import torch
import torch_npu


def linear(x, weight, scale):
    rows, row_scale = torch_npu.npu_dynamic_quant(x)
    product = torch_npu.npu_quant_matmul(rows, weight, scale, pertoken_scale=row_scale, output_dtype=torch.float16)
    return product.relu() + 1


weight, scale = torch.randint(-128, 128, (32, 16), dtype=torch.int8).npu(), torch.rand(16).npu()
static = torch.randn(4, 32).half().npu()
linear(static, weight, scale)
first, second = torch.npu.NPUGraph(), torch.npu.NPUGraph()
with torch.npu.graph(first):
    result = linear(static, weight, scale)
with torch.npu.graph(second, pool=first.pool()):
    doubled = result * 2
for _ in range(3):
    x = torch.randn(4, 32).half().npu()
    static.copy_(x)
    first.replay()
    second.replay()
    assert torch.equal(result, linear(x, weight, scale))
    assert torch.equal(doubled, linear(x, weight, scale) * 2)
del result, doubled
first.reset()
second.reset()
torch.npu.empty_cache()
assert torch.equal((static + 1).cpu(), static.cpu() + 1)
