"""Trials of the engine's kernels: for each GE type generated arguments, and what something else says of them.

What is expected comes from an ATen operator or from NumPy, never from the kernel. `TRIALS` holds a function for
each type.
"""

from support.kernel_samples import (  # noqa: F401
    activations,
    arithmetic,
    convolutions,
    elementwise,
    generated,
    images,
    indices,
    lists,
    moves,
    norms,
    products,
    randoms,
    reductions,
    routing,
    systems,
    volumes,
)
from support.kernel_samples.base import TRIALS, Case

__all__ = ["TRIALS", "Case"]
