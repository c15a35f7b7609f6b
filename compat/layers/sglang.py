"""sglang's NPU methods for linears and experts."""

from __future__ import annotations

import importlib
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn

from .layer import (
    COUNTS,
    EXPERTS,
    INPUT_SCALE,
    INPUTS,
    OUTPUTS,
    Layer,
    Weights,
    compare_linear,
    module,
    pack_eight_int4,
    quantisation_step,
    tokens,
)
from .sglang_950 import CASES as CASES_OF_950
from .sglang_experts import AWQ_ORDER, NPU, REAL
from .sglang_experts import CASES as EXPERT_CASES
from .stubs import Framework

FRAMEWORK = Framework(
    roots=("sglang",),
    real=frozenset(
        {
            *(f"{NPU}.{name}" for name in ("utils", "moe.matmul", "moe.quant")),
            *(
                f"{NPU}.quantization.{file}"
                for file in ("linear_method_npu", "moe_methods", "awq_kernels", "gptq_kernels")
            ),
            *REAL,
        }
    ),
    folder="python",
    answers={"sglang.srt.utils.is_npu": lambda: True},
)
_GROUP = 32
_WIDE_GROUP = 256  # of inputs that share a scale beside int8 activations


def _method(file: str, name: str, *args: Any, **kwargs: Any) -> Any:
    return getattr(importlib.import_module(f"{NPU}.quantization.{file}"), name)(*args, **kwargs)


def _linear(name: str, bits: int) -> Layer:
    weights, x = Weights.random(bits), tokens()
    method = _method("linear_method_npu", name)
    layer = module(**weights.parameters())
    method.process_weights_after_loading(layer)
    return compare_linear(method.apply(layer, x.npu()), x, weights, quantisation_step(x, bits))


def _w8a8_static() -> Layer:
    weights, x = Weights.random(8), tokens().clamp(-3, 3)
    method = _method("linear_method_npu", "NPUW8A8Int8LinearMethod")
    layer = module(**weights.static_parameters(torch.bfloat16))
    method.process_weights_after_loading(layer)
    return compare_linear(method.apply(layer, x.npu()), x, weights, INPUT_SCALE)


def _experts(method: Any, layer: nn.Module, weights: Weights, bits: int | None) -> Layer:
    x = tokens(weights.integers.size(-1))
    method.process_weights_after_loading(layer, "w13")
    counts = torch.tensor(COUNTS).npu()
    output = method.apply(layer, x.npu(), counts, None, torch.bfloat16, "w13", 1)
    return compare_linear(output, x, weights, None if bits is None else quantisation_step(x, bits))


def _w8a8_experts() -> Layer:
    weights = Weights.random(8, EXPERTS)
    layer = module(w13_weight=weights.integers, w13_weight_scale=weights.scale)
    return _experts(_method("moe_methods", "NPUW8A8Int8MoEMethod"), layer, weights, 8)


def _w4a8_experts() -> Layer:
    weights = Weights.random(4, EXPERTS)
    layer = module(
        w13_weight=weights.packed(),
        w13_weight_scale=weights.scale.float(),
        w13_scale_bias=(8 * weights.dequantised.sum(-1, keepdim=True)).float(),
    )
    method = _method("moe_methods", "NPUW4A8Int8MoEMethod", is_per_channel_weight=True)
    return _experts(method, layer, weights, 8)


def _w4a8_experts_by_groups() -> Layer:
    """The product of two scales is rounded to float16; sglang assumes twice as many outputs as inputs."""
    inputs = 2 * _WIDE_GROUP
    weights = Weights.random(4, EXPERTS, outputs=2 * inputs, inputs=inputs)
    of_groups = (1 + torch.randint(0, 3, (EXPERTS, 2 * inputs, 2)) / 4).half()
    of_channels = weights.scale.half().float()
    dequantised = weights.integers.unflatten(-1, (2, _WIDE_GROUP)) * (of_channels * of_groups).half().float()[..., None]
    layer = module(
        w13_weight=weights.packed(),
        w13_weight_scale=of_channels,
        w13_weight_scale_second=of_groups.float(),
        w13_weight_offset_second=torch.zeros_like(of_groups),
        w13_scale_bias=8 * dequantised.flatten(-2).sum(-1, keepdim=True),
    )
    as_numbers = Weights(dequantised.flatten(-2), torch.ones_like(weights.scale))
    return _experts(_method("moe_methods", "NPUW4A8Int8MoEMethod"), layer, as_numbers, 8)


