"""Decompositions of ATen operators that eager calls on the host and graphs share, so that both round alike.

The functions take tensors of any device, also traced ones. GE has no node for these operators. An NPU has kernels for
them, but no document states their order of summation and rounding.
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
    """``beta * x + alpha * product``, rounded after each operation; half precision is computed in float32.

    A beta of 0 ignores ``x``, including its NaN. For integer tensors alpha and beta are truncated, as in ATen.
    """
    if not product.is_floating_point() and not product.is_complex():
        beta, alpha = (int(scalar) if isinstance(scalar, float) else scalar for scalar in (beta, alpha))
    wide, added = (operand.float() if product.dtype in _HALVES else operand for operand in (product, x))
    total = wide if _is_known(alpha, 1) else wide * alpha
    if _is_known(beta, 0):
        return total.expand(torch.broadcast_shapes(total.shape, x.shape)).to(product.dtype)
    return (total + (added if _is_known(beta, 1) else added * beta)).to(product.dtype)


def _is_known(number: Any, value: int) -> bool:
    """Whether a scalar is a Python number, not a symbol, and equal to ``value``."""
    return isinstance(number, (int, float)) and number == value


def addmm(x: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """``beta * x + alpha * mat1 @ mat2``; NotImplemented, for GE's own node, if both are 1 and ``x`` is a bias row."""
    if _is_known(beta, 1) and _is_known(alpha, 1):
        return NotImplemented if x.dim() == 1 else aten.mm(mat1, mat2) + x
    return scale_and_add(x, aten.mm(mat1, mat2), beta, alpha)


