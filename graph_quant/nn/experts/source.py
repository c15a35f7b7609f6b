"""Float experts of a model: two tensors, as in transformers, or a list of gated MLPs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from graph_quant.nn.rows import check_half
from torch import Tensor, nn

Activation = Callable[[Tensor], Tensor]

# The linears of one expert in a list: gate, up and down.
_NAMES = (("gate_proj", "up_proj", "down_proj"), ("w1", "w3", "w2"))
# Attributes that transformers sets on its own experts, their supported values, and why others are not supported.
_TRAITS = {
    "has_gate": (True, "they have no gate"),
    "is_concatenated": (True, "gate and up are interleaved"),
    "has_bias": (False, "they have biases"),
    "has_post_expert_norm": (False, "a norm follows each expert"),
}


@dataclass(frozen=True)
class FloatExperts:
    """``gate_up`` (experts, 2i, k), the gates first, ``down`` (experts, k, i), and the activation of the gates."""

    gate_up: Tensor
    down: Tensor
    act_fn: Activation

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the weights, and so of the tokens."""
        return self.gate_up.dtype


def is_experts(module: nn.Module) -> bool:
    """Whether a module is gated experts called with hidden states, top-k indices and top-k weights."""
    if isinstance(module, nn.ModuleList):
        return _takes_routing(module) and _members(module) is not None
    return _has_tensors(module)


def unsupported_reason(module: nn.Module) -> str:
    """Return why experts are not supported; empty if they are."""
    return next((why for trait, (value, why) in _TRAITS.items() if getattr(module, trait, value) is not value), "")


def custom_forward_reason(module: nn.Module) -> str:
    """Return why the forward of experts may differ from transformers'; empty if it is known not to."""
    attributes = vars(module)
    if not all(name in attributes for name in _TRAITS):
        return "may compute something of its own"
    gate = getattr(type(module), "_apply_gate", None)
    if gate is not None and gate.__module__ != "transformers.integrations.moe":
        return "has a gate of its own"
    return "holds a part of the experts" if attributes.get("_is_expert_parallel") else ""


def float_experts(name: str, module: nn.Module) -> FloatExperts:
    """Return the weights of ``module``; errors start with ``name``."""
    if why := unsupported_reason(module):
        raise TypeError(f"{name}: experts of {type(module).__name__} are not supported: {why}")
    source = _from_list(module) if isinstance(module, nn.ModuleList) else _from_tensors(module)
    if source is None:
        raise TypeError(
            f"{name}: experts must have gate_up_proj, down_proj and act_fn, as transformers' experts, or be a "
            "ModuleList of MLPs with gate_proj, up_proj, down_proj and act_fn and no biases, "
            f"got {type(module).__name__}"
        )
    check_half(name, "the experts' weights", source.dtype)
    return source


def _has_tensors(module: nn.Module) -> bool:
    gate_up, down = getattr(module, "gate_up_proj", None), getattr(module, "down_proj", None)
    if not (isinstance(gate_up, Tensor) and isinstance(down, Tensor) and gate_up.dim() == down.dim() == 3):
        return False
    is_transposed = getattr(module, "is_transposed", False)
    width, inside = (gate_up.size(2), down.size(1)) if is_transposed else (gate_up.size(1), down.size(2))
    return width == 2 * inside and callable(getattr(module, "act_fn", None))


def _from_tensors(module: nn.Module) -> FloatExperts | None:
    if not _has_tensors(module):
        return None
    source: Any = module
    gate_up, down = source.gate_up_proj.detach(), source.down_proj.detach()
    if getattr(module, "is_transposed", False):
        gate_up, down = gate_up.mT, down.mT
    return FloatExperts(gate_up, down, source.act_fn)


def _takes_routing(module: nn.Module) -> bool:
    if type(module).forward is nn.Module.forward:
        return False
    return len(inspect.signature(module.forward).parameters) >= 3


def _members(module: nn.ModuleList) -> Sequence[str] | None:
    """Return the names of the members' linears if all members are gated MLPs without biases."""
    for names in _NAMES:
        linears = [getattr(expert, name, None) for expert in module for name in names]
        plain = all(type(linear) is nn.Linear and linear.bias is None for linear in linears)
        if linears and plain and all(callable(getattr(expert, "act_fn", None)) for expert in module):
            return names
    return None


def _from_list(module: nn.ModuleList) -> FloatExperts | None:
    names = _members(module)
    if names is None:
        return None
    members: list[Any] = list(module)
    gates, ups, downs = ([getattr(expert, name).weight.detach() for expert in members] for name in names)
    gate_up = torch.stack([torch.cat(pair) for pair in zip(gates, ups, strict=True)])
    return FloatExperts(gate_up, torch.stack(downs), members[0].act_fn)


def is_silu(act_fn: Activation) -> bool:
    """Whether the NPU's gated operators compute ``act_fn``."""
    return act_fn is nn.functional.silu or type(act_fn).__name__ in ("SiLU", "SiLUActivation")
