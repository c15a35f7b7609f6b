"""npu_rotate_quant: what may be passed, and what comes back.

x (m, n) and rotation (k, k) are float16 or bfloat16, alike; n is from 128 to 16000, a multiple of eight and of k, which
is from 16 to 1024. The results are int8, or int4 eight to an int32, and a float32 scale for each row. The other
arguments are for Ascend 950, except round_mode, which the kernels of A2 and A3 accept and ignore.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from graph_quant.destination import INT4, INT8, Destination
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import ND, Rules
from graph_quant.reference.quant.rotate_quant import rotate_quant as reference
from torch import Tensor

NARROWEST, WIDEST, UNIT = 128, 16000, 8
SMALLEST, LARGEST = 16, 1024


@dataclass(frozen=True)
class RotateQuantPlan(Plan):
    """``destination`` is the dtype of the result and its packing."""

    destination: Destination


@operator("npu_rotate_quant", reference=reference)
def rotate_quant(
    rules: Rules,
    x: Tensor,
    rotation: Tensor,
    alpha: Tensor | None,
    dst_dtype: torch.dtype | int | None,
    axis: int | None,
    round_mode: str | None,
    scale_alg: int | None,
    dst_type_max: float | None,
    transpose_y: bool | None,
) -> RotateQuantPlan:
    """The plan of a call that the documents allow; any other call is refused."""
    destination = INT8 if dst_dtype is None else rules.destination("dst_dtype", dst_dtype, (INT8, INT4))
    rules.dtype("x", x, (torch.float16, torch.bfloat16))
    rules.dtype("rotation", rotation, (x.dtype,), ", the dtype of x")
    rules.rank("x", x, 2)
    rules.rank("rotation", rotation, 2)
    rows, width, side = x.size(0), x.size(1), rotation.size(0)
    rules.at_least("x.size(0)", rows, 1)
    rules.equal("rotation.size(1)", rotation.size(1), "rotation.size(0)", side)
    for name, size, low, high in (
        ("x.size(1)", width, NARROWEST, WIDEST),
        ("rotation.size(0)", side, SMALLEST, LARGEST),
    ):
        rules.at_least(name, size, low)
        rules.require(size <= high, lambda: f"{name} must be at most {high}, got {size}")  # noqa: B023
    rules.require(width % UNIT == 0, lambda: f"x.size(1) must be a multiple of {UNIT}, got {width}")
    rules.require(
        width % side == 0,  # type: ignore[operator]
        lambda: f"x.size(1) must be a multiple of rotation.size(0), got {width} and {side}",
    )
    rules.require(alpha is None, lambda: "alpha must be None on A2 and A3, got a tensor")
    rules.one_of("axis", axis, (None, -1, 1))
    rules.one_of("round_mode", round_mode, (None, "rint", "round", "floor"))
    for name, value in (("scale_alg", scale_alg), ("dst_type_max", dst_type_max), ("transpose_y", transpose_y)):
        rules.require(not value, lambda: f"{name} is for Ascend 950, leave it at its default, got {value}")  # noqa: B023
    rules.format("x", x, ND)
    rules.format("rotation", rotation, ND)
    shape = (rows, width // INT4.packing if destination.is_packed else width)
    return RotateQuantPlan((Result(shape, destination.storage), Result((rows,), torch.float32)), destination)
