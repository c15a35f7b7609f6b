"""Access to PyTorch's dispatcher: operators by name, their fake implementations, and operators of this package."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._library.simple_registry import singleton
from torch._ops import OpOverload

from .releases.alternatives import register_fake, register_ordered_effect

_own = torch.library.Library("graph_quant", "FRAGMENT")
# Functions that compiled code may call without the dispatcher: pure functions of CPU tensors.
STEPS: dict[str, Callable[..., Any]] = {}


def overload(name: str) -> OpOverload:
    """Return the operator of a dispatcher name such as npu::npu_grouped_matmul.List."""
    namespace, _, rest = name.partition("::")
    packet, _, variant = rest.partition(".")
    operator: OpOverload = getattr(getattr(getattr(torch.ops, namespace), packet), variant or "default")
    return operator


def is_defined(name: str) -> bool:
    """Whether a package that is imported defines the operator of a dispatcher name."""
    namespace, _, rest = name.partition("::")
    packet, _, variant = rest.partition(".")
    return hasattr(getattr(getattr(torch.ops, namespace), packet, None), variant or "default")


def infer_with(library: torch.library.Library, name: str, infer: Callable[..., Any]) -> None:
    """Register ``infer`` as an operator's fake implementation while ``library`` lives.

    As torch.library.register_fake, without its search of all modules for the caller's file, which takes 0.2 s once
    TorchAir is imported.
    """
    register_fake(library, name, singleton.find(name).fake_impl, infer)


def step(
    schema: str,
    compute: Callable[..., Any],
    infer: Callable[..., Any],
    *,
    key: str | None = None,
    ordered: bool = False,
) -> OpOverload:
    """Define an operator of this package for a function of CPU tensors, or of the dispatch key ``key``.

    Tracers do not look into it. An ``ordered`` operator has side effects: compilers neither drop nor reorder it.
    """
    name, _, arguments = schema.partition("(")
    _own.define(schema)
    # Without a tensor among its arguments there is no device to dispatch by.
    takes_tensors = "Tensor" in arguments.partition("->")[0]
    _own.impl(name, compute, key or ("CPU" if takes_tensors else "CompositeExplicitAutograd"))
    infer_with(_own, f"graph_quant::{name}", infer)
    is_pure = not (ordered or overload(f"graph_quant::{name}")._schema.is_mutable)
    if takes_tensors and key is None and is_pure:
        STEPS[name] = compute
    if ordered:
        register_ordered_effect(_own, f"graph_quant::{name}")
    return overload(f"graph_quant::{name}")
