"""npu_chunk_gated_delta_rule becomes ChunkGatedDeltaRule, of which TorchAir ships no registration."""

from __future__ import annotations

from graph_quant.converters.lowering import lowers
from torchair._ge_concrete_graph.compat_ir import ge_op
from torchair.ge import attr
from torchair.ge._ge_graph import Tensor


@lowers("npu_chunk_gated_delta_rule")
def lower(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    beta: Tensor,
    initial_state: Tensor,
    actual_seq_lengths: Tensor,
    scale: float,
    g: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """The GE node of one call."""
    out, final_state = ge_op(
        op_type="ChunkGatedDeltaRule",
        inputs={
            "query": query,
            "key": key,
            "value": value,
            "beta": beta,
            "initial_state": initial_state,
            "actual_seq_lengths": actual_seq_lengths,
            "g": g,
        },
        outputs=["out", "final_state"],
        attrs={"scale_value": attr.Float(scale)},
    )
    return out, final_state
