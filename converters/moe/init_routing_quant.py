"""npu_moe_init_routing_quant becomes MoeInitRoutingQuantV2, for which TorchAir has no function."""

from __future__ import annotations

from graph_quant.converters.lowering import lowers
from graph_quant.ge.dtypes import TO_DESC
from graph_quant.meta.operator import Plan
from torchair._ge_concrete_graph.compat_ir import ge_op
from torchair.ge import attr
from torchair.ge._ge_graph import Tensor

_OUTPUTS = {
    "expanded_x": "int8",
    "expanded_row_idx": "int32",
    "expert_tokens_count_or_cumsum": "int32",
    "expert_tokens_before_capacity": "int32",
    "dynamic_quant_scale": "float32",
}


@lowers("npu_moe_init_routing_quant")
def lower(
    plan: Plan,
    x: Tensor,
    expert_idx: Tensor,
    scale: Tensor | None,
    offset: Tensor | None,
    active_num: int,
    expert_capacity: int,
    expert_num: int,
    drop_pad_mode: int,
    expert_tokens_num_mode: int,
    expert_tokens_before_capacity_flag: bool,
    quant_mode: int,
) -> tuple[Tensor | None, ...]:
    """The GE node of one call."""
    results = ge_op(
        op_type="MoeInitRoutingQuantV2",
        inputs={"x": x, "expert_idx": expert_idx, "scale": scale, "offset": offset},
        outputs=list(_OUTPUTS),
        attrs={
            "active_num": attr.Int(active_num),
            "expert_capacity": attr.Int(expert_capacity),
            "expert_num": attr.Int(expert_num),
            "drop_pad_mode": attr.Int(drop_pad_mode),
            "expert_tokens_count_or_cumsum_flag": attr.Int(expert_tokens_num_mode),
            "expert_tokens_before_capacity_flag": attr.Bool(expert_tokens_before_capacity_flag),
            "quant_mode": attr.Int(quant_mode),
        },
    )
    for result, dtype in zip(results, _OUTPUTS.values(), strict=True):
        result.desc.dtype = TO_DESC[dtype]
    return tuple(None if asked is None else result for asked, result in zip(plan.results, results, strict=True))
