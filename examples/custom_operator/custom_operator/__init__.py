"""``row_quant(x, scale)``: quantise every row of a matrix to int8 by a scale of its own."""

import graph_quant  # noqa: F401  (before torch: it makes torch_npu loadable, and loads the entry points)
import torch

__all__ = ["row_quant"]


def row_quant(x: torch.Tensor, scale: torch.Tensor, bound: int = 127) -> torch.Tensor:
    """Quantise the rows of a matrix to int8.

    Args:
        x: Matrix of shape (rows, columns), float16, bfloat16 or float32.
        scale: Scale of every row, float32 of shape (rows,).
        bound: Largest magnitude of a quantised value, from 1 to 127.

    Returns:
        int8 of the shape of x: ``clamp(round(x / scale), -bound, bound)``.
    """
    return torch.ops.custom_operator.row_quant(x, scale, bound)
