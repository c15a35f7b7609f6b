"""sglang's layers of experts: routing, two products around an activation, and combining."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from .experts import EXPERTS, Experts, compare_experts
from .layer import Layer, Weights, module, pack_eight_int4

NPU = "sglang.srt.hardware_backend.npu"
REAL = tuple(f"{NPU}.moe.{name}" for name in ("activation", "init_routing", "finalize_routing"))
AWQ_ORDER = [0, 2, 4, 6, 1, 3, 5, 7]
_GROUP = 32
_PARTS = ("w13", "w2")


def _load(file: str, name: str, *args: Any, **kwargs: Any) -> Any:
    return getattr(importlib.import_module(f"{NPU}.{file}"), name)(*args, **kwargs)


def _through(
    experts: Experts, layer: Any, method: Any, activation: str, routing: Any, finalising: Any, bits: int | None
) -> Layer:
    tokens, chosen, shares = experts.tokens.npu(), experts.chosen.npu(), experts.shares.npu()
    sorted_tokens, rows, counts, scale = routing._init_routing(tokens, chosen, EXPERTS, chosen.size(1))
    of_counts = 0 if type(routing).__name__.endswith("v1") else 1
    run = (torch.bfloat16, "w13", of_counts)
    inner = method.apply(layer, sorted_tokens, counts, scale, *run)
    inner, scale = _load("moe.activation", activation)._apply_activation(inner)
    result = method.apply(layer, inner, counts, scale, torch.bfloat16, "w2", of_counts)
    return compare_experts(finalising._finalize_routing(result, shares, rows, chosen), experts, bits)


def _w8a8(routing: Any, finalising: Any) -> Layer:
    experts = Experts.random(8)
    parameters: dict[str, Tensor] = {}
    for name, weights in zip(_PARTS, (experts.up, experts.down), strict=True):
        parameters |= {f"{name}_weight": weights.integers, f"{name}_weight_scale": weights.scale}
    layer = module(**parameters)
    method = _load("quantization.moe_methods", "NPUW8A8Int8MoEMethod")
    for name in _PARTS:
        method.process_weights_after_loading(layer, name)
    return _through(experts, layer, method, "NPUSwigluQuant", routing, finalising, 8)


def _by_groups(of: Callable[[Weights], dict[str, Tensor]], file: str, kernel: str, config: Any) -> Layer:
    """Run a kernel that converts checkpoint weights for the int4 method."""
    experts = Experts.random(4)
    parameters: dict[str, Tensor] = {}
    for name, weights in zip(_PARTS, (experts.up, experts.down), strict=True):
        parameters |= {f"{name}_{key}": value for key, value in of(weights).items()}
    layer = module(**parameters)
    _load(file, kernel, config).process_weights_after_loading(layer)
    taken = {}
    for name in _PARTS:
        for key, of_it in (("weight", "qweight"), ("weight_scale", "scales"), ("weight_offset", "qzeros")):
            taken[f"{name}_{key}"] = getattr(layer, f"{name}_{of_it}")
    method = _load("quantization.moe_methods", "NPUWNA16Int4MoEMethod")
    return _through(experts, SimpleNamespace(**taken), method, "NPUSwiglu", _v2(), _unpermuted(), None)


def _scales(weights: Weights) -> Tensor:
    groups = weights.integers.size(-1) // _GROUP
    return weights.scale.transpose(1, 2).expand(-1, groups, -1).contiguous()


def _of_gptq(weights: Weights) -> dict[str, Tensor]:
    """Return the GPTQ layout: packed inputs, zero points stored minus one."""
    scales = _scales(weights)
    return {
        "qweight": pack_eight_int4(weights.integers).transpose(1, 2).contiguous(),
        "scales": scales,
        "qzeros": pack_eight_int4(torch.full_like(scales, -1, dtype=torch.int8)),
    }


def _of_awq(weights: Weights) -> dict[str, Tensor]:
    """Return the AWQ layout: packed outputs in AWQ's order."""
    scales = _scales(weights)
    columns = weights.integers.transpose(1, 2).unflatten(-1, (-1, 8))[..., AWQ_ORDER].flatten(-2)
    return {
        "qweight": pack_eight_int4(columns),
        "scales": scales,
        "qzeros": pack_eight_int4(torch.zeros_like(scales, dtype=torch.int8)),
    }


def _v1() -> Any:
    return _load("moe.init_routing", "NPUMoEInitRouting_v1")


def _v2(**kwargs: Any) -> Any:
    return _load("moe.init_routing", "NPUMoEInitRouting_v2", **kwargs)


def _unpermuted() -> Any:
    return _load("moe.finalize_routing", "NPUMoETokenUnpermute")


def _finalised(mode: int) -> Any:
    return _load("moe.finalize_routing", "NPUFinalizeRouting", drop_pad_mode=mode)


_GPTQ = SimpleNamespace(checkpoint_format="gptq", weight_bits=4, group_size=_GROUP)
CASES: dict[str, Callable[[], Layer]] = {
    "W8A8 experts, from tokens to tokens": lambda: _w8a8(_v2(), _unpermuted()),
    "W8A8 experts, quantised as they are routed": lambda: _w8a8(_v2(quant_mode=1), _finalised(2)),
    "W8A8 experts, routed by the first version": lambda: _w8a8(_v1(), _finalised(0)),
    "GPTQ experts": lambda: _by_groups(_of_gptq, "quantization.gptq_kernels", "GPTQMoEAscendKernel", _GPTQ),
    "AWQ experts": lambda: _by_groups(
        _of_awq, "quantization.awq_kernels", "AWQAscendMoEKernel", SimpleNamespace(pack_factor=8)
    ),
}
