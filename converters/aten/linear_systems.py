"""Linear systems and matrix decompositions: GE has nodes for them, TorchAir has no converter.

A node fails for a matrix without a result, so that the error codes that ATen returns are always 0.
"""

from __future__ import annotations

from typing import Any

import torch
from graph_quant.converters.decompositions import decomposes
from graph_quant.converters.lowering import converts, is_static, run_time_shape, swapped_last_two
from torchair._ge_concrete_graph import ge_apis as ge
from torchair.ge._ge_graph import DataType, Tensor

aten = torch.ops.aten


def _no_errors(x: Tensor) -> Tensor:
    """Error code 0 for each matrix."""
    batch = list(x.symsize[:-2])
    shape = batch if is_static(batch) else ge.Gather(run_time_shape(x), list(range(x.rank - 2)))
    return ge.Fill(shape, ge.Const(0, dtype=DataType.DT_INT32))


def _empty(like: Tensor) -> Tensor:
    return ge.Fill([0], ge.Const(0, dtype=like.dtype))


@converts(aten.linalg_cholesky_ex.default)
def cholesky(x: Tensor, *, upper: bool = False, check_errors: bool = False, meta_outputs: Any = None) -> Any:  # noqa: ARG001
    """Cholesky, which returns the lower triangle."""
    lower = ge.Cholesky(x)
    return (swapped_last_two(lower, x.rank) if upper else lower), _no_errors(x)


@converts(aten.linalg_inv_ex.default)
def inverse(x: Tensor, *, check_errors: bool = False, meta_outputs: Any = None) -> Any:  # noqa: ARG001
    """MatrixInverse."""
    return ge.MatrixInverse(x), _no_errors(x)


@converts(aten._linalg_eigh.default)
def eigh(x: Tensor, UPLO: str = "L", compute_v: bool = True, meta_outputs: Any = None) -> Any:  # noqa: ARG001, N803
    """SelfAdjointEig, which reads the lower triangle."""
    lower = x if UPLO.upper() == "L" else swapped_last_two(x, x.rank)
    values, vectors = ge.SelfAdjointEig(lower, compute_v=compute_v)
    return values, (vectors if compute_v else _empty(x))


@converts(aten._linalg_svd.default)
def svd(
    x: Tensor,
    full_matrices: bool = False,
    compute_uv: bool = True,
    *,
    driver: str | None = None,  # noqa: ARG001
    meta_outputs: Any = None,  # noqa: ARG001
) -> Any:
    """Svd. Its right singular vectors are columns, ATen's are rows."""
    sigma, u, v = ge.Svd(x, compute_uv=compute_uv, full_matrices=full_matrices)
    if not compute_uv:
        return _empty(x), sigma, _empty(x)
    return u, sigma, swapped_last_two(v, x.rank)


@converts(aten.linalg_qr.default)
def qr(x: Tensor, mode: str = "reduced", meta_outputs: Any = None) -> Any:  # noqa: ARG001
    """Qr."""
    q, r = ge.Qr(x, full_matrices=mode == "complete")
    return (_empty(x) if mode == "r" else q), r


@converts(aten._linalg_check_errors.default)
def check_errors(*_args: Any, meta_outputs: Any = None, **_kwargs: Any) -> None:  # noqa: ARG001
    """No node: the node before it fails on errors."""
    return


@converts(aten._linalg_det.default)
def det(x: Tensor, meta_outputs: Any = None) -> Any:  # noqa: ARG001
    """MatrixDeterminant. The LU decomposition is needed by gradients alone, which are refused earlier."""
    return ge.MatrixDeterminant(x), _empty(x), _no_errors(x)


@converts(aten._linalg_slogdet.default)
def slogdet(x: Tensor, meta_outputs: Any = None) -> Any:  # noqa: ARG001
    """LogMatrixDeterminant."""
    sign, logarithm = ge.LogMatrixDeterminant(x)
    return sign, logarithm, _empty(x), _no_errors(x)


@decomposes(aten._linalg_solve_ex.default)
def normalise_solve(matrix: torch.Tensor, other: torch.Tensor, *, left: bool = True, check_errors: bool = False) -> Any:
    """Reduce to left systems of matrices without broadcasting, which the node supports."""
    is_vector = other.dim() == 1 or (other.dim() == matrix.dim() - 1 and other.shape == matrix.shape[:-1])
    columns = other.unsqueeze(-1) if is_vector else other
    batch = torch.broadcast_shapes(matrix.shape[:-2], columns.shape[:-2])
    if left and not is_vector and list(batch) == list(matrix.shape[:-2]) == list(columns.shape[:-2]):
        return NotImplemented
    if not left:
        matrix, columns = matrix.mT, columns.mT
    matrix, columns = (
        tensor.expand(*batch, *tensor.shape[-2:]).clone(memory_format=torch.contiguous_format)
        for tensor in (matrix, columns)
    )
    solution, *rest = aten._linalg_solve_ex.default(matrix, columns, left=True, check_errors=check_errors)
    if not left:
        solution = solution.mT
    return (solution.squeeze(-1) if is_vector else solution), *rest


@converts(aten._linalg_solve_ex.default)
def solve(
    matrix: Tensor,
    other: Tensor,
    *,
    left: bool = True,  # noqa: ARG001
    check_errors: bool = False,  # noqa: ARG001
    meta_outputs: Any = None,  # noqa: ARG001
) -> Any:
    """MatrixSolve."""
    return ge.MatrixSolve(matrix, other), _empty(matrix), _no_errors(matrix), _no_errors(matrix)
