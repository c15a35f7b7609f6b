"""Rules that norms with static quantisation share on Ascend 950."""

from __future__ import annotations

import torch
from graph_quant.meta.rules import Rules
from torch import Tensor


def check_scale_dtypes(
    rules: Rules,
    x_name: str,
    x: Tensor,
    scale_name: str,
    scale: Tensor,
    zero_points: dict[str, Tensor | None],
    *,
    may_be_int8: bool = False,
) -> None:
    """Check that scale has the dtype of x or float32, and that zero points have a dtype that goes with both.

    Args:
        rules: The rules of the call.
        x_name: The name of ``x``.
        x: The tensor that is normalised.
        scale_name: The name of ``scale``.
        scale: The scale of the first result.
        zero_points: Zero points by name.
        may_be_int8: Whether zero points beside a scale of half precision may be int8.
    """
    rules.dtype(scale_name, scale, (x.dtype, torch.float32), f" beside {x_name} of {x.dtype}")
    if scale.dtype != torch.float32:
        allowed = (scale.dtype, torch.int8) if may_be_int8 else (scale.dtype,)
    elif x.dtype == torch.float32:
        allowed = (torch.float32,)
    else:
        allowed = (torch.float32, torch.int32)
    for name, tensor in zero_points.items():
        if tensor is not None:
            rules.dtype(name, tensor, allowed, f" beside {x_name} of {x.dtype} and {scale_name} of {scale.dtype}")
