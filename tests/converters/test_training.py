"""Compiled training: steps of optimizers, and regions that are checkpointed."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

BACKENDS = ("npu", "npugraph_ex")
pytestmark = pytest.mark.filterwarnings("ignore:Because acl graph fixes", "ignore:Cannot create tensor with internal")


def _parameters() -> list[torch.nn.Parameter]:
    torch.manual_seed(0)
    return [torch.nn.Parameter(torch.randn(4, 5).npu())]


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


def test_gradients_of_graphs_are_the_cpus() -> None:
    """In the CPU's order of sums, and rounded as often."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    image, half, volume, rows = (
        torch.randn(2, 2, 5, 6),
        torch.randn(2, 5, 6).half(),
        torch.randn(2, 3, 4, 5),
        torch.randn(4, 5),
    )
    slopes, direction, magnitude = torch.randn(2).half(), torch.randn(3, 5).half(), torch.rand(3, 1).half()
    inputs = (image, half, volume, rows, slopes, direction, magnitude)

    def forward(image: Tensor, half: Tensor, volume: Tensor, rows: Tensor, *weights: Tensor) -> tuple[Tensor, ...]:
        slopes, direction, magnitude = weights
        return (
            functional.pad(image, (3, 2, -1, 1), mode="replicate"),
            functional.pad(half, (3, 2, 4, 1), mode="replicate"),
            functional.pad(volume, (3, 2, 1, 0, 2, 1), mode="replicate"),
            functional.pad(volume, (3, 2, 1, 0, 2, 1), mode="reflect"),
            functional.adaptive_max_pool2d(image, (2, 3)),
            functional.adaptive_max_pool3d(volume, 2),
            functional.prelu(half.unsqueeze(0), slopes),
            torch._weight_norm(direction, magnitude, 0),
            torch._weight_norm(rows[0], rows[1], 0),  # of one dimension: nothing is summed
            torch.xlogy(rows.abs(), 2.0),
        )

    def run(function: Callable[..., tuple[Tensor, ...]], *tensors: Tensor) -> list[Tensor]:
        tensors = tuple(tensor.detach().requires_grad_() for tensor in tensors)
        results = function(*tensors)
        torch.manual_seed(1)
        sum((result * torch.rand(result.shape).to(result)).float().sum() for result in results).backward()
        return [tensor.detach().cpu() for tensor in (*results, *(tensor.grad for tensor in tensors))]

    compiled = torch.compile(forward, backend="npu", fullgraph=True)
    torch.testing.assert_close(run(compiled, *(x.npu() for x in inputs)), run(forward, *inputs), rtol=0, atol=0)


@pytest.mark.parametrize("layout", [torch.channels_last, torch.channels_last_3d])
def test_other_layouts_are_refused_by_name(layout: torch.memory_format) -> None:
    x = torch.randn(2, 3, 4, 5, *([6] if layout is torch.channels_last_3d else [])).npu()
    for function in (lambda x: (x * 2).contiguous(memory_format=layout), lambda x: x.to(memory_format=layout) + 1):
        torch._dynamo.reset()
        with pytest.raises(Exception, match=f"memory_format={layout} is not lowered"):
            torch.compile(function, backend="npu")(x)
