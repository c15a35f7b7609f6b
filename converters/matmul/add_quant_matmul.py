"""npu_add_quant_matmul becomes QuantBatchMatmulInplaceAdd, on a copy unless it is the in-place form, as in TorchAir.

Bytes become their dtype by a Bitcast, and group sizes that the call leaves out are those of MX.
"""

from __future__ import annotations

from graph_quant.converters.lowering import PROTO_FLOAT, lowers
from graph_quant.converters.narrow import E8M0, viewed_as
from graph_quant.meta.matmul.add_quant_matmul import AddQuantPlan
from torchair._ge_concrete_graph import ge_apis as ge
from torchair.ge._ge_graph import Tensor, dont_prune_me

_RANK, _CODES_RANK = 2, 3


@lowers("npu_add_quant_matmul")
def lower(plan: AddQuantPlan, summed: Tensor, x1: Tensor, x2: Tensor, x2_scale: Tensor, x1_scale: Tensor) -> Tensor:
    """The GE nodes of a call that leaves self as it is."""
    return _added(plan, ge.TensorMove(summed), x1, x2, x2_scale, x1_scale)


@lowers("npu_add_quant_matmul_")
def lower_in_place(
    plan: AddQuantPlan, summed: Tensor, x1: Tensor, x2: Tensor, x2_scale: Tensor, x1_scale: Tensor
) -> Tensor:
    """The GE node of one call, kept though nothing may read its result."""
    y = _added(plan, summed, x1, x2, x2_scale, x1_scale)
    dont_prune_me(y)
    return y


def _added(plan: AddQuantPlan, summed: Tensor, x1: Tensor, x2: Tensor, x2_scale: Tensor, x1_scale: Tensor) -> Tensor:
    if plan.group_size:
        x1_scale, x2_scale = (viewed_as(scale, E8M0, _CODES_RANK) for scale in (x1_scale, x2_scale))
    y: Tensor = ge.QuantBatchMatmulInplaceAdd(
        viewed_as(x1, plan.x1_name, _RANK),
        viewed_as(x2, plan.x2_name, _RANK),
        x2_scale,
        summed,
        x1_scale,
        transpose_x1=False,
        transpose_x2=False,
        group_size=plan.group_size,
    )
    y.desc.dtype = PROTO_FLOAT
    return y
