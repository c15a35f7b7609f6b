"""A mixture of experts in int8, in place of the experts of a transformers model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from graph_quant.nn.grouped_w8a8 import GroupedW8A8Linear
from graph_quant.nn.observe import Range
from graph_quant.nn.routing import is_experts, route
from torch import Tensor, nn


class GroupedW8A8Experts(nn.Module):
    """``sum over k of top_k_weights * down(act(gate(x)) * up(x))`` with the two grouped linears in int8.

    Takes what transformers gives its experts: hidden states (tokens, k), chosen experts and their weights (tokens,
    top_k). Contributions of a token's experts are weighted and summed in the dtype of the hidden states.
    """

    def __init__(self, gate_up: GroupedW8A8Linear, down: GroupedW8A8Linear, act_fn: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.gate_up = gate_up
        self.down = down
        self.act_fn = act_fn

    @classmethod
    def from_float(
        cls, experts: nn.Module, gate_up_input: Range, down_input: Range, smooth: float | None = None
    ) -> GroupedW8A8Experts:
        """Quantises ``experts``, which have gate_up_proj (experts, 2i, k), down_proj (experts, k, i) and act_fn."""
        if not is_experts(experts):
            raise TypeError(
                "GroupedW8A8Experts: experts must have gate_up_proj, down_proj and act_fn as transformers' experts, "
                f"got {type(experts).__name__}"
            )
        source: Any = experts
        return cls(
            GroupedW8A8Linear.from_float(source.gate_up_proj, gate_up_input, smooth),
            GroupedW8A8Linear.from_float(source.down_proj, down_input, smooth),
            source.act_fn,
        )

    def forward(self, hidden_states: Tensor, top_k_index: Tensor, top_k_weights: Tensor) -> Tensor:
        """Sorts rows by expert, computes them, and brings them back to their tokens."""
        routing = route(top_k_index, self.gate_up.weight.size(0))
        rows = hidden_states[routing.token_of_row]
        gate, up = self.gate_up(rows, routing.group_ends, routing.expert_of_row).chunk(2, dim=-1)
        inside = self.act_fn(gate) * up
        results = self.down(inside, routing.group_ends, routing.expert_of_row)[routing.place]
        weighted = results * top_k_weights.reshape(-1, 1).to(results.dtype)
        return weighted.view(*top_k_index.shape, weighted.size(-1)).sum(1)
