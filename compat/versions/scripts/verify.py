"""``verify``: a graph against eager execution, node by node."""

import graph_quant  # before torch
import torch
import torch_npu


def quantise(x, weight, scale):
    rows, row_scale = torch_npu.npu_dynamic_quant(x * 2)
    return torch_npu.npu_quant_matmul(rows, weight, scale, pertoken_scale=row_scale, output_dtype=torch.bfloat16)


inputs = (
    torch.randn(4, 32).half().npu(),
    torch.randint(-128, 128, (32, 16), dtype=torch.int8).npu(),
    torch.rand(16).npu(),
)
report = graph_quant.verify(quantise, *inputs, progress=False)
report.check()
assert report.verdict().startswith("equal: "), report.verdict()
statuses = {node.status.value for graph in report.graphs for node in graph.nodes}
assert statuses == {"equal"}, statuses
