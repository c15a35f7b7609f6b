"""What PyTorch's dispatcher is asked and told: operators by name, their inference, and operators of this package."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._library.simple_registry import singleton
from torch._ops import OpOverload

from .releases.alternatives import register_ordered_effect

_own = torch.library.Library("graph_quant", "FRAGMENT")
# What compiled code may call without asking the dispatcher: it computes on CPU tensors, and nobody sees when.
STEPS: dict[str, Callable[..., Any]] = {}


def overload(name: str) -> OpOverload:
    """The operator of a dispatcher name such as npu::npu_grouped_matmul.List."""
    namespace, _, rest = name.partition("::")
    packet, _, variant = rest.partition(".")
    found: OpOverload = getattr(getattr(getattr(torch.ops, namespace), packet), variant or "default")
    return found


def is_defined(name: str) -> bool:
    """Whether a package that is imported defines the operator of a dispatcher name."""
    namespace, _, rest = name.partition("::")
    packet, _, variant = rest.partition(".")
    return hasattr(getattr(getattr(torch.ops, namespace), packet, None), variant or "default")


def infer_with(library: torch.library.Library, name: str, infer: Callable[..., Any]) -> None:
    """Let ``infer`` give an operator's results without their values, while ``library`` lives.

    What torch.library.register_fake does, without its look through all modules for the caller's file, which takes a
    fifth of a second once TorchAir is there.
    """
    holder = singleton.find(name).fake_impl
    library._registration_handles.append(
        holder.register(infer, source=infer.__module__, lib=library, allow_override=True)
    )


def step(
    schema: str,
    compute: Callable[..., Any],
    infer: Callable[..., Any],
    *,
    key: str | None = None,
    ordered: bool = False,
) -> OpOverload:
    """A computation of CPU tensors, or of what ``key`` says, as one step to tracers, which do not look into it.

    What is ``ordered`` does something that others see: compilers neither drop it nor change its turn.
    """
    name, _, arguments = schema.partition("(")
    _own.define(schema)
    # One without a tensor among its arguments has no device to be found by.
    takes_tensors = "Tensor" in arguments.partition("->")[0]
    _own.impl(name, compute, key or ("CPU" if takes_tensors else "CompositeExplicitAutograd"))
    infer_with(_own, f"graph_quant::{name}", infer)
    if takes_tensors and key is None and not ordered:
        STEPS[name] = compute
    if ordered:
        register_ordered_effect(_own, f"graph_quant::{name}")
    return overload(f"graph_quant::{name}")
