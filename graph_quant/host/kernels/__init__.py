"""The engine's kernels, a file a family; those of an operator stand beside its reference.

Asking here fills the tables of ``graph_quant.ge.kernels`` with what a graph needs of them.
"""

from ...ge import (
    CONSTANT_KERNELS,
    KERNELS,
    LONGEST_SIZES,
    SIZE_KERNELS,
    Fed,
    Input,
    Kernel,
    choose,
    facts,
    is_folded,
    look_in,
)
from .matmul import grouped_product_as_laid_out, product_as_laid_out

__all__ = [
    "CONSTANT_KERNELS",
    "KERNELS",
    "LONGEST_SIZES",
    "SIZE_KERNELS",
    "Fed",
    "Input",
    "Kernel",
    "choose",
    "facts",
    "grouped_product_as_laid_out",
    "is_folded",
    "product_as_laid_out",
]

look_in(__name__, "graph_quant.reference")
