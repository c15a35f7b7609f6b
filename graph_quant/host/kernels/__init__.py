"""The engine's kernels, a file a family; those of an operator stand beside its reference.

Asking here fills the tables of ``graph_quant.ge.kernels`` with what a graph needs of them.
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
    look_in,
)
from .matmul import grouped_product_as_laid_out, product_as_laid_out

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
    "grouped_product_as_laid_out",
    "is_constant_folded",
    "product_as_laid_out",
]

look_in(__name__, "graph_quant.reference")
