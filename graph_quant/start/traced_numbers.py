"""Operators with Python numbers that Dynamo writes as several others, which round in between.

On npu tensors they are traced as they are, so that a graph rounds as eager execution does. Numbers that are symbols of
the graph, or tensors, stay decomposed: these operators have no overload for them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch

_Handler = Callable[..., Any]


def keep_functions(module: ModuleType) -> None:
    """Trace ``torch._foreach_lerp_`` and ``torch.addcdiv`` with a number."""
    variable = module.TorchInGraphFunctionVariable
    handlers_of_torch: Callable[[], dict[Any, _Handler]] = variable._get_handlers

    @functools.cache
    def _get_handlers() -> dict[Any, _Handler]:
        handlers = handlers_of_torch()
        for function in (torch._foreach_lerp_, torch.addcdiv):
            if function in handlers:
                handlers[function] = _unless_plain(handlers[function])
        return handlers

    variable._get_handlers = staticmethod(_get_handlers)


def _unless_plain(handler: _Handler) -> _Handler:
    def handle(variable: Any, tx: Any, *args: Any, **kwargs: Any) -> Any:
        if len(args) >= 3 and _is_number(kwargs.get("value", args[2])) and _is_on_npu(args[0], tx):
            return None  # traced as it is
        return handler(variable, tx, *args, **kwargs)

    return handle


def keep_methods(module: ModuleType) -> None:
    """Trace ``Tensor.addcmul_`` and ``Tensor.addcdiv_`` with a number."""
    variable = module.TensorVariable
    for name in ("method_addcmul_", "method_addcdiv_"):
        if hasattr(variable, name):
            setattr(variable, name, _unless_plain_method(getattr(variable, name)))


def _unless_plain_method(method: _Handler) -> _Handler:
    @functools.wraps(method)
    def handle(self: Any, tx: Any, tensor1: Any, tensor2: Any, *, value: Any = None) -> Any:
        if _is_number(value) and _is_on_npu(self, tx):
            return None
        return method(self, tx, tensor1, tensor2, value=value)

    return handle


def _is_number(variable: Any) -> bool:
    if variable is None or not variable.is_python_constant():
        return False
    return isinstance(variable.as_python_constant(), (float, int))


def _is_on_npu(variable: Any, tx: Any) -> bool:
    """Whether a tensor, or the first of a list, is an npu tensor."""
    if hasattr(variable, "items"):
        items = variable.unpack_var_sequence(tx)
        return bool(items) and not hasattr(items[0], "items") and _is_on_npu(items[0], tx)
    value = variable.as_proxy().node.meta.get("example_value")
    return isinstance(value, torch.Tensor) and value.device.type == "npu"
