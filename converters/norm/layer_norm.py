"""npu_add_layer_norm, npu_deep_norm, npu_layer_norm_eval and npu_group_norm_silu become the nodes of their names.

TorchAir has no converter for the first three; that of the last uses 1e-4 as default of eps, where the schema says
1e-5. npu_layer_norm_eval is LayerNormV3, with ones and zeros where weight and bias are not given.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from graph_quant.converters.lowering import HALVES, PROTO_FLOAT, cast_to, lowers
from graph_quant.ge import TO_DESC
from torchair._ge_concrete_graph import ge_apis as ge
from torchair._ge_concrete_graph.compat_ir import ge_op
from torchair.ge import attr
from torchair.ge._ge_graph import DataType, Tensor


@lowers("npu_add_layer_norm")
def lower_add(
    x1: Tensor, x2: Tensor, gamma: Tensor, beta: Tensor, epsilon: float, additional_output: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The GE nodes of one call; a sum that is not requested is zeros, because the node does not write it."""
    y, mean, rstd, x = ge_op(
        op_type="AddLayerNorm",
        inputs={"x1": x1, "x2": x2, "gamma": gamma, "beta": beta},
        outputs=["y", "mean", "rstd", "x"],
        attrs={"epsilon": attr.Float(epsilon), "additional_output": attr.Bool(additional_output)},
    )
    is_mixed = x1.meta.dtype != x2.meta.dtype
    for result in (y, x):
        result.desc.dtype = PROTO_FLOAT if is_mixed else x1.desc.dtype
    mean.desc.dtype = rstd.desc.dtype = PROTO_FLOAT
    if not additional_output:
        x = ge.ZerosLike(y)
        x.desc.dtype = y.desc.dtype
    return y, mean, rstd, x


@lowers("npu_deep_norm")
def lower_deep(
    x: Tensor, gx: Tensor, beta: Tensor, gamma: Tensor, alpha: float, epsilon: float
) -> tuple[Tensor, Tensor, Tensor]:
    """The GE node of one call."""
    mean, rstd, y = ge_op(
        op_type="DeepNorm",
        inputs={"x": x, "gx": gx, "beta": beta, "gamma": gamma},
        outputs=["mean", "rstd", "y"],
        attrs={"alpha": attr.Float(alpha), "epsilon": attr.Float(epsilon)},
    )
    mean.desc.dtype = rstd.desc.dtype = PROTO_FLOAT
    y.desc.dtype = x.desc.dtype
    return mean, rstd, y


@lowers("npu_layer_norm_eval")
def lower_eval(
    x: Tensor, normalized_shape: Sequence[int], weight: Tensor | None, bias: Tensor | None, eps: float
) -> Tensor:
    """The GE nodes of one call."""
    rows = [
        row if row is not None else _filled(float(value), list(normalized_shape), x.meta.dtype)
        for value, row in ((1, weight), (0, bias))
    ]
    axis = x.rank - len(normalized_shape)
    y, _, _ = ge.LayerNormV3(x, *rows, begin_norm_axis=axis, begin_params_axis=axis, epsilon=eps)
    y.desc.dtype = x.desc.dtype
    return y  # type: ignore[no-any-return]


def _filled(value: float, shape: list[int], dtype: torch.dtype) -> Tensor:
    filled = ge.Fill(shape, ge.Const(value, dtype=DataType.DT_FLOAT))
    filled.desc.dtype = TO_DESC["float32"]
    return cast_to(filled, dtype) if dtype in HALVES else filled


@lowers("npu_group_norm_silu")
def lower_groups(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, group: int, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """The GE node of one call."""
    results: tuple[Tensor, Tensor, Tensor] = ge.GroupNormSilu(x, weight, bias, num_groups=group, eps=eps)
    for result in results:
        result.desc.dtype = x.desc.dtype
    return results
