"""npu_moe_finalize_routing becomes MoeFinalizeRoutingV2.

Upstream uses the first version where all inputs are given and drop_pad_mode is 0; that one has no float32 scales for
bfloat16 rows.
"""

from __future__ import annotations

from graph_quant.converters.lowering import lowers
from torchair._ge_concrete_graph import ge_apis as ge
from torchair.ge._ge_graph import Tensor


@lowers("npu_moe_finalize_routing")
def lower(
    expanded_permuted_rows: Tensor,
    skip1: Tensor | None,
    skip2: Tensor | None,
    bias: Tensor | None,
    scales: Tensor | None,
    expanded_src_to_dst_row: Tensor,
    export_for_source_row: Tensor | None,
    drop_pad_mode: int | None,
    k: int | None,
) -> Tensor:
    """The GE node of one call."""
    return ge.MoeFinalizeRoutingV2(
        expanded_permuted_rows,
        expanded_src_to_dst_row,
        skip1,
        skip2,
        bias,
        scales,
        export_for_source_row,
        drop_pad_mode=drop_pad_mode or 0,
        k=1 if k is None else k,
    )
