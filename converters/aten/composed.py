"""Operators that are decomposed as in the host's eager execution, and others without a GE node of their own."""

from __future__ import annotations

from typing import Any

import torch
from graph_quant.converters.decompositions import decomposes
from graph_quant.converters.lowering import converts
from graph_quant.reference.composed import GRAPH_ONLY, PARTIAL, ROUNDING, solve_triangular
from graph_quant.reference.half_precision import upcast_half
from torch._decomp import decomposition_table
from torchair._ge_concrete_graph import ge_apis as ge
from torchair.ge._ge_graph import Tensor

aten = torch.ops.aten

for _name, _function in {**ROUNDING, **GRAPH_ONLY, **PARTIAL}.items():
    _packet, _, _overload = _name.partition(".")
    decomposes(getattr(getattr(aten, _packet), _overload or "default"))(_function)


@decomposes(aten.celu.default)
def celu(x: torch.Tensor, alpha: Any = 1.0) -> Any:
    """Elu with alpha and its reciprocal as input scale."""
    return aten.elu.default(x, alpha, 1.0, 1.0 / alpha)


@decomposes(aten.min.default)
def min_of_all(x: torch.Tensor) -> Any:
    """Amin over all axes."""
    return aten.amin.default(x)


@decomposes(aten.native_dropout_backward.default)
def native_dropout_backward(grad: torch.Tensor, mask: torch.Tensor, scale: float) -> Any:
    """Two products. TorchAir divides by the reciprocal of the scale, which fails for 0."""
    return grad * mask * scale


@decomposes(aten.embedding_dense_backward.default)
def embedding_dense_backward(
    grad: torch.Tensor, indices: torch.Tensor, num_weights: Any, padding_idx: Any, scale_grad_by_freq: bool
) -> Any:
    """Decompose into index_add where the number of rows is symbolic: an attribute of the node has to be a constant."""
    if not isinstance(num_weights, torch.SymInt) or scale_grad_by_freq:
        return NotImplemented
    rows, flat_indices = grad.reshape(-1, grad.size(-1)), indices.reshape(-1)
    rows = torch.where((flat_indices == padding_idx).unsqueeze(1), 0, rows)
    return rows.new_zeros((num_weights, rows.size(1))).index_add(0, flat_indices, rows)


@decomposes(aten.index_copy.default)
def index_copy(x: torch.Tensor, dim: int, index: torch.Tensor, source: torch.Tensor) -> Any:
    """Scalars are computed as tensors of one element."""
    if x.dim():
        return NotImplemented
    return aten.index_copy.default(x.reshape(1), dim, index.reshape(-1), source.reshape(-1)).reshape(())


@decomposes(aten.narrow_copy.default)
def narrow_copy(x: torch.Tensor, dim: int, start: Any, length: Any) -> Any:
    """A slice, copied."""
    return aten.slice.Tensor(x, dim, start, start + length).clone()


@decomposes(aten.view_copy.default)
def view_copy(x: torch.Tensor, size: Any) -> Any:
    """A view, copied."""
    return x.view(size).clone()


@decomposes(aten.permute_copy.default)
def permute_copy(x: torch.Tensor, dims: Any) -> Any:
    """A permutation, copied."""
    return x.permute(dims).clone()


@decomposes(aten.unbind_copy.int)
def unbind_copy(x: torch.Tensor, dim: int = 0) -> Any:
    """Slices, copied."""
    return [part.clone() for part in x.unbind(dim)]


@decomposes(aten.ldexp.Tensor)
def ldexp(x: torch.Tensor, other: torch.Tensor) -> Any:
    """Multiply by a power of two."""
    return x * torch.pow(
        torch.full((), 2.0, dtype=x.dtype if x.is_floating_point() else torch.float32, device=x.device), other
    )


@decomposes(aten.dist.default)
def dist(x: torch.Tensor, other: torch.Tensor, p: Any = 2) -> Any:
    """The norm of the difference."""
    return torch.linalg.vector_norm(x - other, p)


