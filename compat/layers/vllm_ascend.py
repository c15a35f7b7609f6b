"""vllm-ascend's methods for linears, and all cases of vllm-ascend."""

from __future__ import annotations

import importlib
from typing import Any

import torch
import torch_npu
from torch import Tensor

from . import vllm_ascend_950, vllm_ascend_experts, vllm_ascend_kv_cache, vllm_ascend_mla_cache
from .layer import INPUT_SCALE, Layer, Weights, compare_linear, module, quantisation_step, tokens
from .stubs import Framework

_METHODS = "vllm_ascend.quantization.methods"
_NZ = 29
FRAMEWORK = Framework(
    roots=("vllm", "vllm_ascend"),
    real=frozenset(
        {
            *(f"{_METHODS}.{name}" for name in ("base", "registry", "w8a8_dynamic", "w8a8_static", "w8a16")),
            *(f"{_METHODS}.{name}" for name in ("w4a4_laos_dynamic", "w4a4_flatquant", "w8a8_pdmix")),
            "vllm_ascend.quantization.quant_type",
            "vllm_ascend.quantization.tp_weight_switch",
            *vllm_ascend_experts.REAL,
            *vllm_ascend_kv_cache.REAL,
            *vllm_ascend_950.REAL,
            *vllm_ascend_mla_cache.REAL,
        }
    ),
    answers={
        "vllm_ascend.utils.maybe_trans_nz": lambda weight: torch_npu.npu_format_cast(weight, _NZ),
        "vllm_ascend.utils.COMPRESSED_TENSORS_METHOD": "compressed-tensors",
        **vllm_ascend_experts.ANSWERS,
        **vllm_ascend_950.ANSWERS,
        **vllm_ascend_mla_cache.ANSWERS,
    },
)


def _method(file: str, name: str) -> Any:
    return getattr(importlib.import_module(f"{_METHODS}.{file}"), name)()


def _linear(file: str, name: str, bits: int, input_bits: int | None) -> Layer:
    weights, x = Weights.random(bits), tokens()
    method = _method(file, name)
    layer = module(**weights.parameters())
    method.process_weights_after_loading(layer)
    return compare_linear(
        method.apply(layer, x.npu()), x, weights, None if input_bits is None else quantisation_step(x, input_bits)
    )


def _w8a8_static(file: str, name: str, *, decodes: bool = True) -> Layer:
    """Run a static method; ``decodes`` selects the decode path of a method with two paths."""
    weights, x = Weights.random(8), tokens().clamp(-3, 3)
    method = _method(file, name)
    layer = module(**weights.static_parameters(torch.int8))
    layer.params_dtype = torch.bfloat16  # type: ignore[assignment]
    method.process_weights_after_loading(layer)
    layer.is_kv_consumer = decodes  # type: ignore[assignment]
    _define_quantize()
    return compare_linear(method.apply(layer, x.npu()), x, weights, INPUT_SCALE if decodes else quantisation_step(x, 8))


def _flatquant() -> Layer:
    """Run FlatQuant: inputs are rotated by two orthogonal matrices; random weights serve as already rotated ones."""
    weights, x = Weights.random(4), tokens()
    left, right = (torch.linalg.qr(torch.randn(size, size)).Q.bfloat16() for size in (8, 8))
    method = _method("w4a4_flatquant", "AscendW4A4FlatQuantDynamicLinearMethod")
    layer = module(**weights.parameters(), left_trans=left, right_trans=right, clip_ratio=torch.ones(1))
    method.process_weights_after_loading(layer)
    rotated = (left.float().T @ x.float().unflatten(-1, (8, 8)) @ right.float()).flatten(-2)
    return compare_linear(method.apply(layer, x.npu()), rotated.bfloat16(), weights, quantisation_step(rotated, 4))


def _define_quantize() -> None:
    """Register vllm-ascend's operator vllm::quantize, a wrapper of npu_quantize."""

    @torch.library.custom_op("vllm::quantize", mutates_args=(), device_types="npu")
    def quantize(x: Tensor, scale: Tensor, reciprocal: Tensor, offset: Tensor) -> Tensor:  # noqa: ARG001
        done: Tensor = torch_npu.npu_quantize(x, reciprocal, offset, torch.qint8, -1, False)
        return done


CASES = {
    "W8A8_DYNAMIC linear": lambda: _linear("w8a8_dynamic", "AscendW8A8DynamicLinearMethod", 8, 8),
    "W8A8 linear": lambda: _w8a8_static("w8a8_static", "AscendW8A8LinearMethod"),
    "W8A8_MIX linear, prompts": lambda: _w8a8_static("w8a8_pdmix", "AscendW8A8PDMixLinearMethod", decodes=False),
    "W8A8_MIX linear, tokens": lambda: _w8a8_static("w8a8_pdmix", "AscendW8A8PDMixLinearMethod"),
    "W8A16 linear": lambda: _linear("w8a16", "AscendW8A16LinearMethod", 8, None),
    "W4A4_DYNAMIC linear": lambda: _linear("w4a4_laos_dynamic", "AscendW4A4LaosDynamicLinearMethod", 4, 4),
    "W4A4_FLATQUANT_DYNAMIC linear": _flatquant,
    **vllm_ascend_experts.CASES,
    **vllm_ascend_kv_cache.CASES,
    **vllm_ascend_mla_cache.CASES,
    **vllm_ascend_950.CASES,
}
