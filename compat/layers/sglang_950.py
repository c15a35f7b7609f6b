"""sglang's methods in MX formats, which are Ascend 950's: each is refused by name on A2 and A3."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .layer import COUNTS, EXPERTS, INPUTS, OUTPUTS, Layer, module, tokens
from .sglang_experts import NPU

_BLOCK = 32  # of inputs that share a scale


def _made(file: str, name: str, *args: Any) -> Any:
    return getattr(importlib.import_module(f"{NPU}.quantization.{file}"), name)(*args)


def _plain(*shape: int) -> dict[str, Tensor]:
    """Weights that are quantised as they are loaded."""
    return {"weight": torch.ones(*shape).bfloat16()}


def _eights(*shape: int) -> dict[str, Tensor]:
    return {"weight": torch.ones(*shape).to(torch.float8_e4m3fn), "weight_scale": _scales(*shape)}


def _fours(*shape: int) -> dict[str, Tensor]:
    """Two inputs to a byte."""
    *leading, inputs = shape
    return {"weight": torch.ones(*leading, inputs // 2, dtype=torch.uint8), "weight_scale": _scales(*shape)}


def _scales(*shape: int) -> Tensor:
    *leading, inputs = shape
    return torch.ones(*leading, inputs // _BLOCK, dtype=torch.uint8)


def _linear(name: str, of: Callable[..., dict[str, Tensor]]) -> Layer:
    method = _made("linear_method_npu", name)
    layer = module(**of(OUTPUTS, INPUTS))
    method.process_weights_after_loading(layer)
    return _unjudged(method.apply(layer, tokens().npu()))


def _experts(name: str, of: Callable[..., dict[str, Tensor]], *args: str) -> Layer:
    """``args`` are for a method that computes the first product and the activation in one."""
    logging.Logger.warning_once = logging.Logger.warning  # type: ignore[attr-defined]  # as sglang has it
    method = _made("moe_methods", name, *args)
    layer = module(**{f"w13_{key}": value for key, value in of(EXPERTS, OUTPUTS, INPUTS).items()})
    method.process_weights_after_loading(layer, "w13")
    counts = torch.tensor(COUNTS).npu()
    if args:
        return _unjudged(method.apply_fused_gmm1_swiglu(layer, tokens().npu(), counts, None, 1)[0])
    return _unjudged(method.apply(layer, tokens().npu(), counts, None, torch.bfloat16, "w13", 1))


def _unjudged(output: Tensor) -> Layer:
    """What comes through after all is told: nothing is near enough."""
    wanted = torch.zeros(output.shape, dtype=torch.double)
    return Layer(output, wanted, wanted - 1)


CASES: dict[str, Callable[[], Layer]] = {
    "MXFP8 linear": lambda: _linear("NPUMXFP8LinearMethod", _eights),
    "MXFP8 linear, quantised as it is loaded": lambda: _linear("NPUMXFP8LinearMethod", _plain),
    "MXFP4 W4A8 linear": lambda: _linear("NPUMXFP4W4A8OfflineLinearMethod", _fours),
    "MXFP4 W4A8 linear, quantised as it is loaded": lambda: _linear("NPUMXFP4W4A8LinearMethod", _plain),
    "MXFP4 W4A4 linear": lambda: _linear("NPUSingleLevelMXFP4OfflineLinearMethod", _fours),
    "MXFP4 W4A4 linear, quantised as it is loaded": lambda: _linear("NPUSingleLevelMXFP4LinearMethod", _plain),
    "MXFP4 W4A4 linear of two levels": lambda: _linear("NPUDualLevelMXFP4LinearMethod", _plain),
    "MXFP8 experts": lambda: _experts("NPUMXFP8MoEMethod", _eights, "w13"),
    # What sglang's NPUMXFP8OnlineMoEMethod gives its layers.
    "MXFP8 experts, quantised as they are loaded": lambda: _experts("NPUMXFP8MoEMethod", _plain, "w13"),
    "MXFP4 W4A8 experts": lambda: _experts("NPUW4A8MXFP4MoEMethod", _fours),
    "MXFP4 W4A4 experts": lambda: _experts("NPUW4A4MXFP4MoEMethod", _fours),
}
