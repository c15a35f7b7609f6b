"""npu_quant_conv2d becomes QuantConv2D, whose ``dtype`` is a number of GE's types: TorchAir sends that of descs."""

from __future__ import annotations

from collections.abc import Sequence

from graph_quant.converters.lowering import lowers
from graph_quant.converters.matmul.quant_matmul import as_packed
from graph_quant.destination import FLOAT16
from torchair._ge_concrete_graph import ge_apis as ge
from torchair.ge._ge_graph import Tensor


@lowers("npu_quant_conv2d")
def lower(
    input: Tensor,  # noqa: A002
    weight: Tensor,
    scale: Tensor,
    strides: Sequence[int],
    pads: Sequence[int],
    dilations: Sequence[int],
    groups: int,
    offset_x: int,
    round_mode: str,
    bias: Tensor | None,
) -> Tensor:
    """The GE node of one call."""
    y = ge.QuantConv2D(
        input,
        weight,
        as_packed(scale),
        bias,
        None,
        dtype=FLOAT16.ge_attr,
        strides=[1, 1, *strides],
        pads=[pads[0], pads[0], pads[1], pads[1]],
        dilations=[1, 1, *dilations],
        groups=groups,
        data_format="NCHW",
        offset_x=offset_x,
        round_mode=round_mode,
    )
    y.desc.dtype = FLOAT16.ge_desc
    return y
