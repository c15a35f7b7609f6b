"""The eager example of the npu_quantize document for Atlas A2; what it shows at the prompt is printed."""

import torch
import torch_npu

x = torch.randn(1, 1, 12).bfloat16().npu()
scale = torch.tensor([0.1] * 12).bfloat16().npu()
out = torch_npu.npu_quantize(x, scale, None, torch.qint8, -1, False)
print(x)
print(out)
