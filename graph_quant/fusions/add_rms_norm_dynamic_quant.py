"""npu_add_rms_norm and npu_dynamic_quant of its result become npu_add_rms_norm_dynamic_quant.

The result in floating point must have no other reader: the fused operator does not return it. Rows are flattened, as
quantised linears read them, so that the reshapes between layers cancel.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import torch

from .common_dynamic_quant import VIEW
from .patterns import Alternatives, aten, call, leaf
from .record import Fusion, NotFusedError
from .rewriter import Rewriter, describe_readers, readers, require_rows

if TYPE_CHECKING:
    from torch.fx import Node


def _patterns() -> Alternatives:
    norm = call(torch.ops.npu.npu_add_rms_norm.default, leaf("x1"), leaf("x2"), leaf("weight"), leaf("epsilon"))
    y = call(operator.getitem, norm, 0)
    return [
        call(torch.ops.npu.npu_dynamic_quant.default, rows, **options)
        for rows in (y, call(aten.view.default, y, leaf("shape")))
        for options in ({"smooth_scales": leaf("smooth_scales")}, {})
    ]


def _rewrite(rewriter: Rewriter, root: Node, leaves: dict[str, Any]) -> bool:
    rows: Any = root.args[0]
    y: Any = rows.args[0] if rows.target is VIEW else rows
    norm = y.args[0]
    require_rows(y)
    options = {name: value for name, value in root.kwargs.items() if value is not None}
    if set(options) - {"smooth_scales"}:
        raise NotFusedError(f"npu_dynamic_quant has {', '.join(sorted(set(options) - {'smooth_scales'}))}")
    if rows is not y and rows.meta["val"].size(-1) != y.meta["val"].size(-1):
        raise NotFusedError("the quantised rows are not those of the norm")
    others = [node for node in readers(y) if node not in (root, rows)] + [
        node for node in readers(rows) if rows is not y and node is not root
    ]
    if others:
        raise NotFusedError(f"the norm's result is also read by {describe_readers(others)}")
    scales = options.get("smooth_scales")
    if scales is not None:
        rewriter.require_before(scales, "smooth_scales", norm)  # type: ignore[arg-type]
    results = {node.args[1]: node for node in readers(norm)}
    is_flat = rows.meta["val"].dim() == 2
    with rewriter.before(norm, root):
        x1, x2 = (rewriter.flatten_rows(leaves[name]) if is_flat else leaves[name] for name in ("x1", "x2"))
        fused = rewriter.call(
            torch.ops.npu.npu_add_rms_norm_dynamic_quant.default,
            x1,
            x2,
            leaves["weight"],
            smooth_scale1=scales,
            epsilon=leaves["epsilon"],
            output_mask=[True, False],
        )
        values, total, row_scales = (rewriter.result(fused, index) for index in (0, 2, 3))
        if 1 in results and readers(results[1]):
            raise NotFusedError("the root mean square of the norm is also read")
        total = rewriter.view_like(total, leaves["x1"])
        outputs = [rewriter.view_like(values, rows), rewriter.view_like(row_scales, rows, rows.meta["val"].dim() - 1)]
        if 2 in results:
            rewriter.replace(results[2], total)
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
