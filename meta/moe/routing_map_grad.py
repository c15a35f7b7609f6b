"""The gradients of the operators with a routing map, which torch_npu's autograd calls.

The inputs are the gradients of the results of the forward operator: of its rows and their probabilities, or, for the
inverse, of its tokens. All floating-point tensors have the dtype of the forward call.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from graph_quant.meta.moe.routing_map import (
    check_experts_a_token,
    check_map,
    check_multiple,
    check_probs,
    check_same_shape,
)
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import FLOATS, Rules, Size
from graph_quant.reference.moe import routing_map_grad as reference
from torch import Tensor


@operator("npu_moe_token_permute_with_routing_map_grad", reference=reference.permute_with_routing_map_grad)
def permute_grad(
    rules: Rules,
    permuted_token_out_grad: Tensor | None,
    probs_grad: Tensor | None,
    sorted_indices: Tensor,
    routing_map: Tensor,
    experts_num: int,
    tokens_num: int,
    drop_and_pad: bool,
) -> Plan:
    """The plan of a call that the device allows; any other call is refused."""
    if permuted_token_out_grad is None:
        rules.refuse("permuted_token_out_grad must be given, use the rows as well as the probabilities, got None")
    rules.dtype("permuted_token_out_grad", permuted_token_out_grad, FLOATS)
    rules.rank("permuted_token_out_grad", permuted_token_out_grad, 2)
    rows, width = permuted_token_out_grad.shape
    _check_index(rules, "sorted_indices", sorted_indices)
    rules.equal("sorted_indices.size(0)", sorted_indices.size(0), "permuted_token_out_grad.size(0)", rows)
    check_map(rules, routing_map)
    rules.equal("routing_map.size(0)", routing_map.size(0), "tokens_num", tokens_num)
    rules.equal("routing_map.size(1)", routing_map.size(1), "experts_num", experts_num)
    name, size = ("experts_num", experts_num) if drop_and_pad else ("tokens_num", tokens_num)
    check_multiple(rules, "permuted_token_out_grad.size(0)", rows, name, size)
    if not drop_and_pad:
        check_experts_a_token(rules, "permuted_token_out_grad.size(0) // tokens_num", rows // tokens_num)
    weights = None
    if probs_grad is not None:
        dtype = permuted_token_out_grad.dtype
        rules.dtype("probs_grad", probs_grad, (dtype,), ", the dtype of permuted_token_out_grad")
        rules.rank("probs_grad", probs_grad, 1)
        rules.equal("probs_grad.size(0)", probs_grad.size(0), "permuted_token_out_grad.size(0)", rows)
        weights = Result((tokens_num, experts_num), dtype)
    return Plan((Result((tokens_num, width), permuted_token_out_grad.dtype), weights))


@operator("npu_moe_token_unpermute_with_routing_map_grad", reference=reference.unpermute_with_routing_map_grad)
def unpermute_grad(
    rules: Rules,
    unpermuted_tokens_grad: Tensor,
    out_index: Tensor,
    permuted_token_id: Tensor,
    routing_map: Tensor | None,
    permuted_tokens: Tensor | None,
    probs: Tensor | None,
    drop_and_pad: bool,
    restore_shape: Sequence[int],  # noqa: ARG001
) -> Plan:
    """The plan of a call that the device allows; any other call is refused."""
    rules.dtype("unpermuted_tokens_grad", unpermuted_tokens_grad, FLOATS)
    rules.rank("unpermuted_tokens_grad", unpermuted_tokens_grad, 2)
    rules.not_empty("unpermuted_tokens_grad", unpermuted_tokens_grad)
    (tokens, width), dtype = unpermuted_tokens_grad.shape, unpermuted_tokens_grad.dtype
    for name, index in (("out_index", out_index), ("permuted_token_id", permuted_token_id)):
        _check_index(rules, name, index)
    pairs = out_index.size(0)
    rules.equal("permuted_token_id.size(0)", permuted_token_id.size(0), "out_index.size(0)", pairs)
    if routing_map is not None:
        check_map(rules, routing_map)
    if probs is not None:
        _check_weighted(rules, unpermuted_tokens_grad, pairs, routing_map, permuted_tokens, probs, drop_and_pad)
    if not drop_and_pad:
        check_multiple(rules, "out_index.size(0)", pairs, "unpermuted_tokens_grad.size(0)", tokens)
        check_experts_a_token(rules, "out_index.size(0) // unpermuted_tokens_grad.size(0)", pairs // tokens)
    weights = None if probs is None else Result(tuple(probs.shape), dtype)
    return Plan((Result((pairs, width), dtype), weights))


def _check_weighted(
    rules: Rules,
    grad: Tensor,
    pairs: Size,
    routing_map: Tensor | None,
    permuted_tokens: Tensor | None,
    probs: Tensor,
    drop_and_pad: bool,
) -> None:
    check_probs(rules, probs, "unpermuted_tokens_grad", grad)
    rules.equal("probs.size(0)", probs.size(0), "unpermuted_tokens_grad.size(0)", grad.size(0))
    if permuted_tokens is None:
        rules.refuse("permuted_tokens must be given with probs, got None")
    rules.dtype("permuted_tokens", permuted_tokens, (grad.dtype,), ", the dtype of unpermuted_tokens_grad")
    rules.rank("permuted_tokens", permuted_tokens, 2)
    rules.equal("permuted_tokens.size(0)", permuted_tokens.size(0), "out_index.size(0)", pairs)
    rules.equal("permuted_tokens.size(1)", permuted_tokens.size(1), "unpermuted_tokens_grad.size(1)", grad.size(1))
    if drop_and_pad:
        check_multiple(rules, "out_index.size(0)", pairs, "probs.size(1)", probs.size(1))
    elif routing_map is None:
        rules.refuse("routing_map must be given with probs, unless drop_and_pad, got None")
    else:
        check_same_shape(rules, routing_map, probs)


def _check_index(rules: Rules, name: str, index: Tensor) -> None:
    rules.dtype(name, index, (torch.int32,))
    rules.rank(name, index, 1)
