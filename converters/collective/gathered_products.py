"""npu_all_gather_base_mm and npu_mm_reduce_scatter_base: one node each, which takes no scales."""

from __future__ import annotations

from graph_quant.converters.lowering import lowers
from graph_quant.meta.rules import Refusal
from torchair._ge_concrete_graph import ge_apis as ge
from torchair.ge._ge_graph import Tensor as GeTensor


def _check(op: str, instead: str, comm_mode: str | None, x2_scale: GeTensor | None) -> None:
    if x2_scale is not None or comm_mode == "aiv":
        what = "scales" if x2_scale is not None else 'comm_mode "aiv"'
        raise Refusal(f"{op}: {what} must be left out in graphs, got one; {instead} is for graphs")


@lowers("npu_all_gather_base_mm")
def lower_all_gather(
    input: GeTensor,  # noqa: A002  (the schema's name)
    x2: GeTensor,
    hcom: str,
    world_size: int,
    bias: GeTensor | None,
    x2_scale: GeTensor | None,
    gather_output: bool,
    comm_mode: str | None,
) -> tuple[GeTensor, GeTensor]:
    """The product and what was gathered."""
    _check("npu_all_gather_base_mm", "npu_all_gather_quant_mm", comm_mode, x2_scale)
    return ge.AllGatherMatmul(input, x2, bias=bias, group=hcom, rank_size=world_size, is_gather_out=gather_output)  # type: ignore[no-any-return]


@lowers("npu_mm_reduce_scatter_base")
def lower_reduce_scatter(
    input: GeTensor,  # noqa: A002  (the schema's name)
    x2: GeTensor,
    hcom: str,
    world_size: int,
    reduce_op: str,
    bias: GeTensor | None,
    x2_scale: GeTensor | None,
    comm_mode: str | None,
) -> GeTensor:
    """The rows of this rank."""
    _check("npu_mm_reduce_scatter_base", "npu_quant_mm_reduce_scatter", comm_mode, x2_scale)
    return ge.MatmulReduceScatter(input, x2, bias=bias, group=hcom, reduce_op=reduce_op, rank_size=world_size)  # type: ignore[no-any-return]
