"""Values of matrices without their vectors: computed with them, as in graphs, for LAPACK rounds otherwise alone."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from .kernels import Kernel


def _eigenvalues(kernel: Kernel) -> Kernel:
    def serve(x: Tensor, UPLO: str = "L", compute_v: bool = True) -> Any:  # noqa: N803
        values, vectors = kernel(x, UPLO, True)
        return values, (vectors if compute_v else x.new_empty(0))

    return serve


def _singular_values(kernel: Kernel) -> Kernel:
    def serve(x: Tensor, full_matrices: bool = False, compute_uv: bool = True, *, driver: str | None = None) -> Any:
        u, values, turned = kernel(x, full_matrices, True, driver=driver)
        return (u, values, turned) if compute_uv else (x.new_empty(0), values, x.new_empty(0))

    return serve


WITH_VECTORS = {"aten::_linalg_eigh": _eigenvalues, "aten::_linalg_svd": _singular_values}
