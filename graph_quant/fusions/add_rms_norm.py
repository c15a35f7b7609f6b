"""A sum and npu_rms_norm of it become npu_add_rms_norm, whose third result is the sum."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import torch

from .patterns import Alternatives, aten, call, leaf
from .record import Fusion, NotFusedError
from .rewriter import Rewriter, require_rows

if TYPE_CHECKING:
    from torch.fx import Node


def _patterns() -> Alternatives:
    total = call(aten.add.Tensor, leaf("x1"), leaf("x2"))
    return [call(operator.getitem, call(torch.ops.npu.npu_rms_norm.default, total, leaf("weight"), leaf("epsilon")), 0)]


def _rewrite(rewriter: Rewriter, root: Node, leaves: dict[str, Any]) -> bool:
    x1, x2, weight = leaves["x1"], leaves["x2"], leaves["weight"]
    norm = root.args[0]
    total = norm.args[0]  # type: ignore[union-attr]
    if not all(isinstance(term, torch.fx.Node) for term in (x1, x2)):
        raise NotFusedError("a term of the sum is a number")
    for name, term in (("x1", x1), ("x2", x2)):
        if term.meta["val"].shape != total.meta["val"].shape:  # type: ignore[union-attr]
            raise NotFusedError(f"the sum broadcasts {name}")
    require_rows(total)  # type: ignore[arg-type]
    rewriter.require_before(weight, "the weight", total)  # type: ignore[arg-type]
    with rewriter.before(total, root):  # type: ignore[arg-type]
        fused = rewriter.call(torch.ops.npu.npu_add_rms_norm.default, x1, x2, weight, leaves["epsilon"])
        y, new_total = rewriter.result(fused, 0), rewriter.result(fused, 2)
        rewriter.replace(root, y)
        rewriter.replace(total, new_total)  # type: ignore[arg-type]
    return True


FUSION = Fusion(
    "add_rms_norm",
    "npu_add_rms_norm",
    _patterns,
    _rewrite,
    "In half precision the norm reads the sum before it is rounded.",
    2**-7,
)
