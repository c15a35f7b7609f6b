"""A layer of quantised experts: two products around an activation, the exact result, and the error bound."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from .layer import ROUNDING, Layer, Weights

TOKENS, OUTER, INNER, EXPERTS = 6, 64, 64, 3
# The largest slope of silu.
_MAX_SLOPE = 1.1
# Rounding errors are independent and uniform, so their sums are nearly normal: one value in a million exceeds five
# standard deviations. Worst-case bounds would exceed the result.
_DEVIATIONS = 5


@dataclass(frozen=True)
class Experts:
    """Weights of all experts, and tokens with two chosen experts each; the middle expert gets no token."""

    up: Weights
    down: Weights
    tokens: Tensor
    chosen: Tensor
    shares: Tensor

    @classmethod
    def random(cls, bits: int) -> Experts:
        """Return random weights of ``bits`` bits, and tokens."""
        up = Weights.random(bits, EXPERTS, outputs=2 * INNER, inputs=OUTER)
        down = Weights.random(bits, EXPERTS, outputs=OUTER, inputs=INNER)
        chosen = torch.tensor([[0, 2], [2, 0]], dtype=torch.int32).repeat(TOKENS // 2, 1)
        shares = torch.softmax(torch.randn(TOKENS, 2), -1).bfloat16()
        return cls(up, down, (torch.randn(TOKENS, OUTER) / 4).bfloat16(), chosen, shares)


def compare_experts(output: Tensor, experts: Experts, bits: int | None) -> Layer:
    """Return the comparison of experts; ``bits`` are those of the activations, None for floats."""
    x = experts.tokens.double()
    wanted, variance = torch.zeros_like(x), torch.zeros_like(x)
    for choice in range(experts.chosen.size(1)):
        expert = experts.chosen[:, choice].long()
        share = experts.shares[:, choice, None].double()
        both, off = _product(x, experts.up.dequantised[expert], torch.zeros_like(x), bits)
        (gate, linear), (gate_off, linear_off) = both.chunk(2, -1), off.chunk(2, -1)
        activated = torch.nn.functional.silu(gate)
        inner = activated * linear
        inner_off = (_MAX_SLOPE * linear) ** 2 * gate_off + activated**2 * linear_off + _rounded(inner)
        result, result_off = _product(inner, experts.down.dequantised[expert], inner_off, bits)
        wanted += share * result
        variance += share**2 * result_off + _rounded(share * result)
    return Layer(output, wanted, _DEVIATIONS * (variance + _rounded(wanted)).sqrt())


def _product(x: Tensor, weights: Tensor, variance: Tensor, bits: int | None) -> tuple[Tensor, Tensor]:
    """Return the product of each token with its weights, and its variance if ``x`` has ``variance``."""
    if bits is not None:
        step = x.abs().amax(-1, keepdim=True) / (2 ** (bits - 1) - 1)
        variance = variance + step**2 / 12
    exact = _rows(x, weights)
    return exact, _rows(variance, weights**2) + _rounded(exact)


def _rounded(x: Tensor) -> Tensor:
    """Return the variance of rounding to bfloat16."""
    return (ROUNDING * x) ** 2 / 12


def _rows(x: Tensor, weights: Tensor) -> Tensor:
    return torch.einsum("tk,tnk->tn", x, weights)
