"""Experts: the routing against a loop over tokens, the grouped linear against NumPy, the whole against float."""

import numpy as np
import pytest
import torch
from graph_quant.nn import GroupedW8A8, GroupedW8A8Experts, GroupedW8A8Linear, Range, observe, quantize_
from graph_quant.nn.routing import route
from torch import Tensor, nn

EXPERTS, HIDDEN, INSIDE = 4, 32, 48


class Experts(nn.Module):
    """Gated experts, token by token."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.gate_up_proj = nn.Parameter((torch.randn(EXPERTS, 2 * INSIDE, HIDDEN) / 6).to(dtype))
        self.down_proj = nn.Parameter((torch.randn(EXPERTS, HIDDEN, INSIDE) / 7).to(dtype))
        self.act_fn = nn.functional.silu

    def forward(self, hidden: Tensor, top_k_index: Tensor, top_k_weights: Tensor) -> Tensor:
        result = torch.zeros_like(hidden)
        for token, (chosen, shares) in enumerate(zip(top_k_index.tolist(), top_k_weights, strict=True)):
            for expert, share in zip(chosen, shares, strict=True):
                gate, up = (self.gate_up_proj[expert] @ hidden[token]).chunk(2)
                result[token] += share.to(hidden.dtype) * (self.down_proj[expert] @ (self.act_fn(gate) * up))
        return result


def chosen_experts(tokens: int, among: int = EXPERTS) -> Tensor:
    return torch.rand(tokens, among).topk(2).indices


def test_routing_by_hand() -> None:
    routing = route(torch.tensor([[2, 0], [0, 3], [2, 0]]), 4)
    assert routing.expert_of_row.tolist() == [0, 0, 0, 2, 2, 3]
    assert routing.token_of_row.tolist() == [0, 1, 2, 0, 2, 1]
    assert routing.group_ends.tolist() == [3, 3, 5, 6]
    assert routing.order[routing.place].tolist() == list(range(6))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("smooth", [None, 0.5])
def test_grouped_linear_computes_the_rule(dtype: torch.dtype, smooth: float | None) -> None:
    weight = torch.randn(3, 16, 8).to(dtype)
    x = torch.randn(6, 8).clamp(-2, 2).to(dtype)
    seen = Range(-torch.rand(3, 8) - 2, torch.rand(3, 8) + 2)
    linear = GroupedW8A8Linear.from_float(weight, seen, smooth)
    group = torch.tensor([0, 0, 2, 2, 2, 2])
    y = linear(x, torch.tensor([2, 2, 6]), group)
    for row, expert in enumerate(group.tolist()):
        scaled = x[row].float().numpy() * linear.multiplier[expert].float().numpy()
        integers = np.clip(np.rint(scaled), -128, 127).astype(np.int64)
        product = (integers @ linear.weight[expert].numpy().astype(np.int64)).astype(np.float32)
        expected = torch.from_numpy(product * linear.scale[expert].numpy()).to(dtype)
        assert torch.equal(y[row], expected)
        exact = weight[expert].float() @ x[row].float()
        torch.testing.assert_close(y[row].float(), exact, rtol=0.05, atol=0.1)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("used", [2, EXPERTS])
def test_experts_are_close_to_float(dtype: torch.dtype, used: int) -> None:
    model = nn.ModuleDict({"experts": Experts(dtype)})
    hidden, index = torch.randn(40, HIDDEN).to(dtype), chosen_experts(40, used)
    shares = torch.rand(40, 2).softmax(-1)
    with observe(model) as seen, torch.no_grad():
        exact = model["experts"](hidden, index, shares).double()
    assert quantize_(model, GroupedW8A8(smooth=0.5), observations=seen) == ["experts"]
    y = model["experts"](hidden, index, shares)
    assert y.dtype == dtype
    noise = (y.double() - exact).square().sum() / exact.square().sum()
    assert -10 * noise.log10() > 28


def test_tokens_do_not_depend_on_their_company() -> None:
    experts = Experts(torch.float16)
    everything = [Range(-torch.full((EXPERTS, width), 4.0), torch.full((EXPERTS, width), 4.0)) for width in (32, 48)]
    quantised = GroupedW8A8Experts.from_float(experts, *everything)
    hidden, index, shares = torch.randn(9, HIDDEN).half(), chosen_experts(9), torch.rand(9, 2)
    together = quantised(hidden, index, shares)
    for token in range(9):
        alone = quantised(*(each[token : token + 1] for each in (hidden, index, shares)))
        assert torch.equal(together[token : token + 1], alone)


def test_refusals() -> None:
    with pytest.raises(TypeError, match=r"experts must have gate_up_proj, down_proj and act_fn .* got Linear"):
        GroupedW8A8Experts.from_float(nn.Linear(2, 2), *[Range(torch.zeros(1), torch.zeros(1))] * 2)
    with pytest.raises(ValueError, match=r"observed must have the shape \(experts, k\), \[3, 8\], got \[8\]"):
        GroupedW8A8Linear.from_float(torch.zeros(3, 4, 8).half(), Range(torch.zeros(8), torch.zeros(8)))
    with pytest.raises(ValueError, match=r"GroupedW8A8: experts.gate_up was not observed; run the model on samples"):
        quantize_(nn.ModuleDict({"experts": Experts(torch.float16)}), GroupedW8A8())
