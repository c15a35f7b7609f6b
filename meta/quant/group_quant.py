"""npu_group_quant: what may be passed, and what comes back.

x is a matrix (S, H) and scale (E, H) has one row for each of E groups, E at least one. group_index, of length E, holds
the end of each group; offset is a scalar or a vector of one element, of scale's dtype. The result is int8 of x's shape,
or int32 (S, H/8).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from graph_quant.chip import A2_A3_950
from graph_quant.destination import INT4, INT8, Destination
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import FLOATS, Rules
from graph_quant.reference.quant.group_quant import group_quant as reference
from torch import Tensor

INDEX_DTYPES = (torch.int32, torch.int64)


@dataclass(frozen=True)
class GroupQuantPlan(Plan):
    """``destination`` is the dtype of the result and its packing."""

    destination: Destination


@operator("npu_group_quant", reference=reference, chips=A2_A3_950)
def group_quant(
    rules: Rules,
    x: Tensor,
    scale: Tensor,
    group_index: Tensor,
    offset: Tensor | None,
    dst_dtype: torch.dtype | int | None,
) -> GroupQuantPlan:
    """The plan of a call that the documents allow; any other call is refused."""
    rules.dtype("x", x, FLOATS)
    rules.rank("x", x, 2)
    rules.dtype("scale", scale, FLOATS)
    rules.rank("scale", scale, 2)
    rules.at_least("scale.size(0)", scale.size(0), 1)
    rules.equal("scale.size(1)", scale.size(1), "x.size(1)", x.size(1))
    rules.dtype("group_index", group_index, INDEX_DTYPES)
    rules.rank("group_index", group_index, 1)
    rules.equal("group_index.size(0)", group_index.size(0), "scale.size(0)", scale.size(0))
    if offset is not None:
        rules.dtype("offset", offset, (scale.dtype,), why=", the dtype of scale")
        rules.rank("offset", offset, 0, 1)
        rules.require(offset.numel() == 1, lambda: f"offset must have one element, got {list(offset.shape)}")
    destination = rules.destination("dst_dtype", dst_dtype, (INT8, INT4))
    rules.packable("x.size(1)", x.size(1), destination)
    return GroupQuantPlan((Result(destination.stored_shape(x.shape), destination.storage),), destination)
