"""What TorchAir's functions of GE operators lack in older releases."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from ..refusals import Refusal

_INT8 = 2  # of GE's data types
# Attributes that older releases lack, and the value that their absence means.
ADDED_ATTRIBUTES: Mapping[str, Mapping[str, Any]] = {
    "AddRmsNormDynamicQuant": {"dst_type": _INT8},
    "AllGatherMatmulV2": {"comm_mode": None},
    "DynamicMxQuant": {"max_low_bound": 0.0},
    "MatmulReduceScatterV2": {"comm_mode": "ai_cpu"},
    "MoeFinalizeRoutingV2": {"k": 1},
}


def complete_ge_functions(functions: dict[str, Any]) -> None:
    """Let TorchAir's functions of GE operators take the arguments that older releases lack, at the one value they mean.

    Args:
        functions: The namespace of ``torchair._ge_concrete_graph.ge_apis``.
    """
    for operator, newer in ADDED_ATTRIBUTES.items():
        if operator not in functions:
            continue
        absent = newer.keys() - inspect.signature(functions[operator]).parameters.keys()
        if absent:
            functions[operator] = _with_arguments(functions[operator], {name: newer[name] for name in absent})


def _with_arguments(function: Callable[..., Any], newer: Mapping[str, Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        for name, default in newer.items():
            if (value := kwargs.pop(name, default)) != default:
                absent = f"GE's {function.__name__} has no {name} in the installed torch_npu"
                raise Refusal(f"{absent}: it must be {default}, got {value}")
        return function(*args, **kwargs)

    return call
