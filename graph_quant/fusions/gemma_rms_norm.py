"""npu_rms_norm with the weight ``1 + w``, as Gemma has it, becomes npu_gemma_rms_norm, which adds the 1 itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from .patterns import Alternatives, aten, call, leaf
from .record import Fusion
from .rewriter import Rewriter

if TYPE_CHECKING:
    from torch.fx import Node


def _patterns() -> Alternatives:
    weights = [call(aten._to_copy.default, leaf("weight"), dtype=torch.float32), leaf("weight")]
    return [
        call(torch.ops.npu.npu_rms_norm.default, leaf("x"), call(aten.add.Tensor, weight, 1.0), leaf("epsilon"))
        for weight in weights
    ]


def _rewrite(rewriter: Rewriter, root: Node, leaves: dict[str, Any]) -> bool:
    x, weight = leaves["x"], leaves["weight"]
    if root.args[1].meta["val"].dtype != torch.float32:  # type: ignore[union-attr]
        return False  # 1 + w is rounded to half precision
    with rewriter.before(root, root):
        norm = rewriter.call(torch.ops.npu.npu_gemma_rms_norm.default, x, weight, leaves["epsilon"])
        rewriter.replace_results(root, norm)
    return True


FUSION = Fusion(
    "gemma_rms_norm",
    "npu_gemma_rms_norm",
    _patterns,
    _rewrite,
    "The same as npu_rms_norm: 1 is added in float32.",
    2**-7,
)
