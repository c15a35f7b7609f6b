"""An operator of another package (examples/custom_operator): eagerly, in a GE graph and captured."""

import custom_operator
import graph_quant
import torch

x, scale = torch.randn(3, 8), torch.rand(3) + 0.1
expected = (x / scale[:, None]).round().clamp(-127, 127).to(torch.int8)
args = (x.npu(), scale.npu())
assert torch.equal(custom_operator.row_quant(*args).cpu(), expected)
graph_quant.verify(custom_operator.row_quant, *args, fullgraph=True, progress=False).check()
graph = torch.npu.NPUGraph()
with torch.npu.graph(graph):
    result = custom_operator.row_quant(*args)
graph.replay()
assert torch.equal(result.cpu(), expected)
