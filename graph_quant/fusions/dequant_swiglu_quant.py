"""npu_quant_matmul, npu_swiglu and npu_dynamic_quant become an int32 product and npu_dequant_swiglu_quant."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from .patterns import Alternatives, aten, call, leaf
from .record import Fusion, NotFusedError
from .rewriter import Rewriter, describe_readers, readers

if TYPE_CHECKING:
    from torch.fx import Node

_PRODUCT = torch.ops.npu.npu_quant_matmul.default


def _patterns() -> Alternatives:
    product = call(_PRODUCT, leaf("x1"), leaf("x2"), leaf("scale"), pertoken_scale=leaf("pertoken_scale"))
    gated = [call(torch.ops.npu.npu_swiglu.default, product, *dim) for dim in ([-1], [])]
    return [call(torch.ops.npu.npu_dynamic_quant.default, rows) for rows in gated]


def _rewrite(rewriter: Rewriter, root: Node, leaves: dict[str, Any]) -> bool:
    gated: Any = root.args[0]
    product = gated.args[0]
    options: dict[str, Any] = {name: value for name, value in root.kwargs.items() if value is not None}
    if set(options) - {"smooth_scales"}:
        raise NotFusedError(f"npu_dynamic_quant has {', '.join(sorted(set(options) - {'smooth_scales'}))}")
    if set(product.kwargs) - {"pertoken_scale", "output_dtype", "bias"}:
        raise NotFusedError(f"npu_quant_matmul has {', '.join(sorted(set(product.kwargs)))}")
    if leaves["scale"].meta["val"].dtype != torch.float32:
        raise NotFusedError(f"the scales of the weight are {leaves['scale'].meta['val'].dtype}, not torch.float32")
    others = [node for node in readers(gated) if node is not root] + [n for n in readers(product) if n is not gated]
    if others:
        raise NotFusedError(f"the product or the gated rows are also read by {describe_readers(others)}")
    smooth = options.get("smooth_scales")
    with rewriter.before(root, root):
        if smooth is not None and smooth.meta["val"].dtype != torch.float32:
            smooth = rewriter.call(aten._to_copy.default, smooth, dtype=torch.float32)
        integers = rewriter.call(_PRODUCT, leaves["x1"], leaves["x2"], leaves["scale"], output_dtype=torch.int32)
        fused = rewriter.call(
            torch.ops.npu.npu_dequant_swiglu_quant.default,
            integers,
            weight_scale=leaves["scale"],
            activation_scale=leaves["pertoken_scale"],
            bias=product.kwargs.get("bias"),
            quant_scale=smooth,
            activate_left=True,
            quant_mode=1,
        )
        rewriter.replace_results(root, fused)
    return True


FUSION = Fusion(
    "dequant_swiglu_quant",
    "npu_dequant_swiglu_quant",
    _patterns,
    _rewrite,
    "Neither the product nor the gated rows are rounded to half precision.",
    2**-6,
)
