"""Both engines give the same bits, for the quantisation operators and for the half-precision ones around them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch_npu
from graph_quant.host.engine import inductor, use
from torch._inductor.utils import run_and_get_code

Compile = Callable[..., Any]
INDEX = torch.tensor([3, 3, 17])


def _inputs() -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    x = torch.randn(17, 64).half() * 8
    x[0, :6] = torch.tensor([float("inf"), float("-inf"), float("nan"), 0.0, 65504.0, -0.0])
    return x, torch.rand(3, 64).half() * 4


def _around_them(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """Norm, gate and softmax around the operators of a decoder, each of several fusible steps."""
    x = x[1:].bfloat16()
    normed = x * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-6).bfloat16() * scale[0].bfloat16()
    gated = torch.nn.functional.silu(normed) * (normed + scale[1].bfloat16()) - x / 3
    return torch.softmax(gated * 0.125, -1)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "group int8": lambda x, s: torch_npu.npu_group_quant(x, s, INDEX, dst_dtype=torch.int8),
    "group int4": lambda x, s: torch_npu.npu_group_quant(x, s, INDEX, dst_dtype=torch.quint4x2),
    "quantize int8": lambda x, s: torch_npu.npu_quantize(x, s[0], s[1], torch.qint8, -1, False),
    "quantize by division": lambda x, s: torch_npu.npu_quantize(
        x, s[0].float() + 1, s[1].to(torch.int32), torch.qint32, 1, True
    ),
    "asymmetric int4": lambda x, _: torch_npu.npu_dynamic_quant_asymmetric(x[1:], dst_type=torch.quint4x2),
    "asymmetric smooth": lambda x, s: torch_npu.npu_dynamic_quant_asymmetric(x[1:], smooth_scales=s[0]),
    "symmetric": lambda x, _: torch_npu.npu_dynamic_quant(x[1:]),
    "around them": _around_them,
    "parameters": lambda _, s: torch_npu.npu_trans_quant_param(s[0].float(), s[1].float(), 1),
}


# Inductor writes other code for sizes that it knows; packing is where the two differ most.
@pytest.mark.parametrize(
    ("name", "dynamic"), [*((name, True) for name in FUNCTIONS), ("group int4", False), ("asymmetric int4", False)]
)
def test_both_engines_are_bitwise_equal(compile_npu: Compile, name: str, dynamic: bool) -> None:
    x, scale = _inputs()
    function = FUNCTIONS[name]
    expected = compile_npu(function, dynamic=dynamic)(x, scale)
    torch._dynamo.reset()
    with use("inductor"):
        results = compile_npu(function, dynamic=dynamic)(x, scale)
    pairs = [(expected, results)] if isinstance(expected, torch.Tensor) else zip(expected, results, strict=True)
    for one, other in pairs:
        assert one.dtype == other.dtype
        assert torch.equal(one.view(torch.int8), other.view(torch.int8))


def _one_token(x: torch.Tensor, weight: torch.Tensor, scale: torch.Tensor, params: torch.Tensor) -> list[torch.Tensor]:
    """One token to every destination, by a weight and by itself: m, and m and n, are 1."""
    q = torch_npu.npu_quantize(x, scale[:1], None, torch.qint8, -1, False)
    tokens = torch.ones(1, device=x.device)
    return [
        result
        for right, n in ((weight, 32), (q.mT, 1))
        for result in (
            torch_npu.npu_quant_matmul(q, right, scale[:n], output_dtype=torch.int32),
            torch_npu.npu_quant_matmul(q, right, scale[:n], output_dtype=torch.bfloat16),
            torch_npu.npu_quant_matmul(q, right, params[:n], output_dtype=torch.int8),
            torch_npu.npu_quant_matmul(q, right, params[:n], output_dtype=torch.float16),
            torch_npu.npu_quant_matmul(
                q[0], right.squeeze(0), scale[:n], pertoken_scale=tokens, output_dtype=torch.float16
            ),
        )
    ]


def test_both_engines_agree_on_one_token(compile_npu: Compile) -> None:
    """A single row may have any stride; with strides such as (0, 1) torch._int_mm did not write its result."""
    torch.manual_seed(0)
    scale = torch.rand(32) * 0.01 + 0.01
    weight = torch.randint(-128, 128, (64, 32), dtype=torch.int8)
    arguments = [tensor.npu() for tensor in (torch.randn(1, 1, 64) * 4000, weight, scale)]
    arguments.append(torch_npu.npu_trans_quant_param(arguments[2]))
    expected = _one_token(*arguments)
    assert expected[0].count_nonzero() == 32
    for engine in ("eager", "inductor"):
        torch._dynamo.reset()
        with use(engine):
            results = compile_npu(_one_token, dynamic=False)(*arguments)
        for one, other in zip(expected, results, strict=True):
            assert one.dtype == other.dtype
            assert torch.equal(one.cpu(), other.cpu())


def _turned(x: torch.Tensor, weight: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """Rotated heads, quantised and multiplied."""
    angles = torch.arange(x.size(0)).to(x.device)[:, None, None] / torch.arange(1, 65).to(x.device)
    turned = (x.view(-1, 4, 64) * angles.cos() - angles.sin()).flatten(1)
    quantised, tokens = torch_npu.npu_dynamic_quant(turned.bfloat16())
    return torch_npu.npu_quant_matmul(quantised, weight.t(), scale, pertoken_scale=tokens, output_dtype=torch.bfloat16)


def test_inductor_computes_sines_once_and_calls_operators_directly(compile_npu: Compile) -> None:
    """Sines are not recomputed for each head, and custom operators bypass the dispatcher."""
    torch.manual_seed(0)
    x, weight = torch.randn(6, 256), torch.randint(-128, 128, (32, 256), dtype=torch.int8)
    arguments = [tensor.npu() for tensor in (x, weight, torch.rand(32))]
    expected = compile_npu(_turned, dynamic=False)(*arguments)
    torch._dynamo.reset()
    with use("inductor"):
        result, codes = run_and_get_code(lambda: compile_npu(_turned, dynamic=False)(*arguments))
    assert torch.equal(expected.cpu(), result.cpu())
    code = "".join(codes)
    assert "= torch.ops.graph_quant" not in code
    assert code.count("= extern_kernels.graph_quant_") == 2
    # The last loop before a sine, or a cosine, is over the 64 of a head and not over the 256 of four.
    for wave in (".cos()", ".sin()"):
        *_, length = re.findall(r"<static_cast<int64_t>\((\d+)L\); x\d\+=", code.partition(wave)[0])
        assert length == "64"


def test_inductor_copies_scales() -> None:
    """Inductor has no C++ type for them; whether it generates a copy depends on the strides around it."""
    codes = torch.arange(24, dtype=torch.uint8).view(2, 6, 2)

    def transpose(codes: torch.Tensor) -> torch.Tensor:
        return codes.view(torch.float8_e8m0fnu).transpose(0, 1).clone(memory_format=torch.contiguous_format)

    with inductor.configured():
        scales = torch.compile(transpose, fullgraph=True)(codes)
    assert (scales.dtype, scales.is_contiguous()) == (torch.float8_e8m0fnu, True)
    assert torch.equal(scales.view(torch.uint8), codes.transpose(0, 1))
