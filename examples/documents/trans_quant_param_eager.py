"""The eager example of the npu_trans_quant_param document; what it shows at the prompt is printed."""

import torch
import torch_npu

scale = torch.randn(16, dtype=torch.float32)
offset = torch.randn(16, dtype=torch.float32)
npu_out = torch_npu.npu_trans_quant_param(scale.npu(), offset.npu())

print(npu_out)
print(npu_out.dtype)
print(npu_out.shape)
