"""The operators, where the extension is not built: eagerly, without data, captured, compiled, and refused."""

import graph_quant  # noqa: F401  (before torch)
import my_ops
import numpy as np
import pytest
import torch

TOTAL, X = torch.randn(3, 8).bfloat16(), torch.randn(3, 8).bfloat16()


def expected(total, x, scale):
    """State the rule once more: float32, a rounding after each step."""
    product = torch.from_numpy(x.float().numpy() * np.float32(scale)).bfloat16()
    total = torch.from_numpy(total.float().numpy() + product.float().numpy()).bfloat16()
    return total, total.abs().amax(-1).float()


def test_eager():
    total, x = TOTAL.npu(), X.npu()
    largest = my_ops.add_scaled_(total, x, 0.3)
    for one, other in zip((total, largest), expected(TOTAL, X, 0.3), strict=True):
        assert torch.equal(one.cpu(), other)


def test_capture():
    total, x, graph = TOTAL.npu(), X.npu(), torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        largest = my_ops.add_scaled_(total, x, 0.3)
    graph.replay()
    assert torch.equal(largest.cpu(), expected(TOTAL, X, 0.3)[1])


def test_npugraph_ex():
    compiled = torch.compile(lambda total, x: my_ops.add_scaled_(total, x, 0.3) * 2, backend="npugraph_ex")
    total = TOTAL.npu()
    assert torch.equal(compiled(total, X.npu()).cpu(), expected(TOTAL, X, 0.3)[1] * 2)
    assert torch.equal(total.cpu(), expected(TOTAL, X, 0.3)[0])


@pytest.mark.parametrize("device", ["npu", "meta"])
def test_wrong_calls_are_refused(device):
    with pytest.raises(RuntimeError, match=r"add_scaled_: x must be torch\.bfloat16, the dtype of total, got torch"):
        my_ops.add_scaled_(TOTAL.to(device), X.float().to(device))


def test_an_operator_without_a_record_is_refused_by_name():
    with pytest.raises(NotImplementedError, match=r"my_ops::sort_tiles cannot run on the host NPU.*my_ops\._C"):
        torch.ops.my_ops.sort_tiles(X.npu(), 4)


def test_the_module_has_its_functions():
    assert my_ops.version() == "0.1 (host)"
