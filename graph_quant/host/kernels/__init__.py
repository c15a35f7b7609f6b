"""The engine's kernels, one file for each family; the kernel of an npu operator is next to its reference.

A lookup here loads the module that registers the kernel in ``graph_quant.ge.kernels``.
"""

from ...ge import (
    CONSTANT_KERNELS,
    KERNELS,
    LONGEST_SIZES,
    SIZE_KERNELS,
    Input,
    InputState,
    Kernel,
    choose_kernel,
    facts,
    is_constant_folded,
)
from .matmul import grouped_matmul_with_layout, matmul_with_layout

__all__ = [
    "CONSTANT_KERNELS",
    "KERNELS",
    "LONGEST_SIZES",
    "SIZE_KERNELS",
    "Input",
    "InputState",
    "Kernel",
    "choose_kernel",
    "facts",
    "grouped_matmul_with_layout",
    "is_constant_folded",
    "matmul_with_layout",
]
