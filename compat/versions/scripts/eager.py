"""Eager: operators of torch and torch_npu on the device, and the CPU's results."""

import torch
import torch_npu

x, weight = torch.randn(4, 32), torch.randint(-128, 128, (32, 16), dtype=torch.int8)
assert torch.equal((x.npu() * 2 + 1).relu().cpu(), (x * 2 + 1).relu())
assert torch.equal(torch.softmax(x.npu(), -1).sum(0).argsort().cpu(), torch.softmax(x, -1).sum(0).argsort())

rows, scale = torch_npu.npu_dynamic_quant(x.half().npu())
expected = x.half().float().abs().amax(-1) * torch.tensor(1 / 127)  # one multiplication in float32, no division
assert torch.equal(scale.cpu(), expected), (scale.cpu(), expected)
assert int(rows.cpu().int().abs().max()) == 127

weight_scale = torch.rand(16)
result = torch_npu.npu_quant_matmul(
    rows, weight.npu(), weight_scale.npu(), pertoken_scale=scale, output_dtype=torch.bfloat16
)
exact = rows.cpu().int() @ weight.int()
assert torch.equal(result.cpu(), (exact.float() * weight_scale * expected[:, None]).bfloat16())
