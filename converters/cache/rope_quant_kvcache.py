"""npu_rope_quant_kvcache and npu_dequant_rope_quant_kvcache become DequantRopeQuantKvcache, with cache_mode set."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graph_quant.converters.lowering import lowers
from graph_quant.ge import TO_DESC
from torchair._ge_concrete_graph.compat_ir import ge_op
from torchair.ge import attr
from torchair.ge._ge_graph import Tensor


@lowers("npu_dequant_rope_quant_kvcache")
def lower_dequant(
    x: Tensor,
    cos: Tensor,
    sin: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    indices: Tensor,
    scale_k: Tensor,
    scale_v: Tensor,
    size_splits: Sequence[int],
    offset_k: Tensor | None,
    offset_v: Tensor | None,
    weight_scale: Tensor | None,
    activation_scale: Tensor | None,
    bias: Tensor | None,
    kv_output: bool,
    cache_mode: str,
    **_: Any,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """The GE node of one call."""
    q, k, v, k_out, v_out = ge_op(
        op_type="DequantRopeQuantKvcache",
        inputs={
            "x": x,
            "cos": cos,
            "sin": sin,
            "k_cache": k_cache,
            "v_cache": v_cache,
            "indices": indices,
            "scale_k": scale_k,
            "scale_v": scale_v,
            "offset_k": offset_k,
            "offset_v": offset_v,
            "weight_scale": weight_scale,
            "activation_scale": activation_scale,
            "bias": bias,
        },
        outputs=["q", "k", "v", "k_cache", "v_cache"],
        attrs={
            "size_splits": attr.ListInt(list(size_splits)),
            "quant_mode": attr.Str("static"),
            "layout": attr.Str("BSND"),
            "kv_output": attr.Bool(kv_output),
            "cache_mode": attr.Str(cache_mode),
        },
    )
    for tensor in (q, k, v):
        tensor.desc.dtype = cos.desc.dtype
    k_out.desc.dtype = v_out.desc.dtype = TO_DESC["int8"]
    return q, k, v, k_out, v_out


@lowers("npu_rope_quant_kvcache")
def lower(**arguments: Any) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """The same node, without dequantisation."""
    return lower_dequant(**arguments, weight_scale=None, activation_scale=None, bias=None)  # type: ignore[no-any-return]