@decomposes(aten.diagonal_scatter.default)
def diagonal_scatter(x: torch.Tensor, src: torch.Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    """Replace the elements of a diagonal by their positions in the flattened tensor."""
    positions = torch.arange(x.numel(), device=x.device).reshape(x.shape).diagonal(offset, dim1, dim2).reshape(-1)
    return x.reshape(-1).index_copy(0, positions, src.to(x.dtype).reshape(-1)).reshape(x.shape)


@decomposes(aten.unfold.default)
def unfold(x: torch.Tensor, dimension: int, size: int, step: int) -> Any:
    """Windows, gathered by the positions of their elements."""
    if not x.dim():
        return x.reshape(1)[:size].clone()
    dimension %= x.dim()
    count = (x.size(dimension) - size) // step + 1
    starts = torch.arange(count, device=x.device) * step
    positions = (starts.unsqueeze(1) + torch.arange(size, device=x.device)).reshape(-1)
    rows = x.index_select(dimension, positions)
    return rows.unflatten(dimension, (count, size)).movedim(dimension + 1, -1)


@decomposes(aten.linalg_solve_triangular.default)
def normalise_solve_triangular(
    matrix: torch.Tensor, other: torch.Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Any:
    """Reduce to a left, non-unit triangular system without broadcasting, which the node supports."""
    if left and not unitriangular and matrix.shape[:-2] == other.shape[:-2]:
        return NotImplemented
    return solve_triangular(matrix, other, upper, left, unitriangular, aten.linalg_solve_triangular.default)


@converts(aten.linalg_solve_triangular.default)
def solve(
    matrix: Tensor,
    other: Tensor,
    *,
    upper: bool,
    left: bool = True,  # noqa: ARG001
    unitriangular: bool = False,  # noqa: ARG001
    meta_outputs: Any = None,  # noqa: ARG001
) -> Tensor:
    """MatrixTriangularSolve."""
    return ge.MatrixTriangularSolve(matrix, other, lower=not upper)


for _name in ("tril_indices", "triu_indices"):
    _whole = getattr(aten, _name).default
    decomposes(_whole)(decomposition_table[_whole])


@decomposes(aten.bucketize.Scalar)
def bucketize(number: Any, boundaries: torch.Tensor, *, out_int32: bool = False, right: bool = False) -> Any:
    """Bucketize of a tensor with one element."""
    value = torch.full((), number, dtype=boundaries.dtype, device=boundaries.device)
    return aten.bucketize.Tensor(value, boundaries, out_int32=out_int32, right=right)


@decomposes(aten.polygamma.default)
def polygamma(n: int, x: torch.Tensor) -> Any:
    """Digamma for n = 0. GE has no node for its derivatives."""
    return torch.digamma(x) if n == 0 else NotImplemented


@decomposes(aten.isclose.default)
def isclose(
    x: torch.Tensor, other: torch.Tensor, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> Any:
    """Equal or within the tolerance. PyTorch's own decomposition writes in place, which graphs do not support."""
    close = x == other
    if equal_nan and x.is_floating_point():
        close = close | (torch.isnan(x) & torch.isnan(other))
    allowed = atol + (rtol * other).abs()
    distance = (x - other).abs()
    return close | (torch.isfinite(distance) & (distance <= allowed))


def _replace_loss() -> None:
    """Replace PyTorch's kernel, which counts labels after the first -1 and takes precedence over decompositions."""
    loss = aten.multilabel_margin_loss_forward.default
    loss.py_kernels.pop(torch._C.DispatchKey.Autograd, None)
    loss.py_impl(torch._C.DispatchKey.Autograd)(ROUNDING["multilabel_margin_loss_forward"])


_replace_loss()


@decomposes(aten.scatter.reduce)
def scatter_with_reduce(x: torch.Tensor, dim: int, index: torch.Tensor, src: torch.Tensor, *, reduce: str) -> Any:
    """scatter_reduce, which replaces this deprecated overload."""
    return aten.scatter_reduce.two(x, dim, index, src, "prod" if reduce == "multiply" else "sum")


@decomposes(aten.scatter.value_reduce)
def scatter_number_with_reduce(x: torch.Tensor, dim: int, index: torch.Tensor, value: Any, *, reduce: str) -> Any:
    """The same of a tensor that holds the number."""
    src = torch.full(index.shape, value, dtype=x.dtype, device=x.device)
    return aten.scatter.reduce(x, dim, index, src, reduce=reduce)


@decomposes(aten.channel_shuffle.default)
def channel_shuffle(x: torch.Tensor, groups: int) -> Any:
    """Always new memory; PyTorch's decomposition returns the input where a group has one channel."""
    if x.dim() < 3 or groups < 1 or x.size(1) % groups:
        return NotImplemented
    split = x.reshape(x.size(0), groups, x.size(1) // groups, *x.shape[2:])
    return split.transpose(1, 2).clone(memory_format=torch.contiguous_format).view(x.shape)


@decomposes(aten._prelu_kernel_backward.default)
def prelu_backward(grad: torch.Tensor, x: torch.Tensor, weight: torch.Tensor) -> Any:
    """Gradients of all elements; PReluGrad sums those of a weight, which autograd does itself."""
    return torch.where(x > 0, grad, weight * grad), torch.where(x > 0, 0, x * grad)


@decomposes(aten._weight_norm_interface.default)
def weight_norm(v: torch.Tensor, g: torch.Tensor, dim: int = 0) -> Any:
    """Rows of the direction's norm times the magnitude, rounded once. The norms are float32 in half precision."""
    wide, other = upcast_half(v), _other_dims(v, dim)
    norms = torch.linalg.vector_norm(wide, 2, other, keepdim=True) if other else wide.abs()
    return (wide * (upcast_half(g) / norms)).to(v.dtype), norms


@decomposes(aten._weight_norm_interface_backward.default)
def weight_norm_backward(grad: torch.Tensor, v: torch.Tensor, g: torch.Tensor, norms: torch.Tensor, dim: int) -> Any:
    """The gradients of direction and magnitude, in ATen's order of the operations."""
    wide, direction = upcast_half(grad), upcast_half(v)
    products, other = wide * direction, _other_dims(v, dim)
    grad_g = (products.sum(other, keepdim=True) if other else products) / norms
    scale = upcast_half(g) / norms
    grad_v = torch.addcmul(scale * wide, -(scale * grad_g / norms), direction)
    return grad_v.to(v.dtype), grad_g.to(g.dtype)


def _other_dims(x: torch.Tensor, dim: int) -> list[int]:
    return [axis for axis in range(x.dim()) if axis != dim % x.dim()]


@decomposes("prims::scalar_tensor")
def scalar_tensor(value: Any, *, dtype: torch.dtype | None = None, device: Any = None) -> Any:
    """aten.scalar_tensor, into which PyTorch's decompositions of operators with numbers trace it."""
    return aten.scalar_tensor.default(value, dtype=dtype, device=device)
