"""AscendAntiQuantV2: what it computes is in graph_quant.reference; here GE's inputs become its arguments."""

from __future__ import annotations

from torch import Tensor

from ...destination import BFLOAT16, FLOAT16
from ...ge.kernels import kernel
from ...reference.anti_quant import anti_quant

_OUTPUTS = {output.ge_attr: output for output in (FLOAT16, BFLOAT16)}


@kernel("AscendAntiQuantV2")
def anti_quant_node(
    x: Tensor, scale: Tensor, offset: Tensor | None = None, *, dst_type: int = 1, sqrt_mode: bool = False
) -> Tensor:
    """int4 elements arrive as int8. ``sqrt_mode`` multiplies by the scale twice."""
    if sqrt_mode:
        raise NotImplementedError("AscendAntiQuantV2: sqrt_mode=True has no host kernel")
    if dst_type not in _OUTPUTS:
        raise TypeError(f"AscendAntiQuantV2: dst_type must be 1 (float16) or 27 (bfloat16), got {dst_type}")
    return anti_quant(x, scale, offset, _OUTPUTS[dst_type])
