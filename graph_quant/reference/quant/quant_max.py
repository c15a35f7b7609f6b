"""npu_quant_max: float8 or HiFloat8 of ``x * scale``, and the largest magnitude of x, for the next scale."""

from __future__ import annotations

from graph_quant.chip import ASCEND_950
from graph_quant.destination import Destination, element_destination
from graph_quant.ge import kernel
from graph_quant.reference.rounding import affine
from torch import Tensor


def quant_max(x: Tensor, scale: Tensor, destination: Destination) -> tuple[Tensor, Tensor]:
    """``(y, amax)``; amax is one element in the dtype of ``x``.

    Args:
        x: Tensor of float32, float16 or bfloat16.
        scale: One float32 element.
        destination: E4M3, E5M2 or HIFLOAT8 of ``graph_quant.destination``.

    Returns:
        The quantised tensor in the shape of ``x``, and its largest magnitude.
    """
    return affine(x, scale, None, destination), x.abs().amax().reshape(1)


@kernel("QuantMax", flops=3, chips=(ASCEND_950,))
def quant_max_node(
    x: Tensor, scale: Tensor, *, round_mode: str = "rint", dst_type: int = 35, group_list: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    if round_mode == "hybrid" or group_list is not None:
        raise NotImplementedError("QuantMax: round_mode hybrid and groups have no host kernel")
    return quant_max(x, scale, element_destination(dst_type))
