"""A GE graph with static shapes: the README's quantise function, equal to eager execution."""

import torch
import torch_npu


@torch.compile(backend="npu", fullgraph=True, dynamic=False)
def quantise(x, scale, group_ends):
    return torch_npu.npu_group_quant(x, scale, group_ends, dst_dtype=torch.quint4x2)


x, scale = torch.randn(6, 8, dtype=torch.float16).npu(), torch.rand(2, 8).npu() + 0.5
ends = torch.tensor([2, 6], dtype=torch.int32).npu()
result = quantise(x, scale, ends)
assert result.shape == (6, 1)
assert result.dtype == torch.int32
assert torch.equal(result, torch_npu.npu_group_quant(x, scale, ends, dst_dtype=torch.quint4x2))
