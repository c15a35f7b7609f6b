"""npu_grouped_matmul_finalize_routing: what may be passed, and what comes back.

x (m, k) is int8, w (E, k, n) int8 or int32 that hold int4 along n. scale, logit and row_index are needed; int4 weights
take packed scales (E, 1, n) and a bias (E, n), as npu_grouped_matmul does, and need pertoken_scale, which the document
lists for int8 weights as well and their kernel does without; their row_index is int64 alone.

int8 weights are in FRACTAL_NZ; int4 ones may be, with n a multiple of 64, and their k is at most 18432.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from graph_quant.destination import INT4
from graph_quant.meta.matmul.grouped_layout import check_expected_rows
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import ND, NZ, TILING_ERROR, Rules, Size
from graph_quant.reference.matmul.grouped_matmul_finalize_routing import combined_products
from torch import Tensor

_MOST_ROWS, _MOST_EXPERTS = 16 * 1024 * 8, 256
_DEEPEST_INT4 = 18432


@dataclass(frozen=True)
class FinalizeRoutingPlan(Plan):
    """The options with their defaults."""

    shared_weight: float
    shared_start: int
    tokens: Size
    list_type: int


@operator("npu_grouped_matmul_finalize_routing", reference=combined_products)
def grouped_matmul_finalize_routing(
    rules: Rules,
    x: Tensor,
    w: Tensor,
    group_list: Tensor,
    scale: Tensor | None,
    bias: Tensor | None,
    offset: Tensor | None,
    pertoken_scale: Tensor | None,
    shared_input: Tensor | None,
    logit: Tensor | None,
    row_index: Tensor | None,
    dtype: torch.dtype | None,
    shared_input_weight: float | None,
    shared_input_offset: int | None,
    output_bs: int | None,
    group_list_type: int | None,
    tuning_config: Sequence[int] | None,
    x_dtype: int | None,
    w_dtype: int | None,
    scale_dtype: int | None,
    pertoken_scale_dtype: int | None,
) -> FinalizeRoutingPlan:
    """The plan of a call that the documents allow; any other call is refused."""
    rules.refuse_950(
        x_dtype=x_dtype, w_dtype=w_dtype, scale_dtype=scale_dtype, pertoken_scale_dtype=pertoken_scale_dtype
    )
    rules.require(dtype in (None, torch.float32), lambda: f"dtype must be torch.float32, got {dtype}")
    rules.require(group_list_type in (None, 0, 1), lambda: f"group_list_type must be 0 or 1, got {group_list_type}")
    rules.dtype("x", x, (torch.int8,))
    rules.dtype("w", w, (torch.int8, torch.int32))
    rules.rank("x", x, 2)
    rules.rank("w", w, 3)
    rules.not_empty("x", x)
    rules.require(x.size(0) <= _MOST_ROWS, lambda: f"x.size(0) must be at most {_MOST_ROWS}, got {x.size(0)}")
    rules.at_least("w.size(0)", w.size(0), 1)
    rules.require(w.size(0) <= _MOST_EXPERTS, lambda: f"w.size(0) must be at most {_MOST_EXPERTS}, got {w.size(0)}")
    rules.equal("w.size(1)", w.size(1), "x.size(1)", x.size(1))
    width = _check_weight(rules, w, scale, bias, offset)
    indices = (torch.int64,) if w.dtype == torch.int32 else (torch.int64, torch.int32)
    by_row = {"logit": (logit, (torch.float32,)), "row_index": (row_index, indices)}
    if pertoken_scale is not None or w.dtype == torch.int32:
        by_row["pertoken_scale"] = (pertoken_scale, (torch.float32,))
    for name, (tensor, allowed) in by_row.items():
        if tensor is None:
            rules.refuse(f"{name} must be given, got None")
        rules.dtype(name, tensor, allowed)
        rules.shape(name, tensor, (x.size(0),))
    rules.dtype("group_list", group_list, (torch.int64,))
    rules.shape("group_list", group_list, (w.size(0),))
    check_expected_rows(rules, x.size(0), tuning_config)
    tokens = output_bs or x.size(0)
    rules.require((output_bs or 0) >= 0, lambda: f"output_bs must not be negative, got {output_bs}")
    rules.require(tokens <= x.size(0), lambda: f"output_bs must be at most the rows of x, {x.size(0)}, got {output_bs}")
    start = shared_input_offset or 0
    _check_shared(rules, shared_input, start, tokens, width)
    rules.format("x", x, ND)
    if w.dtype == torch.int8:
        rules.format("w", w, NZ, why=" for int8 weights")
    elif rules.format("w", w, ND, NZ) is NZ:
        rules.multiple("n", width, 64, " for int4 weights in FRACTAL_NZ")
    weight = 1.0 if shared_input_weight is None else shared_input_weight
    kind = 1 if group_list_type is None else group_list_type
    return FinalizeRoutingPlan((Result((tokens, width), torch.float32),), weight, start, tokens, kind)


def _check_weight(rules: Rules, w: Tensor, scale: Tensor | None, bias: Tensor | None, offset: Tensor | None) -> Size:
    """Check the parameters of the weights, and return n."""
    int4 = w.dtype == torch.int32
    depth, width = w.size(1), w.size(2) * (INT4.packing if int4 else 1)
    if scale is None:
        rules.refuse("scale must be given, got None")
    if not int4:
        rules.require(depth % 16 == 0, lambda: f"k must be a multiple of 16, got {depth}")
        rules.require(width % 32 == 0, lambda: f"n must be a multiple of 32, got {width}")
        rules.at_least("n", width, 256)
        rules.dtype("scale", scale, (torch.float32,), " for int8 weights")
        rules.shape("scale", scale, (w.size(0), width))
        for name, value in (("bias", bias), ("offset", offset)):
            if value is not None:
                rules.refuse(f"{name} must be None for int8 weights, got a tensor")
        return width
    rules.require(depth % 64 == 0, lambda: f"k must be a multiple of 64 for int4 weights, got {depth}")
    rules.at_least("k", depth, 129)
    rules.require(
        depth <= _DEEPEST_INT4,
        lambda: f"k must be at most {_DEEPEST_INT4} for int4 weights, got {depth}",
        TILING_ERROR,
    )
    rules.at_least("n", width, 65)
    rules.dtype("scale", scale, (torch.int64,), " for int4 weights")
    rules.shape("scale", scale, (w.size(0), 1, width))
    if bias is None:
        rules.refuse("bias must be given for int4 weights, got None")
    rules.dtype("bias", bias, (torch.float32,))
    rules.shape("bias", bias, (w.size(0), width))
    if offset is not None:
        rules.dtype("offset", offset, (torch.float32,))
        rules.shape("offset", offset, (w.size(0), 1, width))
    return width


def _check_shared(rules: Rules, shared: Tensor | None, start: int, tokens: Size, width: Size) -> None:
    rules.require(start >= 0, lambda: f"shared_input_offset must not be negative, got {start}")
    if shared is None:
        return
    rules.dtype("shared_input", shared, (torch.bfloat16,))
    rules.rank("shared_input", shared, 2)
    rules.at_least("shared_input.size(0)", shared.size(0), 1)
    rules.equal("shared_input.size(1)", shared.size(1), "n", width)
    end = start + shared.size(0)
    rules.require(end <= tokens, lambda: f"shared_input must end at token {tokens} at most, got {end}")
