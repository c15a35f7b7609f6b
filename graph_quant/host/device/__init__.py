"""Eager PyTorch on the host NPU: every ATen operator runs on the CPU, over the same memory.

Names are loaded when they are first used: the operators of the records are registered after those of ATen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...discovery import load_attribute

if TYPE_CHECKING:
    from .arguments import mixed_devices_error as mixed_devices_error
    from .gradients import NO_GRADIENT as NO_GRADIENT
    from .gradients import missing_gradient_error as missing_gradient_error
    from .kernels import allows_mixed_devices as allows_mixed_devices
    from .matmul import find_product as find_product
    from .operators import register_names as register_names
    from .operators import register_records as register_records
    from .registry import find_matching_out as find_matching_out
    from .registry import register as register
    from .registry import wrapped_kernel as wrapped_kernel
    from .rng import cpu_generator as cpu_generator
    from .rng import default_generator as default_generator

_EXPORTS = {
    "arguments": ("mixed_devices_error",),
    "gradients": ("NO_GRADIENT", "missing_gradient_error"),
    "kernels": ("allows_mixed_devices",),
    "operators": ("register_names", "register_records"),
    "matmul": ("find_product",),
    "registry": ("find_matching_out", "register", "wrapped_kernel"),
    "rng": ("cpu_generator", "default_generator"),
}
__all__ = [name for names in _EXPORTS.values() for name in names]


def __getattr__(name: str) -> Any:
    attribute = globals()[name] = load_attribute(name, _EXPORTS, __name__)
    return attribute
