"""npu_dynamic_mx_quant becomes DynamicMxQuant.

Float4 results are packed by a Bitcast. TorchAir's converter leaves the desc of the Reshape before it FLOAT, and divides
run-time shapes; here every desc has its dtype.
"""

from __future__ import annotations

from graph_quant.converters.lowering import lowers
from graph_quant.ge import TO_ATTRIBUTE, TO_DESC
from graph_quant.narrow_floats import NarrowFloat
from graph_quant.reference.quant.mx_blocks import MxRule
from torchair._ge_concrete_graph import ge_apis as ge
from torchair.ge._ge_graph import Tensor


@lowers("npu_dynamic_mx_quant")
def lower(input: Tensor, axis: int, rule: MxRule) -> tuple[Tensor, Tensor]:  # noqa: A002
    """The GE nodes of one call."""
    y, mxscale = ge.DynamicMxQuant(
        input,
        axis=axis,
        round_mode=rule.round_mode,
        dst_type=TO_ATTRIBUTE[rule.target.name],
        block_size=rule.block_size,
        scale_alg=rule.scale_alg,
        dst_type_max=rule.dst_type_max,
        max_low_bound=rule.max_low_bound,
    )
    mxscale.desc.dtype = TO_DESC["float8_e8m0"]
    return stored_values(y, rule.target, input.rank), in_bytes(mxscale)


def stored_values(y: Tensor, target: NarrowFloat, rank: int) -> Tensor:
    """A quantised GE tensor as torch stores it: float8 unchanged, two float4 in a uint8."""
    y.desc.dtype = TO_DESC[target.name]
    if target.dtype is not None:
        return y
    # 0 copies a dimension of the input and -1 is inferred, so that one constant works for every shape.
    pairs = ge.Reshape(y, [*[0] * (rank - 1), -1, 2])
    pairs.desc.dtype = TO_DESC[target.name]
    return in_bytes(pairs)


def in_bytes(x: Tensor) -> Tensor:
    """The bits of ``x`` as uint8, two float4 of a last dimension in each."""
    stored = ge.Bitcast(x, type=TO_ATTRIBUTE["uint8"])
    stored.desc.dtype = TO_DESC["uint8"]
    return stored
