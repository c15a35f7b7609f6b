"""A whole layer of quantised experts by hand: two products around an activation, and what they may be off by."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from .layer import ROUNDING, Layer, Weights

TOKENS, OUTER, INNER, EXPERTS = 6, 64, 64, 3
# Nothing grows faster under silu than this.
_STEEPEST = 1.1
# What is rounded is off by anything within half a step, each value by its own, so what they add up to is as good as
# normal: beyond five deviations is one value in a million. Worst cases would add up to more than the result.
_DEVIATIONS = 5


@dataclass(frozen=True)
class Experts:
    """Both products of all experts, and tokens with the two experts of each; the middle one has no token."""

    up: Weights
    down: Weights
    tokens: Tensor
    chosen: Tensor
    shares: Tensor

    @classmethod
    def random(cls, bits: int) -> Experts:
        """Weights of so many bits, and tokens."""
        up = Weights.random(bits, EXPERTS, outputs=2 * INNER, inputs=OUTER)
        down = Weights.random(bits, EXPERTS, outputs=OUTER, inputs=INNER)
        chosen = torch.tensor([[0, 2], [2, 0]], dtype=torch.int32).repeat(TOKENS // 2, 1)
        shares = torch.softmax(torch.randn(TOKENS, 2), -1).bfloat16()
        return cls(up, down, (torch.randn(TOKENS, OUTER) / 4).bfloat16(), chosen, shares)


def judged_experts(output: Tensor, experts: Experts, bits: int | None) -> Layer:
    """``bits`` are those of the activations at both products, None where they are not quantised."""
    x = experts.tokens.double()
    wanted, variance = torch.zeros_like(x), torch.zeros_like(x)
    for place in range(experts.chosen.size(1)):
        expert = experts.chosen[:, place].long()
        share = experts.shares[:, place, None].double()
        both, off = _product(x, experts.up.meant[expert], torch.zeros_like(x), bits)
        (gate, linear), (gate_off, linear_off) = both.chunk(2, -1), off.chunk(2, -1)
        activated = torch.nn.functional.silu(gate)
        inner = activated * linear
        inner_off = (_STEEPEST * linear) ** 2 * gate_off + activated**2 * linear_off + _rounded(inner)
        result, result_off = _product(inner, experts.down.meant[expert], inner_off, bits)
        wanted += share * result
        variance += share**2 * result_off + _rounded(share * result)
    return Layer(output, wanted, _DEVIATIONS * (variance + _rounded(wanted)).sqrt())


def _product(x: Tensor, weights: Tensor, variance: Tensor, bits: int | None) -> tuple[Tensor, Tensor]:
    """The product of each token with its own weights, and its variance where ``x`` has ``variance``."""
    if bits is not None:
        step = x.abs().amax(-1, keepdim=True) / (2 ** (bits - 1) - 1)
        variance = variance + step**2 / 12
    exact = _rows(x, weights)
    return exact, _rows(variance, weights**2) + _rounded(exact)


def _rounded(x: Tensor) -> Tensor:
    """The variance of rounding to bfloat16."""
    return (ROUNDING * x) ** 2 / 12


def _rows(x: Tensor, weights: Tensor) -> Tensor:
    return torch.einsum("tk,tnk->tn", x, weights)
