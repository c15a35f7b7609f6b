"""Operators that eager mode decomposes as graphs do, so that both round alike."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch._ops import OpOverload

from ...dispatcher import overload
from ...reference.composed import PARTIAL, PYTORCH_DECOMPOSITIONS, ROUNDING
from .kernels import Kernel


def _pytorch_decomposition(name: str) -> Kernel:
    """Return PyTorch's own decomposition, imported on the first call because the import is slow."""

    @cache
    def decomposition() -> Kernel:
        from torch._decomp import decomposition_table

        return decomposition_table[overload(name)]  # type: ignore[no-any-return]

    def kernel(*args: Any, **kwargs: Any) -> Any:
        return decomposition()(*args, **kwargs)

    return kernel


COMPOSED: dict[str, Kernel] = {
    **{f"aten::{name}": function for name, function in ROUNDING.items()},
    **{f"aten::{name}": _pytorch_decomposition(f"aten::{name}") for name in PYTORCH_DECOMPOSITIONS},
}


def _decompose_some(op: OpOverload, kernel: Kernel) -> Kernel:
    """Decompose the calls for which the decomposition does not return NotImplemented."""
    decompose = PARTIAL[op.name().removeprefix("aten::")]

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        result = decompose(*args, **kwargs)
        return kernel(*args, **kwargs) if result is NotImplemented else result

    return wrapper


WRAPPERS = {f"aten::{name}": _decompose_some for name in PARTIAL}


def _in_place(name: str) -> Kernel:
    """Return the in-place form of a decomposed operator."""
    decompose = COMPOSED[name]

    def kernel(x: Any, *args: Any, **kwargs: Any) -> Any:
        return x.copy_(decompose(x, *args, **kwargs))

    return kernel


_IN_PLACE_VARIANTS = (
    "addbmm",
    "addmv",
    "addr",
    "baddbmm",
    "hypot",
    "i0",
    "logit",
    "renorm",
    "sinc",
    "xlogy.Tensor",
    "xlogy.Scalar_Other",
)
COMPOSED |= {
    f"aten::{packet}_{dot}{variant}": _in_place(f"aten::{packet}{dot}{variant}")
    for packet, dot, variant in (name.partition(".") for name in _IN_PLACE_VARIANTS)
}


def _addmm_(x: Any, *args: Any, **kwargs: Any) -> Any:
    """Write the result of addmm into ``x``, so that both forms round alike."""
    return x.copy_(torch.addmm(x, *args, **kwargs))


COMPOSED["aten::addmm_"] = _addmm_
