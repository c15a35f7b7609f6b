"""ATen operators that are the same composition of others eagerly on the host and in graphs, so that both round alike.

They take tensors of any device, also traced ones. GE has no node for them; an NPU has kernels whose order of sums and
roundings no document states.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from . import indexing, math_functions

aten = torch.ops.aten
_HALVES = (torch.float16, torch.bfloat16)


def scale_and_add(x: Tensor, product: Tensor, beta: Any, alpha: Any) -> Tensor:
    """``beta * x + alpha * product``, each product and the sum rounded: to float32 for halves, and to them at the end.

    A beta of 0 ignores ``x``, also what is no number in it. Factors of integers are cut to integers, as ATen cuts them.
    """
    if not product.is_floating_point() and not product.is_complex():
        beta, alpha = (int(each) if isinstance(each, float) else each for each in (beta, alpha))
    wide, added = (each.float() if product.dtype in _HALVES else each for each in (product, x))
    total = wide if _is_known(alpha, 1) else wide * alpha
    if _is_known(beta, 0):
        return total.expand(torch.broadcast_shapes(total.shape, x.shape)).to(product.dtype)
    return (total + (added if _is_known(beta, 1) else added * beta)).to(product.dtype)


def _is_known(number: Any, value: int) -> bool:
    """Whether a number is known, and this one."""
    return isinstance(number, (int, float)) and number == value


def addmm(x: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """``beta * x + alpha * mat1 @ mat2`` with factors; without, it is one node, and two where ``x`` is no bias."""
    if _is_known(beta, 1) and _is_known(alpha, 1):
        return NotImplemented if x.dim() == 1 else aten.mm(mat1, mat2) + x
    return scale_and_add(x, aten.mm(mat1, mat2), beta, alpha)


def baddbmm(x: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """The same of batches, which GE has no node for at all."""
    return scale_and_add(x, aten.bmm(batch1, batch2), beta, alpha)


def mv(x: Tensor, vec: Tensor) -> Tensor:
    """A product with a column."""
    if not x.is_floating_point():
        return (x * vec).sum(1, dtype=x.dtype)
    return aten.mm(x, vec.unsqueeze(1)).squeeze(1)


def dot(x: Tensor, other: Tensor) -> Tensor:
    """A row times a column."""
    if not x.is_floating_point():
        return (x * other).sum(dtype=x.dtype)
    return aten.mm(x.unsqueeze(0), other.unsqueeze(1)).reshape(())


def vdot(x: Tensor, other: Tensor) -> Tensor:
    """The same; of complex numbers the first is conjugated."""
    return (x.conj() * other).sum() if x.is_complex() else dot(x, other)


def addmv(x: Tensor, mat: Tensor, vec: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """``beta * x + alpha * mat @ vec``."""
    return scale_and_add(x, mv(mat, vec), beta, alpha)


def addbmm(x: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """Products that are added up: one, of the batches side by side."""
    rows = batch1.transpose(0, 1).reshape(batch1.size(1), -1)
    return scale_and_add(x, aten.mm(rows, batch2.reshape(-1, batch2.size(2))), beta, alpha)


def addr(x: Tensor, vec1: Tensor, vec2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """``beta * x`` and the products of all elements of two vectors."""
    return scale_and_add(x, vec1.unsqueeze(1) * vec2, beta, alpha)


def kthvalue(x: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """The element that stands at ``k``, counted from 1, when all are sorted; of equal ones the first."""
    return _squeeze_kept(_kth_smallest(x, k - 1, dim), dim, keepdim)


def median_dim(x: Tensor, dim: int, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """The lower one of the middle; what is no number is the median of its row."""
    if not x.dim():
        return _kth_smallest(x, 0, dim)
    values, places = _kth_smallest(x, (x.size(dim) - 1) // 2, dim)
    if x.is_floating_point():
        nothing = torch.isnan(x)
        any_nothing = nothing.any(dim, keepdim=True)
        first = nothing.to(torch.int64).argmax(dim, keepdim=True)
        values = torch.where(any_nothing, torch.nan, values).to(x.dtype)
        places = torch.where(any_nothing, first, places)
    return _squeeze_kept((values, places), dim, keepdim)


def _kth_smallest(x: Tensor, place: int, dim: int) -> tuple[Tensor, Tensor]:
    """The elements at a place of each row when it is sorted, equal ones in their order, and where they were."""
    if not x.dim():
        return x.clone(), torch.zeros((), dtype=torch.int64, device=x.device)
    values, places = torch.sort(x, dim=dim, stable=True)
    return values.narrow(dim, place, 1), places.narrow(dim, place, 1)


def _squeeze_kept(found: tuple[Tensor, Tensor], dim: int, keepdim: bool) -> tuple[Tensor, Tensor]:
    """The same in memory of their own, without the dimension unless it is kept."""
    values, places = (each if keepdim or not each.dim() else each.squeeze(dim) for each in found)
    return values.clone(), places.clone()


def median(x: Tensor) -> Tensor:
    """The median of all elements; of none, what ATen's own kernel makes of NaN."""
    if isinstance(x.numel(), int) and not x.numel():
        whole = torch.iinfo(x.dtype).min if x.dtype in (torch.int32, torch.int64) else 0
        made = torch.nan if x.is_floating_point() else whole
        return torch.full((), made, dtype=x.dtype, device=x.device)
    return median_dim(x.reshape(-1), 0)[0]


