"""What quantised experts share: tokens go to the rows of their experts, are gated between two products, come back."""

from __future__ import annotations

from abc import abstractmethod

import torch
from graph_quant.nn.experts.products import Routed, combine
from graph_quant.nn.experts.source import Activation, is_silu
from torch import Tensor, nn

# Buffers that tokens are quantised with before they have an expert; all others have a part for each expert.
OF_TOKENS = ("gate_up_smooth", "multiplier", "zero_point")
# What the kernel that restores, gates and quantises rows in groups takes: at most so many columns, in such units.
_WIDEST, _UNIT = {"dynamic": 10496, "static": 9472}, 64


class QuantisedExperts(nn.Module):
    """``sum over k of top_k_weights * down(act(gate(x)) * up(x))`` on grouped products.

    Takes what transformers gives its experts: hidden states (tokens, k), at least one, in the dtype of the weights that
    were quantised, chosen experts and their weights (tokens, top_k). Contributions are added up in the order of top_k,
    of bfloat16 in float32 and of float16 in float16.

    Buffers: ``gate_up`` (experts, k, 2i) and ``down`` (experts, i, k), int4 as int32 at an eighth of the width, and
    their scales ``gate_up_scale`` and ``down_scale``.
    """

    def __init__(self, act_fn: Activation, **buffers: Tensor | None) -> None:
        super().__init__()
        self.gate_up: Tensor
        self.gate_up_scale: Tensor
        self.down: Tensor
        self.down_scale: Tensor
        self.act_fn = act_fn
        self.chosen_from: int | None = None  # how many experts tokens choose from, where some are elsewhere
        for name, tensor in buffers.items():
            self.register_buffer(name, tensor)

    @property
    def experts(self) -> int:
        """How many there are to choose from."""
        return self.gate_up.size(0) if self.chosen_from is None else self.chosen_from

    def forward(self, hidden_states: Tensor, top_k_index: Tensor, top_k_weights: Tensor) -> Tensor:
        """The result for each token."""
        routed = self.route(hidden_states, top_k_index)
        return combine(self.compute(routed, hidden_states.dtype), routed, top_k_weights)

    @abstractmethod
    def route(self, hidden_states: Tensor, top_k_index: Tensor) -> Routed:
        """Tokens to the rows of their experts."""

    @abstractmethod
    def compute(self, routed: Routed, dtype: torch.dtype) -> Tensor:
        """Both products and what is between them, on rows sorted by expert."""

    def gated(self, gate_up: Tensor) -> Tensor:
        """``act(gate) * up`` of rows in half precision, as one operator where the activation is SiLU."""
        if is_silu(self.act_fn):
            result: Tensor = torch.ops.npu.npu_swiglu(gate_up, dim=-1)
            return result
        gate, up = gate_up.chunk(2, -1)
        return self.act_fn(gate) * up

    def extra_repr(self) -> str:
        """What printing a model shows."""
        experts, hidden, _ = self.gate_up.shape
        return f"experts={experts}, hidden={hidden}, inside={self.down.size(1)}"


def fits_one_kernel(act_fn: Activation, width: int, kind: str) -> bool:
    """Whether npu_dequant_swiglu_quant serves rows of ``width``, gates and ups together."""
    return is_silu(act_fn) and width % _UNIT == 0 and width <= _WIDEST[kind]


def scale_dtype(dtype: torch.dtype) -> torch.dtype:
    """The dtype of the scales of int8 weights where a product gives ``dtype``."""
    return torch.bfloat16 if dtype == torch.bfloat16 else torch.float32
