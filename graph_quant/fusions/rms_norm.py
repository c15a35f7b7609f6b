"""``x * rsqrt(mean(x * x) + epsilon) * weight`` becomes npu_rms_norm.

The forms of transformers, vLLM and the recipes: with casts to float32 and back or without, the product with the weight
before or after the cast back, operands in any order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from .patterns import Alternatives, aten, call, either, leaf, through
from .record import Fusion, NotFusedError
from .rewriter import Rewriter

if TYPE_CHECKING:
    from torch.fx import Node

_FLOATS = (torch.float16, torch.bfloat16, torch.float32)


def _normalised(x: Any) -> Alternatives:
    squares = [call(aten.pow.Tensor_Scalar, x, 2), call(aten.mul.Tensor, x, x)]
    means = through(aten.mean.dim, squares, leaf("dims"), True)
    inverse = through(aten.rsqrt.default, through(aten.add.Tensor, means, leaf("epsilon")))
    return either(aten.mul.Tensor, [x], inverse)


def _patterns() -> Alternatives:
    cast = call(aten._to_copy.default, leaf("x"), dtype=torch.float32)
    weight = [leaf("weight")]
    from_cast = _normalised(cast)
    rounded = through(aten._to_copy.default, from_cast, dtype=leaf("dtype"))
    weighted_before = through(aten._to_copy.default, either(aten.mul.Tensor, weight, from_cast), dtype=leaf("dtype"))
    weighted_after = either(aten.mul.Tensor, weight, rounded)
    return [*weighted_before, *weighted_after, *either(aten.mul.Tensor, weight, _normalised(leaf("x")))]


def _rewrite(rewriter: Rewriter, root: Node, leaves: dict[str, Any]) -> bool:
    x, weight, value = leaves["x"], leaves["weight"], leaves["x"].meta["val"]
    if not isinstance(weight, torch.fx.Node):
        raise NotFusedError(f"the weight is the number {weight}")
    if [dim % value.dim() for dim in leaves["dims"]] != [value.dim() - 1]:
        raise NotFusedError(f"the mean is over dimensions {leaves['dims']}, not over the last one alone")
    if isinstance(leaves["epsilon"], torch.fx.Node):
        raise NotFusedError("the epsilon is an input: make it a float of a module, or leave dynamic out")
    if x.target is aten._to_copy.default and all(node.target is aten._to_copy.default for node in root.users):
        return False  # the product with the weight in float32: the pattern that ends at the cast has it all
    if value.dtype not in _FLOATS:
        raise NotFusedError(f"the input is {value.dtype}")
    with rewriter.before(root, root):
        norm = rewriter.call(torch.ops.npu.npu_rms_norm.default, x, weight, float(leaves["epsilon"]))
        rewriter.replace(root, rewriter.result(norm, 0))
    return True


FUSION = Fusion(
    "rms_norm",
    "npu_rms_norm",
    _patterns,
    _rewrite,
    "The product with the weight is rounded once; the plain form rounds before it, too.",
    2**-7,
)
