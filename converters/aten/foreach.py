"""_foreach operators, applied to each tensor of the list: those that TorchAir does not lower, and those with numbers.

A node has one dtype for the tensors, the numbers and the results. Calls that promote to another, products in half
precision with numbers, and powers of all dtypes are decomposed.

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


# TorchAir lowers these, but rounds numbers to half precision, or the first of a list to the dtype of all others.
_LOWERED_UPSTREAM: dict[str, Callable[..., Tensor]] = {
    **{f"add.{form}": torch.add for form in ("Scalar", "ScalarList", "List")},
    **{f"sub.{form}": torch.sub for form in ("Scalar", "ScalarList", "List")},
    **{f"mul.{form}": torch.mul for form in ("Scalar", "ScalarList", "List")},
    **{f"div.{form}": torch.div for form in ("Scalar", "ScalarList", "List")},
    **{f"maximum.{form}": torch.clamp_min for form in ("Scalar", "ScalarList")},
    **{f"minimum.{form}": torch.clamp_max for form in ("Scalar", "ScalarList")},
    "maximum.List": torch.maximum,
    "minimum.List": torch.minimum,
    **{f"addcmul.{form}": _add_product(aten.addcmul.default) for form in ("Scalar", "ScalarList")},
    **{f"addcdiv.{form}": _add_product(aten.addcdiv.default) for form in ("Scalar", "ScalarList")},
    "lerp.Scalar": torch.lerp,
    "lerp.List": torch.lerp,
}
_ROUND_NUMBERS = ("mul", "div", "addcmul", "addcdiv", "lerp")


def _where_promoted(name: str, single: Callable[..., Tensor]) -> Callable[..., Any]:
    """Decompose calls whose results are not of the one dtype that all tensors have, which a node assumes."""
    apply = _apply_to_all(single)
    operator, _, form = name.partition(".")
    rounds_numbers = operator in _ROUND_NUMBERS and form != "List"

    def decomposed(tensors: Sequence[Tensor], *others: Any, **kwargs: Any) -> Any:
        values = [item for other in others for item in (other if isinstance(other, (list, tuple)) else [other])]
        dtypes = {value.dtype for value in (*tensors, *values) if isinstance(value, Tensor)}
        kinds = {type(value) for value in (*values, *kwargs.values()) if not isinstance(value, Tensor)}
        dtype = dtypes.pop()
        is_plain = not dtypes and len(kinds) < 2 and bool not in kinds
        if not dtype.is_floating_point:
            is_plain = is_plain and kinds <= {int} and operator not in ("div", "addcdiv")
        elif dtype in HALF_DTYPES:
            is_plain = is_plain and not rounds_numbers
        return NotImplemented if is_plain else apply(tensors, *others, **kwargs)

    return decomposed


for _name, _single in _LOWERED_UPSTREAM.items():
    decomposes(overload(f"aten::_foreach_{_name}"))(_where_promoted(_name, _single))
decomposes(aten._foreach_pow.Scalar, aten._foreach_pow.ScalarList)(_apply_to_all(torch.pow))


@decomposes_outside("prims::fma")
def fma(a: Tensor, b: Tensor | float, c: Tensor) -> Tensor:
    """``a * b + c``, rounded once."""
    return torch.addcmul(c, a, b) if isinstance(b, Tensor) else torch.add(c, a, alpha=b)
