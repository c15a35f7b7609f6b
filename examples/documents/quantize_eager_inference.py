"""The eager example of the npu_quantize document for Atlas inference products; what it shows is printed."""

import torch
import torch_npu

x = torch.randn((2, 3, 12), dtype=torch.float).npu()
scale = torch.tensor(([3] * 12),dtype=torch.float).npu()
out = torch_npu.npu_quantize(x, scale, None, torch.qint8, -1, False)
print(x)
print(out)
