"""npu_attention_update: merges attention over parts of the keys, each given by its result and log-sum-exp."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from graph_quant.ge import kernel
from torch import Tensor


def attention_update(lse: Sequence[Tensor], local_out: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """The result over all keys and its log-sum-exp, computed in float32 part by part."""
    parts = torch.stack(list(lse))
    largest = parts.amax(0)
    total = largest + (parts - largest).exp().sum(0).log()
    joined = torch.zeros_like(local_out[0], dtype=torch.float32)
    for part, out in zip(lse, local_out, strict=True):
        joined = joined + out.float() * (part - total).exp().unsqueeze(-1)
    return joined.to(local_out[0].dtype), total


@kernel("AttentionUpdate", flops=4)
def attention_update_node(
    lse: Sequence[Tensor],
    go: Sequence[Tensor],
    *,
    update_type: int,  # noqa: ARG001 - the log-sum-exp is returned in both types
    sp: int,  # noqa: ARG001 - the number of parts
) -> tuple[Tensor, Tensor]:
    return attention_update(lse, go)
