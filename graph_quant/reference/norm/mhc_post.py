"""npu_mhc_post: the streams of hyper-connections after a layer, ``h_res.T @ x + h_post * h_out``.

Accumulated in float32 in the kernel's order: the term of h_out, then x of each stream. The kernel may use fused
multiply-add, which rounds once instead of twice: a difference of one unit of float32 per term, before the result is
rounded to the dtype of x. The gradient's sums over channels follow the order of the tiling.
"""

from __future__ import annotations

from torch import Tensor


def mhc_post(x: Tensor, h_res: Tensor, h_out: Tensor, h_post: Tensor) -> Tensor:
    """``y[j] = h_out * h_post[j] + sum over i of x[i] * h_res[i, j]``, in x's dtype."""
    streams = x.float()
    total = h_out.float().unsqueeze(-2) * h_post.unsqueeze(-1)
    for stream in range(x.size(-2)):
        total = total + streams[..., stream, :].unsqueeze(-2) * h_res[..., stream, :].unsqueeze(-1)
    return total.to(x.dtype)


def mhc_post_backward(
    grad_y: Tensor, x: Tensor, h_res: Tensor, h_out: Tensor, h_post: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The gradients of x, h_res, h_out and h_post."""
    upstream, streams = grad_y.float(), x.float()
    return (
        (h_res @ upstream).to(x.dtype),
        streams @ upstream.transpose(-2, -1),
        (upstream * h_post.unsqueeze(-1)).sum(-2).to(h_out.dtype),
        (upstream * h_out.float().unsqueeze(-2)).sum(-1),
    )
