"""sglang's methods in MX formats for Ascend 950, which A2 and A3 refuse by name."""

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


def _load(file: str, name: str, *args: Any) -> Any:
    return getattr(importlib.import_module(f"{NPU}.quantization.{file}"), name)(*args)


def _plain(*shape: int) -> dict[str, Tensor]:
    """Return float weights, which are quantised on loading."""
    return {"weight": torch.ones(*shape).bfloat16()}


def _eights(*shape: int) -> dict[str, Tensor]:
    return {"weight": torch.ones(*shape).to(torch.float8_e4m3fn), "weight_scale": _scales(*shape)}


def _fours(*shape: int) -> dict[str, Tensor]:
    """Return float4 weights, two inputs to a byte."""
    *leading, inputs = shape
    return {"weight": torch.ones(*leading, inputs // 2, dtype=torch.uint8), "weight_scale": _scales(*shape)}


def _scales(*shape: int) -> Tensor:
    *leading, inputs = shape
    return torch.ones(*leading, inputs // _BLOCK, dtype=torch.uint8)


def _linear(name: str, of: Callable[..., dict[str, Tensor]]) -> Layer:
    method = _load("linear_method_npu", name)
    layer = module(**of(OUTPUTS, INPUTS))
    method.process_weights_after_loading(layer)
    return _expect_refusal(method.apply(layer, tokens().npu()))


def _experts(name: str, of: Callable[..., dict[str, Tensor]], *args: str) -> Layer:
    """Run experts; ``args`` select a method with a fused product and activation."""
    logging.Logger.warning_once = logging.Logger.warning  # type: ignore[attr-defined]  # as sglang has it
    method = _load("moe_methods", name, *args)
    layer = module(**{f"w13_{key}": value for key, value in of(EXPERTS, OUTPUTS, INPUTS).items()})
    method.process_weights_after_loading(layer, "w13")
    counts = torch.tensor(COUNTS).npu()
    if args:
        return _expect_refusal(method.apply_fused_gmm1_swiglu(layer, tokens().npu(), counts, None, 1)[0])
    return _expect_refusal(method.apply(layer, tokens().npu(), counts, None, torch.bfloat16, "w13", 1))


def _expect_refusal(output: Tensor) -> Layer:
    """Return a comparison that always fails: the call should have been refused."""
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
