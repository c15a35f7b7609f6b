"""A quantisation and the products that read it: one step of Inductor's code, and the bits of each by itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch_npu
from graph_quant import native
from graph_quant.host.engine import use
from torch._inductor.utils import run_and_get_code

Compile = Callable[..., Any]
Tensors = tuple[torch.Tensor, ...]
pytestmark = pytest.mark.skipif(
    not native.SERVES, reason="the processor has no dot products of int8, or nothing is built"
)
STEP = "= extern_kernels.graph_quant_quantised_products("


def _product(
    x: torch.Tensor, weight: torch.Tensor, scale: torch.Tensor, tokens: torch.Tensor, **more: Any
) -> torch.Tensor:
    dtype = more.pop("dtype", torch.bfloat16)
    return torch_npu.npu_quant_matmul(x, weight.t(), scale, pertoken_scale=tokens, output_dtype=dtype, **more)


def _three(x: torch.Tensor, *given: torch.Tensor) -> Tensors:
    y, tokens = torch_npu.npu_dynamic_quant(x)
    a, b, c, *scales, bias = given
    return (
        _product(y, a, scales[0], tokens) + 1,
        _product(y, b, scales[1], tokens, bias=bias),
        _product(y, c, scales[2][:1], tokens),
    )


def _smooth(x: torch.Tensor, *given: torch.Tensor) -> Tensors:
    y, tokens = torch_npu.npu_dynamic_quant(x * 2, smooth_scales=x[0] + 1)
    return (_product(y, given[0], given[3], tokens),)


def _also_a_result(x: torch.Tensor, *given: torch.Tensor) -> Tensors:
    y, tokens = torch_npu.npu_dynamic_quant(x)
    return _product(y, given[0], given[3], tokens), y


def _scales_are_read_besides(x: torch.Tensor, *given: torch.Tensor) -> Tensors:
    y, tokens = torch_npu.npu_dynamic_quant(x)
    return _product(y, given[0], given[3], tokens), tokens + 1


def _of_two_dtypes(x: torch.Tensor, *given: torch.Tensor) -> Tensors:
    y, tokens = torch_npu.npu_dynamic_quant(x)
    return _product(y, given[0], given[3], tokens), _product(y, given[1], given[4], tokens, dtype=torch.float16)


def _one_after_the_other(x: torch.Tensor, *given: torch.Tensor) -> Tensors:
    """The second product has a scale that the first one gives."""
    y, tokens = torch_npu.npu_dynamic_quant(x)
    first = _product(y, given[0], given[3], tokens)
    return first, _product(y, given[0], first[0].float().abs(), tokens)


# Each function, and how many steps its code has.
FUNCTIONS = {
    _three: 1,
    _smooth: 1,
    _also_a_result: 0,
    _scales_are_read_besides: 0,
    _of_two_dtypes: 0,
    _one_after_the_other: 0,
}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(("function", "steps"), FUNCTIONS.items(), ids=[each.__name__ for each in FUNCTIONS])
def test_joined_or_not(compile_npu: Compile, function: Callable[..., Tensors], steps: int, dynamic: bool) -> None:
    torch.manual_seed(0)
    weights = [torch.randint(-128, 128, (width, 64), dtype=torch.int8) for width in (48, 33, 48)]
    scales = [torch.rand(width) * 0.01 for width in (48, 33, 48)]
    given = [each.npu() for each in (*weights, *scales, torch.randn(33))]
    torch._dynamo.reset()
    with use("inductor"):
        compiled = compile_npu(function, dynamic=dynamic)
        for tokens in (20, 3) if dynamic else (20,):
            x = torch.randn(tokens, 64).bfloat16().npu()
            made, codes = run_and_get_code(lambda x=x: compiled(x, *given))
            assert all(code.count(STEP) == steps for code in codes)
            for one, other in zip(made, function(x, *given), strict=True):
                assert torch.equal(one.cpu(), other.cpu())


def test_several_products_of_the_same_rows() -> None:
    """Widths around a block, one of none, few rows and many: each as it is alone."""
    generator = torch.Generator().manual_seed(0)

    def integers(*size: int) -> torch.Tensor:
        return torch.randint(-128, 128, size, dtype=torch.int8, generator=generator)

    for rows in (1, 5, 16, 130):
        x1, row_scale = integers(rows, 70), torch.rand(rows, generator=generator)
        widths = (31, 0, 64, 65, 1)
        factors = [
            native.Factor(integers(n, 70).t(), torch.rand(n, generator=generator), torch.randn(n, generator=generator))
            for n in widths
        ]
        made = native.int8_products(x1, factors, torch.float16, row_scale)
        for result, factor in zip(made, factors, strict=True):
            sums = (x1.double() @ factor.x2.double()).float()
            wanted = (sums * factor.scale * row_scale[:, None] + factor.bias).half()
            assert torch.equal(result, wanted)