def copysign(x: Any, other: Any) -> Tensor:
    """The first without its sign, with the second's; zeros and what is no number have one as well."""
    kind = torch.result_type(x, other)
    kind = kind if kind.is_floating_point else torch.get_default_dtype()
    device = x.device if isinstance(x, Tensor) else other.device
    size, sign = (
        each.to(kind) if isinstance(each, Tensor) else torch.full((), each, dtype=kind, device=device)
        for each in (x, other)
    )
    return torch.where(signbit(sign), -size.abs(), size.abs())


_BITS = {
    torch.float32: torch.int32,
    torch.float16: torch.int16,
    torch.bfloat16: torch.int16,
    torch.float64: torch.int64,
}


def signbit(x: Tensor) -> Tensor:
    """Whether the bit of the sign is set, as in the zero below zero."""
    return x.view(_BITS[x.dtype]) < 0 if x.dtype in _BITS else x < 0


def fmax(x: Tensor, other: Tensor) -> Tensor:
    """The larger one, or the one that is a number."""
    return _ignoring_nan(torch.maximum, x, other)


def fmin(x: Tensor, other: Tensor) -> Tensor:
    """The smaller one, or the one that is a number."""
    return _ignoring_nan(torch.minimum, x, other)


def _ignoring_nan(choose: Callable[[Tensor, Tensor], Tensor], x: Tensor, other: Tensor) -> Tensor:
    kind = torch.result_type(x, other)
    x, other = torch.broadcast_tensors(x.to(kind), other.to(kind))
    if not kind.is_floating_point:
        return choose(x, other)
    return torch.where(torch.isnan(other), x, torch.where(torch.isnan(x), other, choose(x, other)))


def polar(size: Tensor, angle: Tensor) -> Tensor:
    """Complex numbers from their size and angle."""
    return torch.complex(size * torch.cos(angle), size * torch.sin(angle))


