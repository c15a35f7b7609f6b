"""Checks of values, which only a call with data can make; the rules of ``graph_quant.meta`` see shapes and dtypes.

A check is one opaque operator to a tracer. Its result is used, so that no compiler drops or reorders it.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import torch
from graph_quant.dispatcher import step
from torch import Tensor

Check = Callable[..., Tensor]


def value_check(check: Check) -> Check:
    """Register a check of values as an operator, which compilers neither drop nor reorder.

    Args:
        check: A function with type annotations that raises, or returns its first tensor argument. Its result must be
            used in place of that argument.

    Returns:
        The function to call in a reference.

    Examples:
        >>> @value_check
        ... def check_index(index: Tensor, rows: int) -> Tensor:
        ...     if index.numel() and int(index.max()) >= rows:
        ...         raise IndexError(f"index must be below {rows}, got {int(index.max())}")
        ...     return index
    """
    name = f"{check.__module__.rpartition('.')[2]}_{check.__name__}"
    typed = inspect.signature(check, eval_str=True)
    checked = next(parameter for parameter, details in typed.parameters.items() if details.annotation is Tensor)

    @functools.wraps(check)
    def on_data(*args: Any, **kwargs: Any) -> Tensor:
        return check(*args, **kwargs).clone()

    def inferred(*args: Any, **kwargs: Any) -> Tensor:
        return torch.empty_like(typed.bind(*args, **kwargs).arguments[checked])

    on_data.__signature__ = typed  # type: ignore[attr-defined]
    operator = step(name + torch.library.infer_schema(on_data, mutates_args=()), on_data, inferred)

    @functools.wraps(check)
    def call(*args: Any, **kwargs: Any) -> Tensor:
        return operator(*args, **kwargs)  # type: ignore[no-any-return]

    return call
