"""npu_rotary_mul becomes RotaryMul, or RotaryPositionEmbedding where a mode or a matrix is given, which TorchAir drops.

Its gradient becomes RotaryPositionEmbeddingGrad, the kernel of eager mode; TorchAir's converter drops the mode there,
too, and takes neither symbolic sizes nor widths that 64 does not divide. Tensors of another dtype than the input are
cast to its own, as eager execution does.
"""

from __future__ import annotations

import torch
from graph_quant.converters.lowering import as_float, cast_to, lowers
from graph_quant.reference.rope.rotation import MODES_950
from torchair._ge_concrete_graph import ge_apis as ge
from torchair.ge._ge_graph import Tensor


@lowers("npu_rotary_mul")
def lower(x: Tensor, r1: Tensor, r2: Tensor, rotary_mode: str, rotate: Tensor | None) -> Tensor:
    """The GE nodes of one call."""
    r1, r2 = (_like(coefficients, x.meta.dtype) for coefficients in (r1, r2))
    if rotary_mode == MODES_950[0] and rotate is None:
        return ge.RotaryMul(x, r1, r2)
    return ge.RotaryPositionEmbedding(x, r1, r2, mode=MODES_950.index(rotary_mode), rotate=rotate)


@lowers("npu_rotary_mul_backward")
def lower_backward(grad: Tensor, x: Tensor, r1: Tensor, r2: Tensor, rotary_mode: str) -> tuple[Tensor, Tensor, Tensor]:
    """The GE nodes of one call."""
    dy, cos, sin = (_like(result, x.meta.dtype) for result in (grad, r1, r2))
    results: tuple[Tensor, Tensor, Tensor] = ge.RotaryPositionEmbeddingGrad(
        dy, cos, sin, x, mode=MODES_950.index(rotary_mode)
    )
    return results


def _like(coefficients: Tensor, dtype: torch.dtype) -> Tensor:
    if coefficients.meta.dtype == dtype:
        return coefficients
    return as_float(coefficients) if dtype == torch.float32 else cast_to(coefficients, dtype)
