"""ATB's _npu_quantize_per_tensor: x quantised to int8 by scales, and optional zero points, of its last dimensions."""

from __future__ import annotations

import torch
from graph_quant.meta import atb  # noqa: F401 (it defines the operator)
from graph_quant.meta.operator import Plan, operator
from graph_quant.meta.rules import Rules
from graph_quant.reference.quant.quantize_per_tensor import quantise
from torch import Tensor

MOST_DIMS = 8


# The device of scale is checked after its dimensions, as in ATB.
@operator("atb::_npu_quantize_per_tensor", reference=quantise, on_any_device=("scale",))
def quantize_per_tensor(rules: Rules, x: Tensor, scale: Tensor, zero_point: Tensor, y: Tensor) -> Plan:
    """The plan of a call that the library allows; any other call is refused."""
    for name, tensor in (("x", x), ("scale", scale), ("zero_point", zero_point), ("y", y)):
        rules.require(
            tensor.dim() <= MOST_DIMS,
            lambda name=name, tensor=tensor: (  # type: ignore[misc]
                f"{name}: ATB tensor supports at most {MOST_DIMS} dimensions, but got {tensor.dim()}"
            ),
        )
    rules.one_device({"x": x, "scale": scale})
    rules.dtype("x", x, (torch.float16, torch.bfloat16))
    rules.dtype("scale", scale, (x.dtype,), ", the dtype of x")
    rules.dtype("zero_point", zero_point, (torch.int8,))
    rules.dtype("y", y, (torch.int8,))
    rules.rank("x", x, 1, MOST_DIMS)
    rules.rank("scale", scale, 1, x.dim())
    rules.rank("y", y, x.dim())
    for dim in range(x.dim()):
        rules.equal(f"y.size({dim})", y.size(dim), f"x.size({dim})", x.size(dim))
    for dim in range(-scale.dim(), 0):
        rules.equal(f"scale.size({dim})", scale.size(dim), f"x.size({dim})", x.size(dim))
    if zero_point.numel():
        rules.rank("zero_point", zero_point, scale.dim())
        for dim in range(scale.dim()):
            rules.equal(f"zero_point.size({dim})", zero_point.size(dim), f"scale.size({dim})", scale.size(dim))
    return Plan(())
