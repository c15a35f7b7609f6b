"""vllm-ascend's methods for linears."""

from __future__ import annotations

import importlib
from typing import Any

import torch
import torch_npu
from torch import Tensor

from .layer import INPUTS, OUTPUTS, Layer, Weights, judged, module, step_of, tokens
from .standins import Framework

_METHODS = "vllm_ascend.quantization.methods"
_NZ = 29
FRAMEWORK = Framework(
    roots=("vllm", "vllm_ascend"),
    real=frozenset(
        {
            *(f"{_METHODS}.{name}" for name in ("base", "registry", "w8a8_dynamic", "w8a8_static", "w8a16")),
            f"{_METHODS}.w4a4_laos_dynamic",
            "vllm_ascend.quantization.quant_type",
            "vllm_ascend.quantization.tp_weight_switch",
        }
    ),
    answers={
        "vllm_ascend.utils.maybe_trans_nz": lambda weight: torch_npu.npu_format_cast(weight, _NZ),
        "vllm_ascend.utils.COMPRESSED_TENSORS_METHOD": "compressed-tensors",
    },
)
_INPUT_SCALE, _INPUT_OFFSET = 2.0**-5, 3


def _method(file: str, name: str) -> Any:
    return getattr(importlib.import_module(f"{_METHODS}.{file}"), name)()


def _w8a8_dynamic() -> Layer:
    weights, x = Weights.random(8), tokens()
    method = _method("w8a8_dynamic", "AscendW8A8DynamicLinearMethod")
    layer = module(weight=weights.integers, weight_scale=weights.scale, weight_offset=torch.zeros_like(weights.scale))
    method.process_weights_after_loading(layer)
    return judged(method.apply(layer, x.npu()), x, weights, step_of(x, 8))


def _w8a8_static() -> Layer:
    weights, x = Weights.random(8), tokens().clamp(-3, 3)
    method = _method("w8a8_static", "AscendW8A8LinearMethod")
    layer = module(
        weight=weights.integers,
        weight_scale=weights.scale,
        weight_offset=torch.zeros_like(weights.scale),
        input_scale=torch.tensor([_INPUT_SCALE], dtype=torch.bfloat16),
        input_offset=torch.tensor([_INPUT_OFFSET], dtype=torch.int8),
        deq_scale=(weights.scale.float() * _INPUT_SCALE).flatten(),
        quant_bias=-_INPUT_OFFSET * weights.integers.sum(1, dtype=torch.int32),
    )
    layer.params_dtype = torch.bfloat16  # type: ignore[assignment]
    method.process_weights_after_loading(layer)
    _define_quantize()
    return judged(method.apply(layer, x.npu()), x, weights, _INPUT_SCALE)


def _define_quantize() -> None:
    """What vllm-ascend registers as an operator of vllm's namespace, around npu_quantize."""

    @torch.library.custom_op("vllm::quantize", mutates_args=(), device_types="npu")
    def quantize(x: Tensor, scale: Tensor, reciprocal: Tensor, offset: Tensor) -> Tensor:  # noqa: ARG001
        done: Tensor = torch_npu.npu_quantize(x, reciprocal, offset, torch.qint8, -1, False)
        return done


def _w8a16() -> Layer:
    weights, x = Weights.random(8), tokens()
    method = _method("w8a16", "AscendW8A16LinearMethod")
    layer = module(weight=weights.integers, weight_scale=weights.scale, weight_offset=torch.zeros_like(weights.scale))
    method.process_weights_after_loading(layer)
    return judged(method.apply(layer, x.npu()), x, weights, None)


def _w4a4() -> Layer:
    weights, x = Weights.random(4), tokens()
    method = _method("w4a4_laos_dynamic", "AscendW4A4LaosDynamicLinearMethod")
    assert weights.integers.shape == (OUTPUTS, INPUTS)
    layer = module(weight=weights.integers, weight_scale=weights.scale, weight_offset=torch.zeros_like(weights.scale))
    method.process_weights_after_loading(layer)
    return judged(method.apply(layer, x.npu()), x, weights, step_of(x, 4))


CASES = {
    "W8A8_DYNAMIC linear": _w8a8_dynamic,
    "W8A8 linear": _w8a8_static,
    "W8A16 linear": _w8a16,
    "W4A4_DYNAMIC linear": _w4a4,
}
