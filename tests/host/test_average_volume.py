"""avg_pool3d in half precision, for which the CPU has no kernel: one rounding, the same eagerly and in graphs."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional


def pool(x: Tensor) -> Tensor:
    return functional.avg_pool3d(x, (2, 3, 2), (1, 2, 2), (0, 1, 0), count_include_pad=False)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_rounded_once(dtype: torch.dtype) -> None:
    x = torch.randn(2, 3, 4, 5, 6).to(dtype)
    expected = pool(x.float()).to(dtype)
    assert torch.equal(pool(x.npu()).cpu(), expected)
    out = torch.empty(0, dtype=dtype).npu()
    torch._C._nn.avg_pool3d(x.npu(), (2, 3, 2), (1, 2, 2), (0, 1, 0), False, False, out=out)
    assert torch.equal(out.cpu(), expected)
    assert torch.equal(torch.compile(pool, backend="npu", fullgraph=True)(x.npu()).cpu(), expected)


def test_gradients_of_half_precision_are_rounded_once() -> None:
    x = torch.randn(2, 3, 4, 5, 6).half()
    wide, half = x.float().requires_grad_(), x.npu().requires_grad_()
    weights = torch.randn(pool(wide).shape).half()
    pool(wide).backward(weights.float())
    pool(half).backward(weights.npu())
    assert half.grad is not None
    assert wide.grad is not None
    assert torch.equal(half.grad.cpu(), wide.grad.half())
