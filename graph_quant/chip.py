"""Which chip the rules and lowerings are for: they are those of Ascend A2 and A3, and other chips have more."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch_npu
from graph_quant.refusals import Refusal


def is_950() -> bool:
    """Whether this process runs on Ascend 950."""
    name = str(torch_npu.npu.get_device_name())
    return "Ascend950" in name or "Ascend910_95" in name


def is_310p() -> bool:
    """Whether this process runs on Ascend 310P."""
    return "Ascend310P" in str(torch_npu.npu.get_device_name())


def or_upstream(ours: Callable[..., Any], upstream: Callable[..., Any] | None) -> Callable[..., Any]:
    """``ours``; a call that it refuses is left to ``upstream`` on Ascend 950 and 310P, which have other kernels."""
    if upstream is None:
        return ours

    @functools.wraps(ours)
    def choose(*args: Any, **kwargs: Any) -> Any:
        try:
            return ours(*args, **kwargs)
        except Refusal:
            if is_950() or is_310p():
                return upstream(*args, **kwargs)
            raise

    return choose


def is_a3() -> bool:
    """Whether this process runs on Atlas A3, or a host that stands for it."""
    return "Ascend910_93" in str(torch_npu.npu.get_device_name())
