"""The eager example of the npu_group_quant document; what it shows at the prompt is printed."""

import torch
import torch_npu

x = torch.randn(6, 4).to(torch.float16).npu()
print(x)

scale = torch.randn(4, 4).to(torch.float32).npu()
print(scale)

group_index = torch.tensor([1, 4, 6, 6], dtype=torch.int32).npu()
print(group_index)

offset = torch.randn(1).to(torch.float32).npu()
print(offset)

y = torch_npu.npu_group_quant(x, scale, group_index, offset=offset, dst_dtype=torch.qint8)
print(y)
