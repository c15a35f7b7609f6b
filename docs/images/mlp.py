"""The script whose verification the picture shows."""

import torch
import torch_npu

torch.manual_seed(0)
x = torch.randn(16, 64).half().npu()
weight = torch.randint(-127, 128, (64, 64), dtype=torch.int8).npu()
scale = (torch.rand(64) / 1000).npu()


@torch.compile(backend="npu", fullgraph=True, dynamic=True)
def mlp(x, weight, scale):
    rows, row_scale = torch_npu.npu_dynamic_quant(x)
    product = torch_npu.npu_quant_matmul(rows, weight, scale, pertoken_scale=row_scale, output_dtype=torch.float16)
    return torch.nn.functional.silu(product)


mlp(x, weight, scale)
