"""The gradient of npu_confusion_transpose is that of PyTorch's views, and the results are copies."""

from collections.abc import Callable

import pytest
import torch
import torch_npu
from torch import Tensor

CASES: dict[str, tuple[tuple[tuple[int, ...], tuple[int, ...], bool], Callable[[Tensor], Tensor]]] = {
    "first, to fewer": (((2, 0, 1), (4, 6), True), lambda x: x.permute(2, 0, 1).reshape(4, 6)),
    "first, to more": (((1, 0, 2), (3, 2, 2, 2), True), lambda x: x.permute(1, 0, 2).reshape(3, 2, 2, 2)),
    "then, of fewer": (((1, 0), (6, 4), False), lambda x: x.reshape(6, 4).t()),
    "then, of more": (((2, 0, 3, 1), (2, 3, 2, 2), False), lambda x: x.reshape(2, 3, 2, 2).permute(2, 0, 3, 1)),
}


@pytest.mark.parametrize(("arguments", "same"), CASES.values(), ids=CASES)
def test_gradient_equals_that_of_views(arguments, same) -> None:
    x = torch.randn(2, 3, 4)
    on_cpu, on_npu = x.clone().requires_grad_(), x.npu().requires_grad_()
    expected, result = same(on_cpu), torch_npu.npu_confusion_transpose(on_npu, *arguments)
    weight = torch.randn(expected.shape)
    (expected * weight).sum().backward()
    (result * weight.npu()).sum().backward()
    assert torch.equal(result.detach().cpu(), expected.detach())
    assert torch.equal(on_npu.grad.cpu(), on_cpu.grad)


def test_results_are_copies() -> None:
    x = torch.zeros(2, 3, device="npu")
    torch_npu.npu_transpose(x, [0, 1]).fill_(1)
    torch_npu.npu_confusion_transpose(x, [0, 1], [2, 3], True).fill_(1)
    assert not x.any()