def _with_mean(spread: Callable[..., Tensor]) -> Callable[..., tuple[Tensor, Tensor]]:
    """Both as they are alone."""

    def both(x: Tensor, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> tuple[Tensor, Tensor]:
        mean = torch.mean(x, list(range(x.dim())) if dim is None else dim, keepdim)
        return spread(x, dim, correction=correction, keepdim=keepdim), mean

    return both


var_mean = _with_mean(aten.var.correction)
std_mean = _with_mean(aten.std.correction)


def _fractional_correction(root: bool) -> Callable[..., Any]:
    """A spread whose correction is no integer: that without one, times a factor, of halves in float32."""

    def spread(x: Tensor, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> Any:
        if correction is None or float(correction).is_integer() or x.is_complex():
            return NotImplemented
        axes = range(x.dim()) if not dim else [dim] if isinstance(dim, int) else dim
        count = torch.full((), math.prod(x.size(axis) for axis in axes), dtype=torch.float32, device=x.device)
        factor = torch.where(count > correction, count / (count - correction), torch.inf)
        wide = x.float() if x.dtype in _HALVES else x
        found = aten.var.correction(wide, dim, correction=0, keepdim=keepdim) * factor.to(wide.dtype)
        return (torch.sqrt(found) if root else found).to(x.dtype)

    return spread


def solve_triangular(
    matrix: Tensor, other: Tensor, upper: bool, left: bool, unitriangular: bool, solve: Callable[..., Tensor]
) -> Tensor:
    """What GE's node takes: the matrix on the left, its diagonal written out, as many matrices as right sides."""
    if not left:
        turned = solve_triangular(matrix.mT, other.mT, not upper, True, unitriangular, solve)
        return turned.mT
    if unitriangular:
        ones = torch.eye(matrix.size(-1), dtype=matrix.dtype, device=matrix.device)
        matrix = (matrix.triu(1) if upper else matrix.tril(-1)) + ones
    batch = torch.broadcast_shapes(matrix.shape[:-2], other.shape[:-2])
    kept = torch.contiguous_format
    matrix, other = (each.expand(*batch, *each.shape[-2:]).clone(memory_format=kept) for each in (matrix, other))
    return solve(matrix, other, upper=upper)


def cholesky_solve(x: Tensor, factor: Tensor, upper: bool = False) -> Tensor:
    """Two triangular systems, one after the other."""
    if upper:
        factor = factor.mT
    half = torch.linalg.solve_triangular(factor, x, upper=False)
    return torch.linalg.solve_triangular(factor.mT, half, upper=True)


def cholesky_inverse(factor: Tensor, upper: bool = False) -> Tensor:
    """The same with the columns of the identity."""
    ones = torch.eye(factor.size(-1), dtype=factor.dtype, device=factor.device)
    return cholesky_solve(ones.expand(factor.shape), factor, upper)


def triangular_solve(
    x: Tensor, matrix: Tensor, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> tuple[Tensor, Tensor]:
    """A triangular system, and a copy of its matrix."""
    turned = matrix.mT if transpose else matrix
    found = torch.linalg.solve_triangular(turned, x, upper=upper != transpose, unitriangular=unitriangular)
    return found, matrix.clone()


def pinv(matrix: Tensor, *, atol: Any = None, rtol: Any = None, hermitian: bool = False) -> Any:
    """What singular values above a bound make of their vectors; NotImplemented for complex and hermitian ones."""
    if hermitian or matrix.is_complex():
        return NotImplemented
    left, values, right = torch.linalg.svd(matrix, full_matrices=False)
    largest = values[..., :1]
    if rtol is None:
        by_size = torch.finfo(matrix.dtype).eps * max(matrix.shape[-2:])
        rtol = torch.full((), by_size, dtype=matrix.dtype, device=matrix.device)
        rtol = rtol if atol is None else torch.where(atol > 0, 0.0, rtol)
    bound = rtol.unsqueeze(-1) * largest if rtol.dim() else rtol * largest
    if atol is not None:
        bound = torch.maximum(atol.unsqueeze(-1) if atol.dim() else atol, bound)
    kept = torch.where(values > bound, values.reciprocal(), 0.0).to(matrix.dtype)
    return torch.matmul((right * kept.unsqueeze(-1)).mT, left.mT)


def conv_tbc(x: Tensor, weight: Tensor, bias: Tensor, pad: int = 0) -> Tensor:
    """A convolution along the first dimension."""
    found = torch.nn.functional.conv1d(x.permute(1, 2, 0), weight.permute(2, 1, 0), bias, padding=pad)
    return found.permute(2, 0, 1).clone(memory_format=torch.contiguous_format)


# By the names of their overloads. Those of the first table round, those of the second choose or move, or round as the
# CPU's own do: these are composed in graphs alone.
ROUNDING: dict[str, Callable[..., Any]] = {
    "addbmm": addbmm,
    "addmv": addmv,
    "addr": addr,
    "baddbmm": baddbmm,
    "cholesky_inverse": cholesky_inverse,
    "cholesky_solve": cholesky_solve,
    "conv_tbc": conv_tbc,
    "dot": dot,
    "kthvalue": kthvalue,
    "median": median,
    "median.dim": median_dim,
    "mv": mv,
    "polar": polar,
    "std_mean.correction": std_mean,
    "triangular_solve": triangular_solve,
    "var_mean.correction": var_mean,
    "vdot": vdot,
    **math_functions.ROUNDING,
    **indexing.ROUNDING,
}
GRAPH_ONLY: dict[str, Callable[..., Any]] = {
    "addmm": addmm,
    "copysign.Scalar": copysign,
    "copysign.Tensor": copysign,
    "fmax": fmax,
    "fmin": fmin,
    "signbit": signbit,
    **math_functions.GRAPH_ONLY,
    **indexing.GRAPH_ONLY,
}
# Those that leave some calls as they are.
PARTIAL: dict[str, Callable[..., Any]] = {
    "linalg_pinv.atol_rtol_tensor": pinv,
    "std.correction": _fractional_correction(root=True),
    "var.correction": _fractional_correction(root=False),
    **indexing.PARTIAL,
}
# What PyTorch's own decompositions, which serve graphs, round otherwise than its CPU kernels.
PYTORCH_DECOMPOSITIONS = (
    "affine_grid_generator",
    "linalg_cross",
    "logaddexp",
    "logaddexp2",
    "logit",
    "mish_backward",
    "multi_margin_loss",
    "nll_loss2d_forward",
    "renorm",
    "silu_backward",
    "sinc",
    "softplus_backward",
    "softshrink",
    "special_xlog1py",
    "special_xlog1py.other_scalar",
    "special_xlog1py.self_scalar",
    "upsample_bicubic2d",
    "upsample_bilinear2d",
    "upsample_linear1d",
    "upsample_trilinear3d",
    "xlogy.Scalar_Other",
    "xlogy.Scalar_Self",
    "xlogy.Tensor",
)