def baddbmm(x: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """``beta * x + alpha * batch1 @ batch2`` of batches of matrices."""
    return scale_and_add(x, aten.bmm(batch1, batch2), beta, alpha)


def mv(x: Tensor, vec: Tensor) -> Tensor:
    """Matrix-vector product."""
    if not x.is_floating_point():
        return (x * vec).sum(1, dtype=x.dtype)
    return aten.mm(x, vec.unsqueeze(1)).squeeze(1)


def dot(x: Tensor, other: Tensor) -> Tensor:
    """Dot product of two vectors."""
    if not x.is_floating_point():
        return (x * other).sum(dtype=x.dtype)
    return aten.mm(x.unsqueeze(0), other.unsqueeze(1)).reshape(())


def vdot(x: Tensor, other: Tensor) -> Tensor:
    """Dot product; a complex first operand is conjugated."""
    return (x.conj() * other).sum() if x.is_complex() else dot(x, other)


def addmv(x: Tensor, mat: Tensor, vec: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """``beta * x + alpha * mat @ vec``."""
    return scale_and_add(x, mv(mat, vec), beta, alpha)


def addbmm(x: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """``beta * x`` plus alpha times the sum of a batch of products, as one product of concatenated matrices."""
    rows = batch1.transpose(0, 1).reshape(batch1.size(1), -1)
    return scale_and_add(x, aten.mm(rows, batch2.reshape(-1, batch2.size(2))), beta, alpha)


def addr(x: Tensor, vec1: Tensor, vec2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """``beta * x`` plus alpha times the outer product of two vectors."""
    return scale_and_add(x, vec1.unsqueeze(1) * vec2, beta, alpha)


def kthvalue(x: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """The k-th smallest element along ``dim``, k from 1, and its index; the first index of equal elements."""
    return _squeeze_kept(_kth_smallest(x, k - 1, dim), dim, keepdim)


def median_dim(x: Tensor, dim: int, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """The lower median along ``dim`` and its index; NaN if the row contains one."""
    if not x.dim():
        return _kth_smallest(x, 0, dim)
    values, indices = _kth_smallest(x, (x.size(dim) - 1) // 2, dim)
    if x.is_floating_point():
        is_nan = torch.isnan(x)
        has_nan = is_nan.any(dim, keepdim=True)
        first = is_nan.to(torch.int64).argmax(dim, keepdim=True)
        values = torch.where(has_nan, torch.nan, values).to(x.dtype)
        indices = torch.where(has_nan, first, indices)
    return _squeeze_kept((values, indices), dim, keepdim)


def _kth_smallest(x: Tensor, k: int, dim: int) -> tuple[Tensor, Tensor]:
    """Element ``k``, from 0, of each row after a stable sort, and its index before the sort; ``dim`` is kept."""
    if not x.dim():
        return x.clone(), torch.zeros((), dtype=torch.int64, device=x.device)
    values, indices = torch.sort(x, dim=dim, stable=True)
    return values.narrow(dim, k, 1), indices.narrow(dim, k, 1)


def _squeeze_kept(results: tuple[Tensor, Tensor], dim: int, keepdim: bool) -> tuple[Tensor, Tensor]:
    """Copies of values and indices, with ``dim`` removed unless ``keepdim``."""
    values, indices = (result if keepdim or not result.dim() else result.squeeze(dim) for result in results)
    return values.clone(), indices.clone()


def median(x: Tensor) -> Tensor:
    """The median of all elements; for an empty tensor NaN, converted to integer dtypes as ATen's kernel converts it."""
    if isinstance(x.numel(), int) and not x.numel():
        smallest = torch.iinfo(x.dtype).min if x.dtype in (torch.int32, torch.int64) else 0
        fill = torch.nan if x.is_floating_point() else smallest
        return torch.full((), fill, dtype=x.dtype, device=x.device)
    return median_dim(x.reshape(-1), 0)[0]


def copysign(x: Any, other: Any) -> Tensor:
    """The magnitude of ``x`` with the sign bit of ``other``, which may be a zero or NaN."""
    dtype = torch.result_type(x, other)
    dtype = dtype if dtype.is_floating_point else torch.get_default_dtype()
    device = x.device if isinstance(x, Tensor) else other.device
    magnitude, sign = (
        operand.to(dtype) if isinstance(operand, Tensor) else torch.full((), operand, dtype=dtype, device=device)
        for operand in (x, other)
    )
    return torch.where(signbit(sign), -magnitude.abs(), magnitude.abs())


_BITS = {
    torch.float32: torch.int32,
    torch.float16: torch.int16,
    torch.bfloat16: torch.int16,
    torch.float64: torch.int64,
}


def signbit(x: Tensor) -> Tensor:
    """Whether the sign bit is set; it is in -0.0."""
    return x.view(_BITS[x.dtype]) < 0 if x.dtype in _BITS else x < 0


def fmax(x: Tensor, other: Tensor) -> Tensor:
    """Elementwise maximum; the other operand where one is NaN."""
    return _ignoring_nan(torch.maximum, x, other)


def fmin(x: Tensor, other: Tensor) -> Tensor:
    """Elementwise minimum; the other operand where one is NaN."""
    return _ignoring_nan(torch.minimum, x, other)


def _ignoring_nan(choose: Callable[[Tensor, Tensor], Tensor], x: Tensor, other: Tensor) -> Tensor:
    dtype = torch.result_type(x, other)
    x, other = torch.broadcast_tensors(x.to(dtype), other.to(dtype))
    if not dtype.is_floating_point:
        return choose(x, other)
    return torch.where(torch.isnan(other), x, torch.where(torch.isnan(x), other, choose(x, other)))


def polar(magnitude: Tensor, angle: Tensor) -> Tensor:
    """Complex numbers from magnitude and angle."""
    return torch.complex(magnitude * torch.cos(angle), magnitude * torch.sin(angle))


def _with_mean(spread: Callable[..., Tensor]) -> Callable[..., tuple[Tensor, Tensor]]:
    """A function of the variance, or standard deviation, and the mean."""

    def both(x: Tensor, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> tuple[Tensor, Tensor]:
        mean = torch.mean(x, list(range(x.dim())) if dim is None else dim, keepdim)
        return spread(x, dim, correction=correction, keepdim=keepdim), mean

    return both


var_mean = _with_mean(aten.var.correction)
std_mean = _with_mean(aten.std.correction)


def _fractional_correction(root: bool) -> Callable[..., Any]:
    """Variance, or standard deviation, for a fractional correction: the one without correction, times a ratio."""

    def spread(x: Tensor, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> Any:
        if correction is None or float(correction).is_integer() or x.is_complex():
            return NotImplemented
        axes = range(x.dim()) if not dim else [dim] if isinstance(dim, int) else dim
        count = torch.full((), math.prod(x.size(axis) for axis in axes), dtype=torch.float32, device=x.device)
        ratio = torch.where(count > correction, count / (count - correction), torch.inf)
        wide = x.float() if x.dtype in _HALVES else x
        variance = aten.var.correction(wide, dim, correction=0, keepdim=keepdim) * ratio.to(wide.dtype)
        return (torch.sqrt(variance) if root else variance).to(x.dtype)

    return spread


def solve_triangular(
    matrix: Tensor, other: Tensor, upper: bool, left: bool, unitriangular: bool, solve: Callable[..., Tensor]
) -> Tensor:
    """Solve a triangular system by ``solve``, with operands as GE's node takes them.

    The matrix is on the left, its diagonal is explicit, and batches are expanded.
    """
    if not left:
        transposed = solve_triangular(matrix.mT, other.mT, not upper, True, unitriangular, solve)
        return transposed.mT
    if unitriangular:
        ones = torch.eye(matrix.size(-1), dtype=matrix.dtype, device=matrix.device)
        matrix = (matrix.triu(1) if upper else matrix.tril(-1)) + ones
    batch = torch.broadcast_shapes(matrix.shape[:-2], other.shape[:-2])
    kept = torch.contiguous_format
    matrix, other = (part.expand(*batch, *part.shape[-2:]).clone(memory_format=kept) for part in (matrix, other))
    return solve(matrix, other, upper=upper)


def cholesky_solve(x: Tensor, factor: Tensor, upper: bool = False) -> Tensor:
    """Solution of a system from its Cholesky factor: two triangular systems."""
    if upper:
        factor = factor.mT
    half = torch.linalg.solve_triangular(factor, x, upper=False)
    return torch.linalg.solve_triangular(factor.mT, half, upper=True)


def cholesky_inverse(factor: Tensor, upper: bool = False) -> Tensor:
    """Inverse of a matrix from its Cholesky factor: the solution for the identity."""
    ones = torch.eye(factor.size(-1), dtype=factor.dtype, device=factor.device)
    return cholesky_solve(ones.expand(factor.shape), factor, upper)


def triangular_solve(
    x: Tensor, matrix: Tensor, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> tuple[Tensor, Tensor]:
    """Solution of a triangular system, and a copy of its matrix."""
    operand = matrix.mT if transpose else matrix
    solution = torch.linalg.solve_triangular(operand, x, upper=upper != transpose, unitriangular=unitriangular)
    return solution, matrix.clone()


def pinv(matrix: Tensor, *, atol: Any = None, rtol: Any = None, hermitian: bool = False) -> Any:
    """Pseudo-inverse from the singular values above a bound; NotImplemented for complex and Hermitian matrices."""
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
    result = torch.nn.functional.conv1d(x.permute(1, 2, 0), weight.permute(2, 1, 0), bias, padding=pad)
    return result.permute(2, 0, 1).clone(memory_format=torch.contiguous_format)


# By the names of their overloads. Those of ROUNDING round otherwise than the CPU kernels, and are decomposed in eager
# calls too. Those of GRAPH_ONLY select or copy elements, or round as the CPU kernels do.
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
# These return NotImplemented for some calls, which are not decomposed.
PARTIAL: dict[str, Callable[..., Any]] = {
    "linalg_pinv.atol_rtol_tensor": pinv,
    "std.correction": _fractional_correction(root=True),
    "var.correction": _fractional_correction(root=False),
    **indexing.PARTIAL,
}
# PyTorch's own decompositions, which graphs use, that round otherwise than its CPU kernels.
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
