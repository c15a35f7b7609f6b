"""The graph mode example of the npu_quantize document."""

import torch
import torch_npu
import torchair as tng
from torchair.ge_concrete_graph import ge_apis as ge
from torchair.configs.compiler_config import CompilerConfig

x = torch.randn((2, 3, 12), dtype=torch.float16).npu()
scale = torch.tensor(([3] * 12), dtype=torch.float16).npu()
axis = 1
div_mode = False


class Network(torch.nn.Module):
    def __init__(self):
        super(Network, self).__init__()

    def forward(self, x, scale, zero_points, dst_type, div_mode):
        return torch_npu.npu_quantize(x, scale, zero_points=zero_points, dtype=dst_type, div_mode=div_mode)


model = Network()
config = CompilerConfig()
npu_backend = tng.get_npu_backend(compiler_config=config)
config.debug.graph_dump.type = 'pbtxt'
model = torch.compile(model, fullgraph=True, backend=npu_backend, dynamic=True)
output_data = model(x, scale, None, dst_type=torch.qint8, div_mode=div_mode)
print("shape of x:", x.shape)
print("shape of output_data:", output_data.shape)
print("x:", x)
print("output_data:", output_data)
