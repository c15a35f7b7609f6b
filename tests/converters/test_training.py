"""Compiled training: steps of optimizers, and regions that are checkpointed."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

BACKENDS = ("npu", "npugraph_ex")
pytestmark = pytest.mark.filterwarnings("ignore:Because acl graph fixes", "ignore:Cannot create tensor with internal")


def _parameters() -> list[torch.nn.Parameter]:
    torch.manual_seed(0)
    return [torch.nn.Parameter(torch.randn(4, 5).npu()) for _ in range(2)]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_step_counts_on_the_device(backend: str) -> None:
    """Adam counts its steps; a count on the CPU cannot be traced, and a captured graph would repeat it."""
    torch._dynamo.reset()
    parameters, expected = _parameters(), _parameters()
    optimizer, reference = torch.optim.Adam(parameters), torch.optim.Adam(expected)
    step = torch.compile(optimizer.step, backend=backend)
    for seed in range(3):
        torch.manual_seed(seed)
        for parameter, other in zip(parameters, expected, strict=True):
            parameter.grad = torch.randn(4, 5).npu()
            other.grad = parameter.grad.clone()
        step()
        reference.step()
    assert all(state["step"].is_npu and state["step"].item() == 3 for state in optimizer.state.values())
    torch.testing.assert_close(parameters, expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_backward_graph_has_the_samples_of_the_forward_graph(backend: str) -> None:
    torch._dynamo.reset()
    torch.manual_seed(0)
    layer = torch.nn.Linear(8, 8).npu()
    x = torch.randn(4, 8).npu()

    def block(x: Tensor) -> Tensor:
        return functional.dropout(layer(x).relu(), 0.5)

    def loss(x: Tensor) -> Tensor:
        return checkpoint(block, x, use_reentrant=False).square().sum()

    results = []
    for function in (loss, torch.compile(loss, backend=backend, fullgraph=True)):
        torch.npu.manual_seed(3)
        layer.weight.grad = None
        result = function(x)
        result.backward()
        results.append((result.detach().clone(), layer.weight.grad, torch.npu.get_rng_state()))
    torch.testing.assert_close(*(result[:2] for result in results), rtol=0, atol=0)
    assert torch.equal(results[0][2], results[1][2])  # as many samples as in eager mode
