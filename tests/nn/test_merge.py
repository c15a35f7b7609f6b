"""Linears that read one input store their weights as one."""

from __future__ import annotations

import copy

import pytest
import torch
from graph_quant import nn as quantised
from graph_quant.nn.merge import MergedLinear
from torch import Tensor, nn


class Block(nn.Module):
    """The linears of an attention and an MLP."""

    def __init__(self, has_bias: bool = False) -> None:
        super().__init__()
        sizes = {"q_proj": 64, "k_proj": 32, "v_proj": 32, "gate_proj": 96, "up_proj": 96}
        for name, size in sizes.items():
            self.add_module(name, nn.Linear(64, size, bias=has_bias))

    def forward(self, x: Tensor) -> list[Tensor]:
        return [linear(x) for linear in self.children()]


def block(recipe: quantised.Recipe | None = None, has_bias: bool = False) -> nn.Module:
    model = nn.ModuleDict({"block": Block(has_bias)}).bfloat16().npu()
    quantised.quantize_(model, recipe or quantised.DynamicW8A8())
    return model


@pytest.mark.parametrize("has_bias", [False, True])
def test_results_keep_every_bit_and_weights_are_stored_once(has_bias: bool) -> None:
    model, x = block(has_bias=has_bias), torch.randn(2, 3, 64).bfloat16().npu()
    plain = model["block"](x)
    size = sum(buffer.nbytes for buffer in model.buffers())
    assert quantised.merge_linears_(model) == [
        f"block.{name}" for name in ("q_proj", "k_proj", "v_proj", "gate_proj", "up_proj")
    ]
    assert sum(buffer.nbytes for buffer in model.buffers()) == size
    for model_now in (model, copy.deepcopy(model), copy.deepcopy(model).cpu().npu()):
        linears = list(model_now["block"].children())
        assert len({linear.weight.untyped_storage().data_ptr() for linear in linears}) == 2
        assert all(torch.equal(one, other) for one, other in zip(model_now["block"](x), plain, strict=True))


def test_state_returns_to_another_model() -> None:
    model, other = block(), block()
    for merged in (model, other):
        quantised.merge_linears_(merged)
    other.load_state_dict(model.state_dict())
    x = torch.randn(3, 64).bfloat16().npu()
    pairs = zip(model["block"](x), other["block"](x), strict=True)
    assert all(torch.equal(one, two) for one, two in pairs)


def test_what_differs_stays_apart() -> None:
    model = block()
    model["block"].k_proj.smooth = torch.ones(64).bfloat16().npu()
    assert quantised.merge_linears_(model) == ["block.gate_proj", "block.up_proj"]
    assert not isinstance(model["block"].q_proj, MergedLinear)
    with pytest.raises(ValueError, match="has no group of DynamicW8A8Linear or StaticW8A8Linear named"):
        quantised.merge_linears_(block(quantised.W8A16()))


def test_shared_linear_stays_apart() -> None:
    model = block()
    model["block"].v_proj = model["block"].k_proj
    assert "block.k_proj" not in quantised.merge_linears_(model)


def calibrated(smooth: float | None = None) -> nn.Module:
    model = nn.ModuleDict({"block": Block(has_bias=True)}).bfloat16().npu()
    with torch.no_grad(), quantised.observe(model) as seen:
        model["block"](torch.randn(4, 64).bfloat16().npu())
    quantised.quantize_(model, quantised.StaticW8A8(smooth=smooth), observations=seen)
    return model


def test_static_linears_keep_every_bit_and_share_scales() -> None:
    model, x = calibrated(), torch.randn(2, 3, 64).bfloat16().npu()
    plain = model["block"](x)
    assert len(quantised.merge_linears_(model)) == 5
    linears = list(model["block"].children())
    assert len({linear.weight.untyped_storage().data_ptr() for linear in linears}) == 2
    assert len({linear.multiplier.data_ptr() for linear in linears}) == 2
    assert all(torch.equal(one, other) for one, other in zip(model["block"](x), plain, strict=True))


def test_static_linears_that_quantise_differently_stay_apart() -> None:
    model = calibrated()
    model["block"].k_proj.zero_point += 1
    assert quantised.merge_linears_(model) == ["block.gate_proj", "block.up_proj"]
    with pytest.raises(ValueError, match="quantise their input alike"):
        quantised.merge_linears_(calibrated(smooth=0.5))
