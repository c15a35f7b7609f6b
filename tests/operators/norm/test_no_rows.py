"""Sums without rows: aclnn returns at once; a graph's tiling refuses them where it has results to compute."""

import pytest
import torch
import torch_npu

CALLS = {
    "npu_add_rms_norm": [(0, 3, 16), (0, 3, 1), (0, 3, 16)],
    "npu_add_rms_norm_dynamic_quant": [(0, 3, 16), (), (0, 3, 16), (0, 3), ()],
}


@pytest.mark.parametrize("name", CALLS)
def test_no_rows_give_no_rows_eagerly(name: str) -> None:
    x, gamma = torch.empty(0, 3, 16).half().npu(), torch.ones(16).half().npu()
    assert [tuple(result.shape) for result in getattr(torch_npu, name)(x, x, gamma)] == CALLS[name]


def test_a_graph_that_quantises_no_rows_is_refused() -> None:
    torch._dynamo.reset()
    compiled = torch.compile(torch_npu.npu_add_rms_norm_dynamic_quant, backend="npu", fullgraph=True, dynamic=False)
    x, gamma = torch.empty(0, 3, 16).half().npu(), torch.ones(16).half().npu()
    with pytest.raises(Exception, match="AddRmsNormDynamicQuant: x1 must not be empty in a graph"):
        compiled(x, x, gamma)
