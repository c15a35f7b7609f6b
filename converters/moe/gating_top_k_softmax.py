"""npu_moe_gating_top_k_softmax_v2 becomes MoeGatingTopKSoftmaxV2.

Upstream passes the new arguments to the node of the first version, which does not support them.
"""

from __future__ import annotations

from graph_quant.converters.lowering import lowers
from torchair._ge_concrete_graph import ge_apis as ge
from torchair.ge._ge_graph import Tensor


@lowers("npu_moe_gating_top_k_softmax_v2")
def lower(
    x: Tensor, k: int, finished: Tensor | None, renorm: int | None, output_softmax: bool | None
) -> tuple[Tensor, ...]:
    """The GE node of one call."""
    # TorchAir's wrapper asks for two positional inputs of a function that takes one, so that no call passes it.
    results: tuple[Tensor, ...] = ge.MoeGatingTopKSoftmaxV2.__wrapped__(
        x, finished=finished, k=k, renorm=renorm or 0, output_softmax=bool(output_softmax) and not renorm
    )
    return results
