"""Quotients, in half precision by the number that was given: TorchAir rounds it first."""

from __future__ import annotations

from typing import Any

import torch
from graph_quant.converters.aten.precision import in_float32, is_rounded
from graph_quant.converters.lowering import converts, in_type
from torchair._ge_concrete_graph import ge_apis as ge
from torchair.ge._ge_graph import Tensor

aten = torch.ops.aten


@converts(aten.div.Tensor, aten.div.Scalar, aten.true_divide.Tensor, aten.true_divide.Scalar)
def div(x: Any, other: Any, meta_outputs: Any = None) -> Tensor:
    """RealDiv."""
    return _quotient(None, x, other, meta_outputs)


@converts(aten.div.Scalar_mode, aten.div.Tensor_mode)
def div_mode(x: Any, other: Any, *, rounding_mode: str | None = None, meta_outputs: Any = None) -> Tensor:
    """FloorDiv, TruncateDiv or RealDiv."""
    return _quotient(rounding_mode, x, other, meta_outputs)


@converts(aten.floor_divide.default, aten.floor_divide.Scalar)
def floor_divide(x: Any, other: Any, meta_outputs: Any = None) -> Tensor:
    """FloorDiv."""
    return _quotient("floor", x, other, meta_outputs)


def _quotient(mode: str | None, x: Any, other: Any, meta_outputs: Any) -> Tensor:
    make = {None: ge.RealDiv, "floor": ge.FloorDiv, "trunc": ge.TruncateDiv}[mode]
    dtype = meta_outputs.dtype
    if is_rounded(other, dtype):
        return in_float32(make, dtype, x, other)
    return make(*in_type(dtype, x, other))  # type: ignore[no-any-return]
