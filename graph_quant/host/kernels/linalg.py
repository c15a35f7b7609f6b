"""Linear systems and matrix decompositions. A singular matrix is an error, as on the device."""

from __future__ import annotations

import torch
from torch import Tensor

from ...ge import kernel


def _adjoint_if(x: Tensor, adjoint: bool) -> Tensor:
    return x.mH if adjoint else x


@kernel("Cholesky")
def cholesky(x: Tensor) -> Tensor:
    return torch.linalg.cholesky(x)


@kernel("MatrixInverse")
def inverse(x: Tensor, *, adjoint: bool = False) -> Tensor:
    return torch.linalg.inv(_adjoint_if(x, adjoint))


@kernel("MatrixSolve", same=("matrix", "rhs"))
def solve(matrix: Tensor, rhs: Tensor, *, adjoint: bool = False) -> Tensor:
    return torch.linalg.solve(_adjoint_if(matrix, adjoint), rhs)


@kernel("MatrixDeterminant")
def determinant(x: Tensor) -> Tensor:
    return torch.linalg.det(x)


@kernel("LogMatrixDeterminant")
def log_determinant(x: Tensor) -> tuple[Tensor, Tensor]:
    sign, logarithm = torch.linalg.slogdet(x)
    return sign, logarithm


@kernel("Qr")
def qr(x: Tensor, *, full_matrices: bool = False) -> tuple[Tensor, Tensor]:
    q, r = torch.linalg.qr(x, "complete" if full_matrices else "reduced")
    return q, r


@kernel("SelfAdjointEig")
def eigen(x: Tensor, *, compute_v: bool = True) -> tuple[Tensor, Tensor]:
    # Eager calls under tracing always compute vectors; without them LAPACK rounds the values differently.
    values, vectors = torch.linalg.eigh(x)
    return values, (vectors if compute_v else x.new_empty(0))


@kernel("Svd")
def singular(x: Tensor, *, compute_uv: bool = True, full_matrices: bool = False) -> tuple[Tensor, Tensor, Tensor]:
    u, sigma, vh = torch.linalg.svd(x, full_matrices)
    return (sigma, u, vh.mH) if compute_uv else (sigma, x.new_empty(0), x.new_empty(0))
