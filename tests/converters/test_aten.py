"""The ATen operators that TorchAir cannot lower give the results of eager mode."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torchair

CASES: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...]]] = {
    "index_copy, cache": (
        lambda cache, at, new: cache.index_copy(2, at, new),
        (torch.zeros(1, 2, 8, 4).half(), torch.tensor([5, 0, 3]), torch.randn(1, 2, 3, 4).half()),
    ),
    "index_copy, last": (
        lambda x, at, new: torch.index_copy(x, -1, at, new),
        (torch.randn(3, 5), torch.tensor([4, 1]), torch.randn(3, 2)),
    ),
    "index_copy, first": (
        lambda x, at, new: torch.index_copy(x, 0, at, new),
        (torch.arange(6), torch.tensor([2, 4]), torch.tensor([-1, -2])),
    ),
    "index_copy_, in place": (
        lambda x, at, new: x.clone().index_copy_(1, at, new),
        (torch.randn(2, 4, 3), torch.tensor([3, 0]), torch.randn(2, 2, 3)),
    ),
    "sort, ties": (lambda x: torch.sort(x, stable=True), (torch.tensor([3, 1, 3, 0, 1, 1, 0]),)),
    "sort, descending": (
        lambda x: torch.sort(x, dim=-1, descending=True, stable=True),
        (torch.randint(3, (4, 50)).float(),),
    ),
    "sort, other axis": (lambda x: torch.sort(x, dim=0, stable=True), (torch.randint(3, (9, 2, 5)),)),
    "histc, floats": (lambda x: torch.histc(x, bins=4, min=-1, max=1), (torch.linspace(-2, 2, 41),)),
    "histc, the range of the values": (lambda x: torch.histc(x, 5), (torch.tensor([0.0, 1.0, 2.5, 4.0, 4.0]),)),
    "grouped_mm, an empty group": (
        lambda x, w, ends: torch._grouped_mm(x, w.mT, ends),
        (torch.randn(6, 8).bfloat16(), torch.randn(3, 16, 8).bfloat16(), torch.tensor([2, 2, 6], dtype=torch.int32)),
    ),
    "index_put, an inverse permutation": (
        lambda order: torch.empty_like(order).index_put((order,), torch.arange(order.size(0), device=order.device)),
        (torch.tensor([2, 0, 3, 1]),),
    ),
    "argsort": (lambda x: torch.argsort(x, dim=-2, stable=True), (torch.randint(2, (3, 20, 4)).half(),)),
}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_same_as_eager(name: str, dynamic: bool) -> None:
    function, inputs = CASES[name]
    torch._dynamo.reset()
    compiled = torch.compile(function, backend=torchair.get_npu_backend(), fullgraph=True, dynamic=dynamic)
    expected = torch.utils._pytree.tree_leaves(function(*inputs))
    results = torch.utils._pytree.tree_leaves(compiled(*(tensor.npu() for tensor in inputs)))
    for one, other in zip(expected, results, strict=True):
        assert one.dtype == other.dtype
        assert torch.equal(one, other.cpu())


def test_gradients_of_sync_batch_norm() -> None:
    """Against autograd through the same normalisation in double precision: PyTorch has them on CUDA only."""
    torch.manual_seed(0)
    x, grad, weight = torch.randn(2, 3, 4, 5), torch.randn(2, 3, 4, 5), torch.rand(3) + 0.5
    variance, mean = torch.var_mean(x, (0, 2, 3), correction=0)
    rstd = torch.rsqrt(variance + 1e-5)
    count = torch.tensor([[16], [24]], dtype=torch.int32)

    def gradients(g: torch.Tensor, x: torch.Tensor, m: torch.Tensor, r: torch.Tensor, w: torch.Tensor, n: Any) -> Any:
        sums = torch.ops.aten.batch_norm_backward_reduce(g, x, m, r, w, True, True, True)
        return torch.ops.aten.batch_norm_backward_elemt(g, x, m, r, w, *sums[:2], n), *sums[2:]

    torch._dynamo.reset()
    compiled = torch.compile(gradients, backend=torchair.get_npu_backend(), fullgraph=True)
    results = compiled(*(tensor.npu() for tensor in (grad, x, mean, rstd, weight, count)))
    wide = [tensor.double().requires_grad_() for tensor in (x, weight, torch.zeros(3))]
    torch.nn.functional.batch_norm(wide[0], None, None, *wide[1:], training=True).backward(grad.double())
    for one, result in zip(wide, results, strict=True):
        assert one.grad is not None
        # Sums of 40 products in float32.
        torch.testing.assert_close(result.cpu(), one.grad.float(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64, torch.uint8])
def test_histc_of_integers(dtype: torch.dtype) -> None:
    """The CPU supports floats alone; the NPU also counts integers, and ignores those outside the range."""
    torch._dynamo.reset()
    experts = torch.tensor([3, 0, 3, 1, 7, 3, 2, 0], dtype=dtype).npu()

    def count(experts: torch.Tensor) -> torch.Tensor:
        return torch.histc(experts, bins=4, min=0, max=3)

    compiled = torch.compile(count, backend=torchair.get_npu_backend(), fullgraph=True, dynamic=True)
    for counted in (count(experts), compiled(experts)):
        assert counted.dtype == dtype
        assert counted.tolist() == [2, 1, 1, 3]
