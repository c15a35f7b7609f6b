"""npu_moe_init_routing_quant becomes MoeInitRoutingQuantV2, for which TorchAir has no function."""

from __future__ import annotations

from typing import Any

from graph_quant.converters.lowering import lowers
from graph_quant.ge import TO_DESC
from graph_quant.meta.operator import Plan
from torchair._ge_concrete_graph.compat_ir import ge_op
from torchair.ge import attr
from torchair.ge._ge_graph import Tensor

_INPUTS = ("x", "expert_idx", "scale", "offset")
_OUTPUTS = {
    "expanded_x": "int8",
    "expanded_row_idx": "int32",
    "expert_tokens_count_or_cumsum": "int32",
    "expert_tokens_before_capacity": "int32",
    "dynamic_quant_scale": "float32",
}


@lowers("npu_moe_init_routing_quant")
def lower(
    plan: Plan, expert_tokens_num_mode: int, expert_tokens_before_capacity_flag: bool, **others: Any
) -> tuple[Tensor | None, ...]:
    """The GE node of one call."""
    results = ge_op(
        op_type="MoeInitRoutingQuantV2",
        inputs={name: others.pop(name) for name in _INPUTS},
        outputs=list(_OUTPUTS),
        attrs={
            **{name: attr.Int(number) for name, number in others.items()},
            "expert_tokens_count_or_cumsum_flag": attr.Int(expert_tokens_num_mode),
            "expert_tokens_before_capacity_flag": attr.Bool(expert_tokens_before_capacity_flag),
        },
    )
    for result, dtype in zip(results, _OUTPUTS.values(), strict=True):
        result.desc.dtype = TO_DESC[dtype]
    return tuple(None if requested is None else result for requested, result in zip(plan.results, results, strict=True))
