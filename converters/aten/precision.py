"""Scalars that half precision cannot represent: ATen computes with them in float32, and rounds once."""

from __future__ import annotations

from typing import Any

import torch
from graph_quant.converters.lowering import in_type
from torchair._ge_concrete_graph import ge_apis as ge
from torchair.ge._ge_graph import DataType, Tensor

_HALVES = {DataType.DT_FLOAT16: torch.float16, DataType.DT_BF16: torch.bfloat16}


def is_rounded(number: Any, dtype: Any) -> bool:
    """Whether half precision, as ``dtype`` is, would round ``number``, which may stand in a tensor of one element."""
    if dtype not in _HALVES:
        return False
    if isinstance(number, Tensor):
        return number.dtype not in (dtype, DataType.DT_BOOL)
    return torch.tensor(float(number), dtype=_HALVES[dtype]).item() != float(number)


def is_number(value: Any) -> bool:
    """Whether it is a tensor without dimensions, or a number that the run is given."""
    return isinstance(value, Tensor) and not (isinstance(value.meta, torch.Tensor) and value.meta.dim())


def in_float32(make: Any, dtype: Any, *values: Any) -> Tensor:
    """A node of float32, its result in ``dtype``."""
    return ge.Cast(make(*in_type(DataType.DT_FLOAT, *values)), dst_type=dtype)
