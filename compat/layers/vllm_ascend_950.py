"""vllm-ascend's methods in float8 and MX formats for Ascend 950, which A2 and A3 refuse by name."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from .experts import EXPERTS, INNER, OUTER, Experts
from .layer import INPUTS, OUTPUTS, Layer, module, tokens
from .vllm_ascend_experts import CHIP, CONFIG, Device, apply_method

_METHODS = "vllm_ascend.quantization.methods"
_FILES = ("w8a8_mxfp8", "w8a8fp8_dynamic", "w4a4_mxfp4", "w4a4_mxfp4_flatquant", "w4a8_mxfp4", "w4a16_mxfp4", "fp8")
REAL = (*(f"{_METHODS}.{name}" for name in _FILES), "vllm_ascend.quantization.utils")
ANSWERS = {
    "vllm.utils.math_utils.cdiv": lambda x, y: -(-x // y),
    "vllm.distributed.get_ep_group": lambda: SimpleNamespace(rank_in_group=0, world_size=1),
    "vllm.distributed.get_tensor_model_parallel_world_size": lambda: 1,
    "vllm_ascend.utils.FP8_METHOD": "fp8",
}
_WIDE = 128  # of blocks whose weights share a scale


def _ones(described: dict[str, Any]) -> dict[str, Tensor]:
    """Return parameters of ones with the shapes and dtypes that a method describes."""
    return {
        name: torch.ones(shape.shape).to(shape.dtype) for name, shape in described.items() if torch.is_tensor(shape)
    }


def _on_a_950() -> None:
    CHIP.kind = Device.A5
    CONFIG.quant_config.quant_description = {"group_size": 32}
    CONFIG.model_config.hf_config = SimpleNamespace(o_groups=1, o_lora_rank=OUTPUTS)
    CONFIG.parallel_config.tensor_parallel_size = 1


def _linear(file: str, name: str, *args: Any) -> Layer:
    _on_a_950()
    method = getattr(importlib.import_module(f"{_METHODS}.{file}"), name)(*args)
    inputs = _WIDE if args else INPUTS
    described = method.get_weight(inputs, OUTPUTS, torch.bfloat16)
    described |= method.get_pertensor_param(torch.bfloat16, layer_type="column")
    described |= method.get_perchannel_param(OUTPUTS, torch.bfloat16)
    described |= method.get_pergroup_param(inputs, OUTPUTS, torch.bfloat16)
    layer = module(**_ones(described))
    layer.prefix = "proj"  # type: ignore[assignment]
    method.process_weights_after_loading(layer)
    done: Tensor = method.apply(layer, tokens(inputs).npu())
    return _expect_refusal(done)


def _experts(file: str, name: str) -> Layer:
    _on_a_950()
    method = getattr(importlib.import_module(f"{_METHODS}.{file}"), name)()
    sizes = (EXPERTS, INNER, OUTER, torch.bfloat16)
    layer = module(**_ones(method.get_weight(*sizes) | method.get_dynamic_quant_param(*sizes)))
    return _expect_refusal(apply_method(method, layer, Experts.random(8)))


def _expect_refusal(output: Tensor) -> Layer:
    """Return a comparison that always fails: the call should have been refused."""
    wanted = torch.zeros(output.shape, dtype=torch.double)
    return Layer(output, wanted, wanted - 1)


CASES: dict[str, Callable[[], Layer]] = {
    "W8A8FP8_DYNAMIC linear": lambda: _linear("w8a8fp8_dynamic", "AscendW8A8FP8DynamicLinearMethod"),
    "W8A8FP8_DYNAMIC experts": lambda: _experts("w8a8fp8_dynamic", "AscendW8A8FP8DynamicFusedMoEMethod"),
    "W8A8_MXFP8 linear": lambda: _linear("w8a8_mxfp8", "AscendW8A8MXFP8DynamicLinearMethod"),
    "W8A8_MXFP8 experts": lambda: _experts("w8a8_mxfp8", "AscendW8A8MXFP8DynamicFusedMoEMethod"),
    "fp8 linear of DeepSeek": lambda: _linear("fp8", "AscendW8A8MXFP8DSDynamicLinearMethod", (_WIDE, _WIDE)),
    "fp8 experts of DeepSeek": lambda: _experts("fp8", "AscendW4A8MXFPDSDynamicFusedMoEMethod"),
    "W4A8_MXFP linear": lambda: _linear("w4a8_mxfp4", "AscendW4A8MXFPDynamicLinearMethod"),
    "W4A8_MXFP experts": lambda: _experts("w4a8_mxfp4", "AscendW4A8MXFPDynamicFusedMoEMethod"),
    "W4A16_MXFP4 experts": lambda: _experts("w4a16_mxfp4", "AscendW4A16MXFP4FusedMoEMethod"),
    "W4A4_MXFP4 linear": lambda: _linear("w4a4_mxfp4", "AscendW4A4MXFP4DynamicLinearMethod"),
    "W4A4_MXFP4 experts": lambda: _experts("w4a4_mxfp4", "AscendW4A4MXFP4DynamicFusedMoEMethod"),
    "W4A4_MXFP4_FLATQUANT linear": lambda: _linear(
        "w4a4_mxfp4_flatquant", "AscendW4A4MXFP4FlatQuantDynamicLinearMethod"
    ),
}
