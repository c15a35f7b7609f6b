"""npu_add_rms_norm and npu_dynamic_quant of its result become npu_add_rms_norm_dynamic_quant.

The result in floating point must have no other reader: the fused operator does not return it. Rows are flattened, as
quantised linears read them, so that the reshapes between layers cancel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from .patterns import Alternatives, call, leaf
from .quantised_norm import QuantisedNorm, normed_rows
from .record import Fusion, NotFusedError
from .rewriter import Rewriter, readers

if TYPE_CHECKING:
    from torch.fx import Node


def _patterns() -> Alternatives:
    return [
        call(torch.ops.npu.npu_dynamic_quant.default, rows, **options)
        for rows in normed_rows()
        for options in ({"smooth_scales": leaf("smooth_scales")}, {})
    ]


def _rewrite(rewriter: Rewriter, root: Node, leaves: dict[str, Any]) -> bool:
    options = {name: value for name, value in root.kwargs.items() if value is not None}
    if set(options) - {"smooth_scales"}:
        raise NotFusedError(f"npu_dynamic_quant has {', '.join(sorted(set(options) - {'smooth_scales'}))}")
    match = QuantisedNorm.before(root)
    scales = options.get("smooth_scales")
    if scales is not None:
        rewriter.require_before(scales, "smooth_scales", match.norm)  # type: ignore[arg-type]
    with rewriter.before(match.norm, root):
        fused = rewriter.call(
            torch.ops.npu.npu_add_rms_norm_dynamic_quant.default,
            *match.terms(rewriter),
            leaves["weight"],
            smooth_scale1=scales,
            epsilon=leaves["epsilon"],
            output_mask=[True, False],
        )
        values, total, row_scales = (rewriter.result(fused, index) for index in (0, 2, 3))
        rows = match.rows
        outputs = [rewriter.view_like(values, rows), rewriter.view_like(row_scales, rows, rows.meta["val"].dim() - 1)]
        match.replace_total(rewriter, total)
        for node in readers(root):
            rewriter.replace(node, outputs[int(node.args[1])])  # type: ignore[arg-type]
    return True


FUSION = Fusion(
    "add_rms_norm_dynamic_quant",
    "npu_add_rms_norm_dynamic_quant",
    _patterns,
    _rewrite,
    "The norm's result is not rounded to half precision before it is quantised.",
    2**-6,
)
