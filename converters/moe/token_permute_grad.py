"""Gradients of permuted tokens in graphs: that of the tokens is a GE node, that of the rows is decomposed.

GE infers from MoeTokenUnpermuteGrad a row for each pair, which is wrong where rows were dropped.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from graph_quant.converters.decompositions import decomposes
from graph_quant.converters.lowering import by_name, lowers
from graph_quant.reference.moe.routing_map_grad import of_rows, of_tokens
from graph_quant.reference.moe.token_permute_grad import gradients
from torch import Tensor
from torchair._ge_concrete_graph.compat_ir import ge_op
from torchair.ge import attr
from torchair.ge._ge_graph import Tensor as GeTensor

npu = torch.ops.npu


@lowers("npu_moe_token_permute_grad_v2")
def lower_v2(grad_permuted_tokens: GeTensor, sorted_indices: GeTensor, experts_a_token: int) -> GeTensor:
    """The GE node of one call."""
    result: GeTensor = ge_op(
        "MoeTokenPermuteGrad",
        inputs={"permuted_output_grad": grad_permuted_tokens, "sorted_indices": sorted_indices},
        attrs={"num_topk": attr.Int(experts_a_token), "padded_mode": attr.Bool(False)},
        outputs=["input_grad"],
    )
    return result


@lowers("npu_moe_token_permute_grad")
def lower(grad_permuted_tokens: GeTensor, sorted_indices: GeTensor, experts_a_token: int) -> GeTensor:
    """The GE node of one call."""
    result: GeTensor = lower_v2(grad_permuted_tokens, sorted_indices, experts_a_token)
    return result


def permute_with_routing_map_grad(
    permuted_token_out_grad: Tensor,
    probs_grad: Tensor | None,
    sorted_indices: Tensor,
    routing_map: Tensor,
    drop_and_pad: bool,
) -> tuple[Tensor, Tensor | None]:
    """The decomposition of one call."""
    return of_tokens(permuted_token_out_grad, probs_grad, sorted_indices, routing_map, drop_and_pad, _summed_by_node)


def _summed_by_node(rows: Tensor, position_of: Tensor) -> Tensor:
    tokens, experts_a_token = position_of.shape
    result: Tensor = npu.npu_moe_token_permute_grad_v2.default(
        rows, position_of.reshape(-1), tokens, rows.dtype, experts_a_token
    )
    return result


_BROKEN_UP: dict[str, Callable[..., Any]] = {
    "npu_moe_token_unpermute_grad": gradients,
    "npu_moe_token_unpermute_grad_v2": gradients,
    "npu_moe_token_permute_with_routing_map_grad": permute_with_routing_map_grad,
    "npu_moe_token_unpermute_with_routing_map_grad": of_rows,
}
for operator, function in _BROKEN_UP.items():
    decomposes(f"npu::{operator}")(by_name(operator, function))
