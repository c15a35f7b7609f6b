"""npu_grouped_matmul_finalize_routing: the last linear layer of experts, and the sum of its rows for each token.

With t = pertoken_scale * logit, or logit alone, a row becomes ``acc * scale * t``; with int4 weights ``(16 * high + low
+ bias (+ offset * sum(x))) * t``, as in npu_grouped_matmul. In float32, each row is added to the token that row_index
names, which starts as shared_input * shared_input_weight or 0. The device adds in the order in which its cores finish;
here rows are added in their order. Rows of no group add nothing.
"""

from __future__ import annotations

import torch
from graph_quant.ge import CONTRACTION, kernel
from graph_quant.reference.grouping import spans
from graph_quant.reference.matmul.grouped_products import Weight, split_product
from graph_quant.reference.matmul.int8_matmul import int8_matmul
from graph_quant.reference.opaque import opaque
from graph_quant.refusals import Refusal
from torch import Tensor

_OP = "npu_grouped_matmul_finalize_routing"


def _infer(x: Tensor, w: Tensor, *arguments: object) -> Tensor:
    width = w.size(-1) * (8 if w.dtype == torch.int32 else 1)
    return x.new_empty((arguments[-2], width), dtype=torch.float32)  # type: ignore[arg-type]


@opaque(_infer)
def combined_products(
    x: Tensor,
    w: Tensor,
    group_list: Tensor,
    scale: Tensor,
    bias: Tensor | None,
    offset: Tensor | None,
    pertoken_scale: Tensor | None,
    shared_input: Tensor | None,
    logit: Tensor,
    row_index: Tensor,
    shared_weight: float,
    shared_start: int,
    tokens: int,
    list_type: int,
) -> Tensor:
    """The sums of ``tokens`` tokens; the first that shared_input is added to is ``shared_start``."""
    y = _infer(x, w, tokens, 0).zero_()
    if shared_input is not None:
        y[shared_start : shared_start + shared_input.size(0)] = shared_input.float() * shared_weight
    for span in spans(_OP, group_list, list_type, w.size(0), x.size(0)):
        rows, shares = x[span.as_slice], logit[span.as_slice].unsqueeze(-1)
        if pertoken_scale is not None:
            shares = pertoken_scale[span.as_slice].unsqueeze(-1) * shares
        targets = _checked(row_index[span.as_slice], span.start, tokens)
        if bias is None:
            values = int8_matmul(rows, w[span.weight]).float() * scale[span.weight] * shares
        else:
            added = None if offset is None else offset[span.weight]
            values = split_product(rows, Weight(w[span.weight], bias[span.weight], scale[span.weight], added)) * shares
        for row, target in enumerate(targets):
            y[target] += values[row]
    return y


def _checked(row_index: Tensor, start: int, tokens: int) -> list[int]:
    targets: list[int] = row_index.tolist()
    for row, target in enumerate(targets, start):
        if not 0 <= target < tokens:
            raise Refusal(f"{_OP}: row_index[{row}] must lie in [0, {tokens}), the tokens, got {target}")
    return targets


@kernel("GroupedMatmulFinalizeRouting", flops=CONTRACTION, idle=("tuning_config",))
def grouped_matmul_finalize_routing_node(
    x: Tensor,
    w: Tensor,
    scale: Tensor | None = None,
    bias: Tensor | None = None,
    pertoken_scale: Tensor | None = None,
    group_list: Tensor | None = None,
    shared_input: Tensor | None = None,
    logit: Tensor | None = None,
    row_index: Tensor | None = None,
    offset: Tensor | None = None,
    *,
    shared_input_weight: float = 1.0,
    shared_input_offset: int = 0,
    output_bs: int = 0,
    group_list_type: int = 1,
) -> Tensor:
    if scale is None or group_list is None or logit is None or row_index is None:
        raise TypeError("scale, group_list, logit and row_index must be given")
    routed = x, w, group_list, scale, bias, offset, pertoken_scale, shared_input, logit, row_index
    return combined_products(*routed, shared_input_weight, shared_input_offset, output_bs or x.size(0), group_list_type)
