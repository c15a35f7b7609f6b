"""A patch of the check that PyTorch makes of custom operators when a compiled function is called first."""

from types import ModuleType
from typing import Any


def let_out_overloads_return_out(module: ModuleType) -> None:
    """Accept that torch_npu's `out` overloads, which captures call, return `out`: their schemas do not say so.

    PyTorch checks the first call of a compiled function, and fails where the environment variable CI is set.
    """
    if not hasattr(module, "_check_custom_op_aliasing"):  # before torch 2.11
        return
    check = module._check_custom_op_aliasing

    def _check_custom_op_aliasing(name: str, *args: Any) -> None:
        if not (name.startswith("npu::") and name.endswith(".out")):
            check(name, *args)

    vars(module)["_check_custom_op_aliasing"] = _check_custom_op_aliasing
