"""Run by every rank: quantised modules of which every rank has a part, against the same modules whole."""

import copy
import os

import pytest
import torch
import torch.distributed as dist
from graph_quant.nn import (
    DynamicW8A8Experts,
    DynamicW8A8Linear,
    Range,
    StaticW8A8Experts,
    StaticW8A8Linear,
    W4A4Linear,
    W4A8Experts,
    W4A8Linear,
    W4A16Experts,
    W4A16Linear,
    W8A16Experts,
    W8A16Linear,
    parallelize_,
)
from torch import nn

RANK, RANKS = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
K, N, EXPERTS, INSIDE = 128, 32, 4, 64


class FloatExperts(nn.Module):
    """As transformers holds them."""

    def __init__(self, experts: int = EXPERTS, k: int = K) -> None:
        super().__init__()
        self.gate_up_proj = nn.Parameter(torch.randn(experts, 2 * INSIDE, k).bfloat16())
        self.down_proj = nn.Parameter(torch.randn(experts, k, INSIDE).bfloat16())
        self.act_fn = nn.SiLU()
        self.num_experts = experts


def linears(dtype: torch.dtype) -> dict[str, nn.Module]:
    linear = nn.Linear(K, N).to(dtype)
    seen = Range(torch.full((K,), -3.0), torch.full((K,), 4.0))
    return {
        "dynamic": DynamicW8A8Linear.from_float(linear),
        "smooth": DynamicW8A8Linear.from_float(linear, seen, 0.5),
        "static": StaticW8A8Linear.from_float(linear, seen),
        "static_smooth": StaticW8A8Linear.from_float(linear, seen, 0.5),
        "w8a16": W8A16Linear.from_float(linear),
        "w4a16": W4A16Linear.from_float(linear, 32),
        "w4a8": W4A8Linear.from_float(linear),
        "w4a4": W4A4Linear.from_float(linear),
    }


def parallel() -> None:
    torch.manual_seed(11)
    for dtype in (torch.float16, torch.bfloat16):
        x = torch.randn(2, 3, K).to(dtype).npu()
        mine = slice(RANK * K // RANKS, (RANK + 1) * K // RANKS)
        for name, module in linears(dtype).items():
            whole = nn.ModuleDict({name: module}).npu()
            expected = whole[name](x)
            for kind in ("joined", "column", "row"):
                part = copy.deepcopy(whole)
                if kind == "row" and name in ("w4a8", "w4a4"):
                    with pytest.raises(TypeError, match="cannot be shared by rows"):
                        parallelize_(part, {name: kind})
                    continue
                assert parallelize_(part, {name: kind}) == [name]
                got = part[name](x[..., mine].contiguous() if kind == "row" else x)
                wanted = expected.chunk(RANKS, -1)[RANK] if kind == "column" else expected
                # Products of halves are summed in float32, in an order that depends on their shape.
                exact = name != "w4a8" and not name.endswith("a16")
                near = torch.equal(got, wanted) if exact else torch.allclose(got, wanted, atol=0.05, rtol=0.02)
                assert near, (name, kind, dtype, got, wanted)
    experts()
    mistakes()


def seen(experts: int, size: int) -> Range:
    return Range(torch.full((experts, size), -3.0), torch.full((experts, size), 4.0))


def experts() -> None:
    source, square = FloatExperts(), FloatExperts(K, K)  # the second with as many experts as tokens have elements
    entering, inside = seen(EXPERTS, K), seen(EXPERTS, INSIDE)
    for quantised, exact in (
        (DynamicW8A8Experts.from_float(source), True),
        (DynamicW8A8Experts.from_float(source, entering, inside, 0.5), True),
        (StaticW8A8Experts.from_float(source, entering, inside), True),
        (StaticW8A8Experts.from_float(square, seen(K, K), seen(K, INSIDE), 0.5), True),
        (W4A8Experts.from_float(source), False),
        (W4A8Experts.from_float(source, 32), False),
        (W4A16Experts.from_float(source), False),
        (W4A16Experts.from_float(source, 32), False),
        (W8A16Experts.from_float(source), False),
    ):
        whole = nn.ModuleDict({"experts": quantised}).npu()
        x = torch.randn(5, K).bfloat16().npu()
        weights, index = torch.rand(5, quantised.experts).topk(2)
        part = copy.deepcopy(whole)
        parallelize_(part, {"experts": "expert"})
        args = (x, index.npu(), weights.npu())
        got, wanted = part["experts"](*args), whole["experts"](*args)
        # As for linears: products of halves are summed in an order that depends on how many rows there are.
        near = torch.equal(got, wanted) if exact else torch.allclose(got, wanted, atol=0.05, rtol=0.02)
        assert near, (quantised, got, wanted)
        assert part["experts"].local.gate_up.size(0) == quantised.experts // RANKS


def mistakes() -> None:
    model = nn.ModuleDict({"a": nn.Linear(8, 8), "b": W8A16Linear.from_float(nn.Linear(8, 9).half())})
    for plan, error, words in (
        ({"a": "column"}, TypeError, "a must be a quantised linear for 'column', got Linear"),
        ({"b": "expert"}, TypeError, "b must be quantised experts for 'expert', got W8A16Linear"),
        ({"b": "column"}, ValueError, f"the outputs of b must split evenly over {RANKS} ranks, got 9"),
        ({"c": "column"}, ValueError, "no module is named c"),
        ({"b": "rows"}, ValueError, "a kind must be one of column, joined, row, expert, got rows"),
    ):
        with pytest.raises(error, match=words):
            parallelize_(model, plan)
    alone = dist.new_group([0])
    if RANK == 0:
        parallelize_(model, {"b": "joined"}, alone)
