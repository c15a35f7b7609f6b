"""Eager calls of operators that are composed of others here as they are in graphs."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch

from ...dispatcher import overload
from ...reference.composed import PARTIAL, PYTORCH_DECOMPOSITIONS, ROUNDING
from .kernels import Kernel


def _of_pytorch(name: str) -> Kernel:
    """PyTorch's own decomposition, which takes a while to import."""

    @cache
    def decomposition() -> Kernel:
        from torch._decomp import decomposition_table

        return decomposition_table[overload(name)]  # type: ignore[no-any-return]

    def kernel(*args: Any, **kwargs: Any) -> Any:
        return decomposition()(*args, **kwargs)

    return kernel


COMPOSED: dict[str, Kernel] = {
    **{f"aten::{name}": function for name, function in ROUNDING.items()},
    **{f"aten::{name}": _of_pytorch(f"aten::{name}") for name in PYTORCH_DECOMPOSITIONS},
}


def in_part(name: str, kernel: Kernel) -> Kernel:
    """``kernel``, for the calls that are not composed."""
    compose = PARTIAL.get(name.removeprefix("aten::"))
    if compose is None:
        return kernel

    def serve(*args: Any, **kwargs: Any) -> Any:
        composed = compose(*args, **kwargs)
        return kernel(*args, **kwargs) if composed is NotImplemented else composed

    return serve


def _in_place(name: str) -> Kernel:
    """The same, written into the first argument."""
    compose = COMPOSED[name]

    def kernel(x: Any, *args: Any, **kwargs: Any) -> Any:
        return x.copy_(compose(x, *args, **kwargs))

    return kernel


_WRITTEN = (
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
    for packet, dot, variant in (name.partition(".") for name in _WRITTEN)
}


def _added(x: Any, *args: Any, **kwargs: Any) -> Any:
    """A product added in place, as it is added to a new tensor."""
    return x.copy_(torch.addmm(x, *args, **kwargs))


COMPOSED["aten::addmm_"] = _added
