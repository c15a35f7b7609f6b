"""Graphs give the results of eager mode, where TorchAir's lowering reads fewer arguments or rounds numbers first."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torchair
from torch import Tensor
from torch.nn import functional

Call = Callable[..., Any]
SCALES = [1.7, 1.3, 0.7, (1.7, 2.0)]


def _compile(call: Call) -> Call:
    torch._dynamo.reset()
    return torch.compile(call, backend=torchair.get_npu_backend(), fullgraph=True, dynamic=False)


def _check(call: Call, *inputs: Tensor) -> None:
    """A graph has the bits and shapes of eager mode."""
    on_npu = [x.npu() for x in inputs]
    for actual, expected in zip(_compile(call)(*on_npu), call(*on_npu), strict=True):
        torch.testing.assert_close(actual, expected, rtol=0, atol=0, equal_nan=True)


def test_index_select_by_a_scalar_keeps_the_dimension() -> None:
    x, index = torch.randn(4, 5), torch.tensor(2)
    _check(
        lambda x, index: (x.index_select(0, index), x.index_select(-1, index), x[0, 0].index_select(0, index * 0)),
        x,
        index,
    )
    result = _compile(lambda x, index: x.index_select(0, index))(x.npu(), index.npu())
    assert torch.equal(result.cpu(), x[2:3])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
def test_nearest_pixels_follow_the_scale(dtype: torch.dtype) -> None:
    x = torch.randn(2, 3, 7, 9).to(dtype)

    def resize(x: Tensor) -> list[Tensor]:
        sizes = functional.interpolate(x, (11, 4)), functional.interpolate(x, scale_factor=2)
        return [*sizes, *(functional.interpolate(x, scale_factor=scale, mode="nearest") for scale in SCALES)]

    for actual, expected in zip(_compile(resize)(x.npu()), resize(x), strict=True):
        assert torch.equal(actual.cpu(), expected)


def test_gradients_of_nearest_pixels() -> None:
    x = torch.randn(2, 3, 7, 9)
    npu, cpu = x.npu().requires_grad_(), x.clone().requires_grad_()
    call: Call = lambda x: functional.interpolate(x, scale_factor=1.7).square()  # noqa: E731
    _compile(call)(npu).sum().backward()
    call(cpu).sum().backward()
    assert npu.grad is not None
    assert cpu.grad is not None
    assert torch.equal(npu.grad.cpu(), cpu.grad)


def _use_numbers(x: Tensor, y: Tensor, z: Tensor) -> list[Tensor]:
    a, b, c = [x, x[:3]], [y, y[:3]], [z, z[:3]]
    results = []
    for name in ("add", "sub", "mul", "div", "pow", "maximum", "minimum", "clamp_min", "clamp_max"):
        function = getattr(torch, f"_foreach_{name}")
        results += [*function(a, 0.9), *function(a, [0.3, 1.7])]
    for name in ("addcmul", "addcdiv"):
        function = getattr(torch, f"_foreach_{name}")
        results += [*function(a, b, c, 0.9), *function(a, b, c, [0.3, 1.7]), *function(a, b, c)]
    return [*results, *torch._foreach_lerp(a, b, 0.9), *torch._foreach_pow(0.9, a), *torch._foreach_pow(a, 3)]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
def test_lists_of_tensors_with_numbers(dtype: torch.dtype) -> None:
    inputs = [torch.rand(67).add(0.5).to(dtype) for _ in range(3)]
    _check(_use_numbers, *inputs)
    if dtype != torch.float32:  # the CPU raises the remainder of a float32 vector to a double-precision power
        for actual, expected in zip(_use_numbers(*(x.npu() for x in inputs)), _use_numbers(*inputs), strict=True):
            assert torch.equal(actual.cpu(), expected)


def _use_alpha(x: Tensor, y: Tensor) -> list[Tensor]:
    results = []
    for alpha in (0.9, -3):
        for operator in (torch.add, torch.sub, torch.rsub):
            results += [operator(x, other, alpha=alpha) for other in (y, y[0], 0.7)]
            results.append(operator(x[0], y, alpha=alpha))
        for operator in (Tensor.add_, Tensor.sub_):
            results += [operator(x.clone(), other, alpha=alpha) for other in (y, y[0], 0.7)]
        for name in ("add", "sub"):
            results += getattr(torch, f"_foreach_{name}")([x, x[:3]], [y, y[:3]], alpha=alpha)
            written = [x.clone(), x[:3].clone()]
            getattr(torch, f"_foreach_{name}_")(written, [y, y[:3]], alpha=alpha)
            results += written
    return results


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_alpha_is_rounded_to_the_dtype_and_the_sum_once(dtype: torch.dtype) -> None:
    """As the CPU's full vectors are; where a vector is not full, the CPU rounds the product too."""
    x, y = (torch.randn(67).to(dtype) for _ in range(2))
    _check(_use_alpha, x, y)
    whole = [tensor[: len(tensor) // 4 * 4] for tensor in _use_alpha(x.repeat(64), y.repeat(64))]
    for actual, expected in zip(_use_alpha(x.npu(), y.npu()), whole, strict=True):
        if len(actual) == 67:
            assert torch.equal(actual.cpu(), expected[:67])


def _use_products(x: Tensor, y: Tensor, z: Tensor) -> list[Tensor]:
    results = []
    for value in (0.9, -3, 0.3):
        results += [x.clone().addcmul_(y, z, value=value), x.clone().addcdiv_(y, z, value=value)]
        results += [torch.addcmul(x, y, z, value=value), torch.addcdiv(x, y, z, value=value)]
        results += [x.clone().addcdiv_(y, z), x.addcdiv(y, z, value=value)]
        written = [x.clone(), y.clone()]
        torch._foreach_lerp_(written, [y, z], value)
        results += written
    return results


@pytest.mark.parametrize("backend", ["npu", "npugraph_ex"])
def test_products_and_means_with_numbers(backend: str) -> None:
    """Dynamo writes them as several operators, each of which rounds: compiled steps of Adam drifted."""
    for dtype in (torch.float16, torch.bfloat16, torch.float32):
        inputs = [torch.rand(64).add(0.5).to(dtype) for _ in range(3)]
        on_npu = [tensor.npu() for tensor in inputs]
        torch._dynamo.reset()
        call = torch.compile(_use_products, backend=backend, fullgraph=True, dynamic=False)
        for actual, expected in zip(call(*on_npu), _use_products(*inputs), strict=True):
            assert torch.equal(actual.cpu(), expected)


_LISTS = {
    "float32": (torch.tensor([1.5, -2.25]), torch.tensor([0.3])),
    "int32": (torch.tensor([3, -7], dtype=torch.int32), torch.tensor([2], dtype=torch.int32)),
    "both": (torch.tensor([3, -7], dtype=torch.int32), torch.tensor([0.3])),
    "half": (torch.tensor([1.5, -2.25]).half(), torch.tensor([0.25])),
}


def _promote_lists(*lists: list[Tensor]) -> list[Tensor]:
    results: list[Tensor] = []
    for tensors in lists:
        for name in ("add", "sub", "mul", "div", "maximum", "minimum"):
            function = getattr(torch, f"_foreach_{name}")
            for others in (0.5, 3, [-3, 0.5], [2, 3], [tensors[1], tensors[0][:1]]):
                results += function(tensors, others)
        results += torch._foreach_mul(tensors, [True, 0.5])
        if any(tensor.is_floating_point() for tensor in tensors):
            pair = [tensors[1], tensors[0][:1]]
            for number in (0.5, [2, 0.5]):
                results += torch._foreach_addcmul(tensors, pair, tensors, number)
                results += torch._foreach_addcdiv(tensors, pair, tensors, number)
    return results


def test_lists_of_tensors_are_promoted_each_by_its_number() -> None:
    """TorchAir took one dtype for a list: 0.5 after -3 became 0, and integers stayed integers."""
    lists = [list(tensors) for tensors in _LISTS.values()]
    expected = _promote_lists(*lists)
    call = torch.compile(_promote_lists, backend="npu", fullgraph=True, dynamic=False)
    for actual, value in zip(call(*([x.npu() for x in tensors] for tensors in lists)), expected, strict=True):
        torch.testing.assert_close(actual.cpu(), value, rtol=1e-6, atol=0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
def test_kl_div(dtype: torch.dtype) -> None:
    x, target = torch.randn(35, 10).log_softmax(-1).to(dtype), torch.rand(35, 10).to(dtype)
    target[0] = 0
    _check(lambda x, y: [functional.kl_div(x, y, reduction="none", log_target=log) for log in (False, True)], x, target)
