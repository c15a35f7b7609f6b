"""_foreach operators, applied to each tensor of the list: those that TorchAir does not lower, and those with numbers.

TorchAir rounds the number to the dtype of the tensors. Half precision, and powers of all dtypes, are decomposed.

Also ``prims::fma``, which Dynamo traces for ``addcmul_`` and ``addcdiv_`` with a value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import repeat
from typing import Any

import torch
from graph_quant.converters.decompositions import decomposes, decomposes_outside
from graph_quant.dispatcher import overload
from graph_quant.reference.half_precision import HALF_DTYPES
from torch import Tensor

aten = torch.ops.aten

# By the name after _foreach_, and the overload.
_SINGLE: dict[str, Callable[..., Tensor]] = {
    "neg.default": torch.neg,
    "reciprocal.default": torch.reciprocal,
    "rsqrt.default": torch.rsqrt,
    "sign.default": torch.sign,
    "sqrt.default": torch.sqrt,
    "zero.default": torch.zeros_like,
    "copy.default": aten.copy.default,
    "add.Tensor": torch.add,
    "mul.Tensor": torch.mul,
    "div.Tensor": torch.div,
    "lerp.ScalarList": torch.lerp,
    **dict.fromkeys((f"clamp_min.{form}" for form in ("List", "Scalar", "ScalarList")), torch.clamp_min),
    **dict.fromkeys((f"clamp_max.{form}" for form in ("List", "Scalar", "ScalarList")), torch.clamp_max),
}


def _apply_to_all(single: Callable[..., Tensor]) -> Callable[..., list[Tensor]]:
    def decomposed(tensors: Sequence[Tensor], *others: Any, **kwargs: Any) -> list[Tensor]:
        columns = (other if isinstance(other, (list, tuple)) else repeat(other, len(tensors)) for other in others)
        return [single(*arguments, **kwargs) for arguments in zip(tensors, *columns, strict=True)]

    return decomposed


for _name, _single in _SINGLE.items():
    decomposes(overload(f"aten::_foreach_{_name}"))(_apply_to_all(_single))


def _add_product(add: Callable[..., Tensor]) -> Callable[..., Tensor]:
    return lambda x, one, other, value=1: add(x, one, other, value=value)


# TorchAir lowers these, and rounds the numbers.
_WITH_NUMBERS: dict[str, Callable[..., Tensor]] = {
    "mul": torch.mul,
    "div": torch.div,
    "addcmul": _add_product(torch.ops.aten.addcmul.default),
    "addcdiv": _add_product(torch.ops.aten.addcdiv.default),
}


def _in_half_precision(single: Callable[..., Tensor]) -> Callable[..., Any]:
    apply = _apply_to_all(single)

    def decomposed(tensors: Sequence[Tensor], *others: Any) -> Any:
        return apply(tensors, *others) if any(tensor.dtype in HALF_DTYPES for tensor in tensors) else NotImplemented

    return decomposed


for _name, _single in _WITH_NUMBERS.items():
    for _form in ("Scalar", "ScalarList"):
        decomposes(overload(f"aten::_foreach_{_name}.{_form}"))(_in_half_precision(_single))
decomposes(aten._foreach_lerp.Scalar)(_in_half_precision(torch.lerp))
decomposes(aten._foreach_pow.Scalar, aten._foreach_pow.ScalarList)(_apply_to_all(torch.pow))


@decomposes_outside("prims::fma")
def fma(a: Tensor, b: Tensor | float, c: Tensor) -> Tensor:
    """``a * b + c``, rounded once."""
    return torch.addcmul(c, a, b) if isinstance(b, Tensor) else torch.add(c, a, alpha=b)
