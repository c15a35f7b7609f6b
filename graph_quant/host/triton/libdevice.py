"""``triton.language.extra.cann.libdevice``: functions of elements. Those that are missing are refused by name.

Halves are computed in float32 and rounded once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import triton.language as tl
from triton.language.extra import libdevice as upstream
from triton.runtime.interpreter import TensorHandle, interpreter_semantic

from .interpreter import BFLOAT16, np_dtype

_HALVES = (BFLOAT16, np.dtype(np.float16))
# The values of a function have the dtype of its arguments.
_VALUES: dict[str, np.ufunc] = {
    **{name: getattr(np, name) for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh", "exp", "exp2", "expm1")},
    **{name: getattr(np, name) for name in ("log", "log2", "log10", "log1p", "sqrt", "cbrt", "floor", "ceil", "trunc")},
    **{name: getattr(np, name) for name in ("rint", "hypot", "fmod", "copysign")},
    **{f"a{name}": getattr(np, f"arc{name}") for name in ("sin", "cos", "tan", "tan2", "sinh", "cosh", "tanh")},
    "nearbyint": np.rint,
    "pow": np.power,
    "abs": np.absolute,
    "fabs": np.absolute,
    "max": np.maximum,
    "min": np.minimum,
}
_CONDITIONS: dict[str, np.ufunc] = {
    **{name: getattr(np, name) for name in ("isnan", "isinf", "isfinite", "signbit")},
    "finitef": np.isfinite,
    "isfinited": np.isfinite,
    "isinfd": np.isinf,
    "isnand": np.isnan,
}


def _function(function: Callable[..., Any], of_condition: bool) -> Callable[..., tl.tensor]:
    def compute(*arguments: Any, **_: object) -> tl.tensor:
        blocks = [interpreter_semantic.to_tensor(argument) for argument in arguments]
        data = [block.handle.data for block in blocks]
        values = function(*(one.astype(np.float32) if one.dtype in _HALVES else one for one in data))
        scalar = tl.int1 if of_condition else blocks[0].dtype.scalar
        handle = TensorHandle(np.asarray(values).astype(np_dtype(scalar)), scalar)
        shapes = [block.shape for block in blocks if block.shape]
        return tl.tensor(handle, tl.block_type(scalar, list(np.shape(values))) if shapes else scalar)

    return compute


def _round_away_from_zero(values: Any) -> Any:
    whole = np.trunc(values)
    return whole + np.copysign(np.absolute(values - whole) >= 0.5, values)


def _reciprocal_root(values: Any) -> Any:
    return 1 / np.sqrt(values)


def _round(x: Any, **_: object) -> tl.tensor:
    """Round to the nearest integer, halves away from zero."""
    return _function(_round_away_from_zero, False)(x)


def _rsqrt(x: Any, **_: object) -> tl.tensor:
    return _function(_reciprocal_root, False)(x)


FUNCTIONS: dict[str, Callable[..., tl.tensor]] = {
    **{name: _function(function, False) for name, function in _VALUES.items()},
    **{name: _function(function, True) for name, function in _CONDITIONS.items()},
    "round": _round,
    "rsqrt": _rsqrt,
}


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return FUNCTIONS.get(name) or _refusal(name)


def _refusal(name: str) -> Callable[..., Any]:
    def refuse(*_args: object, **_kwargs: object) -> Any:
        raise NotImplementedError(f"libdevice.{name} is not supported on the host NPU")

    return refuse


def extend() -> None:
    """Replace Triton's own functions, which only name those of a device."""
    for name in [name for name, value in vars(upstream).items() if callable(value)]:
        setattr(upstream, name, __getattr__(name))
