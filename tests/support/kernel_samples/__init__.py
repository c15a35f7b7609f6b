"""Sample calls of the engine's kernels: for each GE type, generated arguments and expected results.

Expected results come from ATen or NumPy, never from the kernel. `KERNEL_SAMPLES` holds a function for
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
from support.kernel_samples.base import KERNEL_SAMPLES, Case

__all__ = ["KERNEL_SAMPLES", "Case"]