def _w4a16_experts() -> Layer:
    weights = Weights.random(4, EXPERTS)
    scale = weights.scale.expand(EXPERTS, OUTPUTS, INPUTS // _GROUP).contiguous()
    layer = module(
        w13_weight=pack_eight_int4(weights.integers), w13_weight_scale=scale, w13_weight_offset=torch.zeros_like(scale)
    )
    return _experts(_method("moe_methods", "NPUWNA16Int4MoEMethod"), layer, weights, None)


def _w4a4_experts() -> Layer:
    weights = Weights.random(4, EXPERTS)
    layer = module(w13_weight=weights.integers, w13_weight_scale=weights.scale.float())
    return _experts(_method("moe_methods", "NPUW4A4Int4MoEMethod"), layer, weights, 4)


def _plain_experts() -> Layer:
    weights = Weights.random(8, EXPERTS)
    layer = module(w13_weight=weights.dequantised.bfloat16())
    return _experts(_method("moe_methods", "NPUUnquantMoEMethod"), layer, weights, None)


def _of_gptq() -> Layer:
    """The GPTQ layout: packed inputs, zero points stored minus one."""
    weights, x = Weights.random(4), tokens()
    config = SimpleNamespace(checkpoint_format="gptq", weight_bits=4, group_size=_GROUP)
    method = _method("gptq_kernels", "GPTQLinearAscendKernel", config)
    scales = _by_group(weights)
    zeros = pack_eight_int4(torch.full_like(scales, -1, dtype=torch.int8))
    layer = module(qweight=pack_eight_int4(weights.integers).T.contiguous(), qzeros=zeros, scales=scales)
    method.process_weights_after_loading(layer)
    return compare_linear(method.apply(layer, x.npu()), x, weights, None)


def _of_awq() -> Layer:
    """The AWQ layout: packed outputs in AWQ's order."""
    weights, x = Weights.random(4), tokens()
    method = _method("awq_kernels", "AWQAscendLinearKernel", SimpleNamespace(pack_factor=8))
    scales = _by_group(weights)
    columns = weights.integers.T.unflatten(-1, (-1, 8))[..., AWQ_ORDER].flatten(-2)
    zeros = pack_eight_int4(torch.zeros_like(scales, dtype=torch.int8))
    layer = module(qweight=pack_eight_int4(columns), qzeros=zeros, scales=scales)
    method.process_weights_after_loading(layer)
    return compare_linear(method.apply(layer, x.npu()), x, weights, None)


def _by_group(weights: Weights) -> Tensor:
    return weights.scale.T.expand(INPUTS // _GROUP, OUTPUTS).contiguous()


CASES = {
    "W8A8 dynamic linear": lambda: _linear("NPUW8A8Int8DynamicLinearMethod", 8),
    "W8A8 linear": _w8a8_static,
    "W4A4 dynamic linear": lambda: _linear("NPU_W4A4DynamicLinearMethod", 4),
    "W8A8 experts": _w8a8_experts,
    "W4A8 experts": _w4a8_experts,
    "W4A8 experts by groups": _w4a8_experts_by_groups,
    "W4A16 experts": _w4a16_experts,
    "W4A4 experts": _w4a4_experts,
    "experts in bfloat16": _plain_experts,
    "GPTQ linear": _of_gptq,
    "AWQ linear": _of_awq,
    **EXPERT_CASES,
    **CASES_OF_950,
}
