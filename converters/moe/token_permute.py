"""npu_moe_token_permute and npu_moe_token_unpermute become GE nodes that TorchAir has no functions for."""

from __future__ import annotations

from graph_quant.converters.lowering import lowers
from torchair._ge_concrete_graph.compat_ir import ge_op
from torchair.ge import attr
from torchair.ge._ge_graph import Tensor


@lowers("npu_moe_token_permute")
def lower_permute(tokens: Tensor, indices: Tensor, num_out_tokens: int | None) -> tuple[Tensor, ...]:
    """The GE node of one call."""
    results: tuple[Tensor, ...] = ge_op(
        "MoeTokenPermute",
        inputs={"tokens": tokens, "indices": indices},
        attrs={"num_out_tokens": attr.Int(num_out_tokens or 0), "padded_mode": attr.Bool(False)},
        outputs=["permute_tokens", "sorted_indices"],
    )
    return results


@lowers("npu_moe_token_unpermute")
def lower_unpermute(permuted_tokens: Tensor, sorted_indices: Tensor, probs: Tensor | None) -> Tensor:
    """The GE node of one call."""
    inputs = {"permuted_tokens": permuted_tokens, "sorted_indices": sorted_indices}
    result: Tensor = ge_op(
        "MoeTokenUnpermute",
        inputs=inputs if probs is None else {**inputs, "probs": probs},
        attrs={"padded_mode": attr.Bool(False)},
        outputs=["unpermuted_tokens"],
    )
    return result


@lowers("_npu_moe_token_unpermute")
def lower_unpermute_for_autograd(
    permuted_tokens: Tensor, sorted_indices: Tensor, probs: Tensor | None
) -> tuple[Tensor, Tensor]:
    """What a trace sees of npu_moe_token_unpermute: its node, and the rows that a gradient would need."""
    result: Tensor = lower_unpermute(permuted_tokens, sorted_indices, probs)
    return result, permuted_tokens
