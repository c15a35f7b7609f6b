"""linalg operators computed as in graphs, because options decide the last bits of LAPACK's results on the CPU.

Eigenvalues and singular values are always computed with their vectors. Triangular systems are solved as GE's node does.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch._ops import OpOverload

from ...reference.composed import solve_triangular
from .kernels import Kernel


def _eigh(_op: OpOverload, kernel: Kernel) -> Kernel:
    def wrapper(x: Tensor, UPLO: str = "L", compute_v: bool = True) -> Any:  # noqa: N803
        eigenvalues, eigenvectors = kernel(x, UPLO, True)
        return eigenvalues, (eigenvectors if compute_v else x.new_empty(0))

    return wrapper


def _svd(_op: OpOverload, kernel: Kernel) -> Kernel:
    def wrapper(x: Tensor, full_matrices: bool = False, compute_uv: bool = True, *, driver: str | None = None) -> Any:
        u, s, vh = kernel(x, full_matrices, True, driver=driver)
        return (u, s, vh) if compute_uv else (x.new_empty(0), s, x.new_empty(0))

    return wrapper


def _solve_triangular(_op: OpOverload, kernel: Kernel) -> Kernel:
    def wrapper(a: Tensor, b: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False) -> Tensor:
        return solve_triangular(a, b, upper, left, unitriangular, kernel)

    return wrapper


WRAPPERS = {
    "aten::_linalg_eigh": _eigh,
    "aten::_linalg_svd": _svd,
    "aten::linalg_solve_triangular": _solve_triangular,
}
