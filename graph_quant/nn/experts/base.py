"""Base class of quantised experts: route tokens, multiply, gate, multiply, combine."""

from __future__ import annotations

from abc import abstractmethod

import torch
from graph_quant.nn.experts.products import Routed, combine
from graph_quant.nn.experts.source import Activation, is_silu
from torch import Tensor, nn

# Buffers that quantise tokens before routing; all other buffers have a leading expert dimension.
TOKEN_BUFFERS = ("gate_up_smooth", "multiplier", "zero_point")
# Limits of npu_dequant_swiglu_quant on the number of columns, and their unit.
_WIDEST, _UNIT = {"dynamic": 10496, "static": 9472}, 64


class QuantisedExperts(nn.Module):
    """Base class of quantised experts: ``sum(top_k_weights * down(act(gate(x)) * up(x)))`` on grouped products.

    The forward has the signature of transformers' experts. Contributions are added up in the order of top_k, bfloat16
    in float32 and float16 in float16. At least one token is needed.

    Args:
        act_fn: The activation of the gates.
        **buffers: The buffers below, and those of subclasses.

    Attributes:
        gate_up: (experts, k, 2i), the gates first; int4 as int32 (experts, k, 2i/8).
        gate_up_scale: The scales of ``gate_up``.
        down: (experts, i, k); int4 as int32 (experts, i, k/8).
        down_scale: The scales of ``down``.

    Examples:
        >>> experts = DynamicW8A8Experts.from_float(block.experts)
        >>> y = experts(hidden_states, top_k_index, top_k_weights)
    """

    def __init__(self, act_fn: Activation, **buffers: Tensor | None) -> None:
        super().__init__()
        self.gate_up: Tensor
        self.gate_up_scale: Tensor
        self.down: Tensor
        self.down_scale: Tensor
        self.act_fn = act_fn
        self.chosen_from: int | None = None  # all experts, if this rank holds some of them
        for name, tensor in buffers.items():
            self.register_buffer(name, tensor)

    @property
    def experts(self) -> int:
        """The number of experts, over all ranks."""
        return self.gate_up.size(0) if self.chosen_from is None else self.chosen_from

    def forward(self, hidden_states: Tensor, top_k_index: Tensor, top_k_weights: Tensor) -> Tensor:
        """Compute the weighted sum of the chosen experts for each token.

        Args:
            hidden_states: (tokens, k), in the dtype of the float weights.
            top_k_index: The chosen experts, (tokens, top_k).
            top_k_weights: Their weights, (tokens, top_k).

        Returns:
            The result, (tokens, k).
        """
        routed = self.route(hidden_states, top_k_index)
        return combine(self.compute(routed, hidden_states.dtype), routed, top_k_weights)

    @abstractmethod
    def route(self, hidden_states: Tensor, top_k_index: Tensor) -> Routed:
        """Copy tokens to the rows of their experts."""

    @abstractmethod
    def compute(self, routed: Routed, dtype: torch.dtype) -> Tensor:
        """Compute both products and the gate on rows sorted by expert."""

    def gated(self, gate_up: Tensor) -> Tensor:
        """Return ``act(gate) * up`` of half-precision rows, in one operator if the activation is SiLU."""
        if is_silu(self.act_fn):
            result: Tensor = torch.ops.npu.npu_swiglu(gate_up, dim=-1)
            return result
        gate, up = gate_up.chunk(2, -1)
        return self.act_fn(gate) * up

    def extra_repr(self) -> str:
        """Return the text that ``print(model)`` shows."""
        experts, hidden, _ = self.gate_up.shape
        return f"experts={experts}, hidden={hidden}, inside={self.down.size(1)}"


def fits_fused_swiglu(act_fn: Activation, width: int, kind: str) -> bool:
    """Whether npu_dequant_swiglu_quant supports the activation, and rows of ``width``, gates and ups together."""
    return is_silu(act_fn) and width % _UNIT == 0 and width <= _WIDEST[kind]


def scale_dtype(dtype: torch.dtype) -> torch.dtype:
    """Return the dtype of int8 weight scales for products in ``dtype``."""
    return torch.bfloat16 if dtype == torch.bfloat16 else torch.float32
