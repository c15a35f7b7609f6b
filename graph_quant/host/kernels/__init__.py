"""Host kernels, a file a family. Importing the package fills the tables."""

from . import (
    activation,
    compare,
    convolution,
    elementwise,
    foreach,
    generate,
    index,
    join,
    matmul,
    move,
    normalise,
    pad,
    pool,
    quant,
    random,
    reduce,
    resize,
    scatter,
    shape,
    sizes,
    sort,
)
from .registry import HOST_KERNELS, KERNELS, Input, Kernel

FAMILIES = (
    activation,
    compare,
    convolution,
    elementwise,
    foreach,
    generate,
    index,
    join,
    matmul,
    move,
    normalise,
    pad,
    pool,
    quant,
    random,
    reduce,
    resize,
    scatter,
    shape,
    sizes,
    sort,
)

__all__ = ["HOST_KERNELS", "KERNELS", "Input", "Kernel"]
