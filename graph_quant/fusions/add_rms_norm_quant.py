"""npu_add_rms_norm and npu_quantize of its result become npu_add_rms_norm_quant.

The result in floating point must have no other reader, as for ``add_rms_norm_dynamic_quant``. The operator reads a
scale for each channel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from .common_quantize import quantize_patterns
from .patterns import Alternatives, aten
from .quantised_norm import QuantisedNorm, normed_rows
from .record import Fusion, NotFusedError
from .rewriter import Rewriter

if TYPE_CHECKING:
    from torch.fx import Node


def _patterns() -> Alternatives:
    return [pattern for rows in normed_rows() for pattern in quantize_patterns(rows)]


def _rewrite(rewriter: Rewriter, root: Node, leaves: dict[str, Any]) -> bool:
    match = QuantisedNorm.before(root)
    scales, zero_points = leaves["scales"], leaves["zero_points"]
    rank, channels = match.rows.meta["val"].dim(), match.y.meta["val"].size(-1)
    if leaves.get("axis", 1) % rank != rank - 1:
        raise NotFusedError(f"npu_quantize has a scale for each index of dimension {leaves.get('axis', 1)}")
    if scales.meta["val"].numel() != channels:
        raise NotFusedError("npu_quantize has one scale: graph_quant.nn.merge_linears_ stores one for each channel")
    for name in ("scales", "zero_points"):
        if isinstance(leaves[name], torch.fx.Node):
            rewriter.require_before(leaves[name], name, match.norm)
    with rewriter.before(match.norm, root):
        if zero_points is not None and match.y.meta["val"].dtype == torch.float16:
            zero_points = rewriter.call(aten._to_copy.default, zero_points, dtype=torch.int32)
        fused = rewriter.call(
            torch.ops.npu.npu_add_rms_norm_quant.default,
            *match.terms(rewriter),
            leaves["weight"],
            scales,
            zero_points,
            epsilon=leaves["epsilon"],
            div_mode=leaves.get("div_mode", True),
            dst_type=leaves["dtype"],
        )
        values, total = rewriter.result(fused, 0), rewriter.result(fused, 2)
        result = rewriter.view_like(values, match.rows)
        match.replace_total(rewriter, total)
        rewriter.replace(root, result)
    return True


FUSION = Fusion(
    "add_rms_norm_quant",
    "npu_add_rms_norm_quant",
    _patterns,
    _rewrite,
    "The norm's result is not rounded to half precision before it is quantised.",
    2**-6,
)
