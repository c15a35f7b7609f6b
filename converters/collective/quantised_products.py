"""npu_all_gather_quant_mm and npu_quant_mm_reduce_scatter: one node each.

TorchAir's converters give an int8 result if y_dtype is omitted.
"""

from __future__ import annotations

from graph_quant.converters.lowering import HALVES, lowers
from graph_quant.meta.collective.matmul_rules import MatmulPlan
from torchair._ge_concrete_graph import ge_apis as ge
from torchair.ge._ge_graph import Tensor as GeTensor


@lowers("npu_all_gather_quant_mm")
def lower_all_gather(
    plan: MatmulPlan,
    input: GeTensor,  # noqa: A002  (the schema's name)
    x2: GeTensor,
    hcom: str,
    world_size: int,
    x1_scale: GeTensor | None,
    x2_scale: GeTensor | None,
    gather_output: bool,
) -> tuple[GeTensor, GeTensor, GeTensor]:
    """The product, what was gathered, and nothing."""
    return ge.AllGatherMatmulV2(  # type: ignore[no-any-return]
        input,
        x2,
        bias=None,
        x1_scale=x1_scale,
        x2_scale=x2_scale,
        quant_scale=None,
        group=hcom,
        rank_size=world_size,
        is_gather_out=gather_output,
        y_dtype=HALVES[plan.output].ge_attr,
        comm_mode="aiv",
    )


@lowers("npu_quant_mm_reduce_scatter")
def lower_reduce_scatter(
    plan: MatmulPlan,
    input: GeTensor,  # noqa: A002  (the schema's name)
    x2: GeTensor,
    hcom: str,
    world_size: int,
    bias: GeTensor | None,
    x1_scale: GeTensor | None,
    x2_scale: GeTensor | None,
) -> tuple[GeTensor, GeTensor]:
    """The rows of this rank, and nothing."""
    return ge.MatmulReduceScatterV2(  # type: ignore[no-any-return]
        input,
        x2,
        bias=bias,
        x1_scale=x1_scale,
        x2_scale=x2_scale,
        quant_scale=None,
        group=hcom,
        reduce_op="sum",
        rank_size=world_size,
        y_dtype=HALVES[plan.output].ge_attr,
        comm_mode="aiv",
    )
