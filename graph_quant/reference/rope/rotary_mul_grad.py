"""The gradient of npu_rotary_mul, in float32, each result rounded once.

``dx = grad * cos - rotate_pairs(grad * sin)``; dcos and dsin are the sums of ``grad * x`` and ``grad *
rotate_pairs(x)`` over the broadcast dimensions. The order of summation on a device depends on its tiling: two orders
differ by at most n/2 units in the last place of the sum of n magnitudes.
"""

from __future__ import annotations

from graph_quant.chip import A2_A3_950
from graph_quant.ge import kernel
from graph_quant.reference.rope.rotation import (
    HALF,
    INTERLEAVE_HALF,
    interleave_halves,
    modes,
    rotate_pairs,
    separate_neighbours,
)
from torch import Tensor


def rotary_mul_backward(
    grad: Tensor, x: Tensor, r1: Tensor, r2: Tensor, rotary_mode: str
) -> tuple[Tensor, Tensor, Tensor]:
    """``(dx, dr1, dr2)``."""
    upstream, at, cos, sin = (tensor.to(x.dtype).float() for tensor in (grad, x, r1, r2))
    if rotary_mode == INTERLEAVE_HALF:
        at, rotary_mode = separate_neighbours(at), HALF
        dx = interleave_halves(upstream * cos - rotate_pairs(upstream * sin))
    else:
        dx = upstream * cos - rotate_pairs(upstream * sin, rotary_mode)
    dcos, dsin = (_over_broadcast(upstream * tensor, r1) for tensor in (at, rotate_pairs(at, rotary_mode)))
    return dx.to(x.dtype), dcos.to(x.dtype), dsin.to(x.dtype)


def _over_broadcast(x: Tensor, like: Tensor) -> Tensor:
    # Contiguous, because torch sums in memory order, which may differ between a graph and eager execution.
    return x.contiguous().sum_to_size(like.shape)


@kernel("RotaryPositionEmbeddingGrad", flops=8, chips=A2_A3_950)
def rotary_position_embedding_grad(
    dy: Tensor, cos: Tensor, sin: Tensor, x: Tensor | None = None, *, mode: int = 0
) -> tuple[Tensor, Tensor, Tensor]:
    """``mode`` as in RotaryPositionEmbedding."""
    if x is None:
        raise NotImplementedError("RotaryPositionEmbeddingGrad: without x it has no host kernel")
    if not 0 <= mode < len(modes()):
        raise NotImplementedError(f"RotaryPositionEmbeddingGrad: mode {mode} has no host kernel on this chip")
    return rotary_mul_backward(dy, x, cos, sin, modes()[mode])
