"""add, sub and rsub with alpha in half precision, rounded once: the CPU rounds twice where a vector is not full."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload

from ...reference.half_precision import HALF_DTYPES, add_scaled
from ..alias import as_cpu, to_npu
from .kernels import Kernel


def _round_once(op: OpOverload, kernel: Kernel) -> Kernel:
    """Compute sums in half precision with alpha in float32; leave all others to ``kernel``."""
    name = op.name().removeprefix("aten::")
    is_rsub, in_place = name.startswith("rsub"), op._schema.name.endswith("_")
    sign = 1 if name.startswith("add") else -1

    def wrapper(x: Any, other: Any, alpha: Any = 1, **out: Tensor) -> Any:
        dtype = None if alpha == 1 else _half_dtype(x, other)
        if dtype is None or (in_place and x.dtype != dtype) or _are_mixed(x, other):
            return kernel(x, other, **({} if _is_one(alpha) else {"alpha": alpha}), **out)
        first, second = (_as_operand(value, dtype) for value in ((other, x) if is_rsub else (x, other)))
        total = add_scaled(first, second, torch.tensor(sign * alpha, dtype=dtype))
        if _is_on_npu(x) or _is_on_npu(other):  # not so in a replay
            total = to_npu(total)
        if out:  # the zero that changes no bit: -0.0 + -0.0 is -0.0
            return kernel(total, torch.tensor(0.0 if sign < 0 else -0.0, dtype=dtype), **out)
        return x.copy_(total) if in_place else total

    return wrapper


def _is_one(alpha: Any) -> bool:
    return type(alpha) is int and alpha == 1


def _half_dtype(x: Any, other: Any) -> torch.dtype | None:
    """Return the dtype in which two operands are added, if it is one of half precision."""
    dtype = torch.result_type(x, other)
    return dtype if dtype in HALF_DTYPES else None


def _as_operand(value: Any, dtype: torch.dtype) -> Tensor:
    if not isinstance(value, Tensor):
        return torch.tensor(value, dtype=dtype)
    return (value if value.is_cpu else as_cpu(value)).to(dtype).contiguous()


def _is_on_npu(value: Any) -> bool:
    return isinstance(value, Tensor) and not value.is_cpu


def _are_mixed(*values: Any) -> bool:
    """Whether an npu tensor meets a CPU tensor that has dimensions, which the kernel refuses."""
    on_cpu = any(isinstance(value, Tensor) and value.is_cpu and value.dim() for value in values)
    return on_cpu and any(map(_is_on_npu, values))


def _round_each_once(op: OpOverload, kernel: Kernel) -> Kernel:
    """Apply ``_round_once`` to the tensors of lists."""
    single: Any = torch.add if op.name().startswith("aten::_foreach_add") else torch.sub
    in_place = op._schema.name.endswith("_")

    def wrapper(tensors: Sequence[Tensor], others: Any, alpha: Any = 1) -> Any:
        if alpha == 1 or all(tensor.dtype not in HALF_DTYPES for tensor in tensors):
            return kernel(tensors, others, **({} if _is_one(alpha) else {"alpha": alpha}))
        column = others if isinstance(others, (list, tuple)) else [others] * len(tensors)
        rounded = _round_once(_SINGLE[single], _SINGLE[single])
        totals = [rounded(one, other, alpha=alpha) for one, other in zip(tensors, column, strict=True)]
        if not in_place:
            return totals
        for tensor, total in zip(tensors, totals, strict=True):
            tensor.copy_(total)
        return None

    return wrapper


_SINGLE: dict[Any, OpOverload] = {torch.add: torch.ops.aten.add.Tensor, torch.sub: torch.ops.aten.sub.Tensor}
_FORMS = ("add.Tensor", "add_.Tensor", "add.out", "sub.Tensor", "sub_.Tensor", "sub.out")
_FORMS_OF_NUMBERS = ("add.Scalar", "add_.Scalar", "sub.Scalar", "sub_.Scalar", "rsub.Scalar")
_LISTS = ("_foreach_add.List", "_foreach_add_.List", "_foreach_sub.List", "_foreach_sub_.List")
WRAPPERS = {
    **dict.fromkeys((f"aten::{name}" for name in (*_FORMS, *_FORMS_OF_NUMBERS, "rsub.Tensor")), _round_once),
    **dict.fromkeys((f"aten::{name}" for name in _LISTS), _round_each_once),
}
