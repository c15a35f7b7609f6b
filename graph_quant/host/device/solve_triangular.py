"""Triangular systems, solved as in graphs: strides, and a diagonal that is not written, decide bits on the CPU."""

from __future__ import annotations

from torch import Tensor

from ...reference.composed import solve_triangular
from .kernels import Kernel

NAME = "aten::linalg_solve_triangular"


def as_in_graphs(kernel: Kernel) -> Kernel:
    """``kernel``, given what GE's node takes."""

    def serve(matrix: Tensor, other: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False) -> Tensor:
        return solve_triangular(matrix, other, upper, left, unitriangular, kernel)

    return serve
