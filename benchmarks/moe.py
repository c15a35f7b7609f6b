"""MoE routing relative to a copy with the same memory traffic, by both engines.

python benchmarks/run.py moe
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
import torch_npu

from engine import _alternating, _compiled, _copy_of, _traffic

K, EXPERTS, WIDTH = 8, 64, 4096
# Rows of 28 MB exceed the caches, and are too small for a new mapping at every allocation.
TOKENS, TOKENS_INT8 = 448, 896
INDUCTOR_BAR, EAGER_BAR = 8, 30


def route(x: torch.Tensor, expert_idx: torch.Tensor) -> Any:
    return torch_npu.npu_moe_init_routing_v2(x, expert_idx, expert_num=EXPERTS)


def route_tokens_as_int8(x: torch.Tensor, expert_idx: torch.Tensor) -> Any:
    return torch_npu.npu_moe_init_routing_v2(x, expert_idx, expert_num=EXPERTS, quant_mode=1)


def route_to_int8(x: torch.Tensor, expert_idx: torch.Tensor, smooth: torch.Tensor) -> Any:
    return torch_npu.npu_moe_init_routing_v2(x, expert_idx, scale=smooth, expert_num=EXPERTS, quant_mode=1)


def combine(rows: torch.Tensor, skip: torch.Tensor, scales: torch.Tensor, order: torch.Tensor) -> Any:
    return torch_npu.npu_moe_finalize_routing(rows, skip, None, None, scales, order, None, drop_pad_mode=2)


def measure() -> dict[str, Any]:
    """Return all figures, with their bounds."""
    torch.manual_seed(0)
    x, rows = torch.randn(TOKENS_INT8, WIDTH).bfloat16(), torch.randn(TOKENS * K, WIDTH).bfloat16()
    expert_idx = torch.randint(EXPERTS, (TOKENS_INT8, K), dtype=torch.int32)
    order = torch.randperm(TOKENS * K).to(torch.int32)
    few, weights = x[:TOKENS].clone(), torch.rand(TOKENS, K).bfloat16()
    return {
        "init_routing_v2": costs(route, few, expert_idx[:TOKENS].clone()),
        "init_routing_v2, int8": costs(route_tokens_as_int8, x, expert_idx),
        "init_routing_v2, int8 smoothed by expert": costs(route_to_int8, x, expert_idx, torch.rand(EXPERTS, WIDTH)),
        "finalize_routing": costs(combine, rows, few, weights, order),
    }


def costs(function: Callable[..., Any], *inputs: torch.Tensor, rounds: int = 20) -> dict[str, float]:
    """One operator by both engines, in units of its limit."""
    eager, inductor = (_compiled(function, engine, inputs) for engine in ("eager", "inductor"))
    functions = {
        "limit": _copy_of(_traffic(inputs) + _traffic(eager(*inputs))),
        "inductor": functools.partial(inductor, *inputs),
        "eager": functools.partial(eager, *inputs),
    }
    times = _alternating(functions, rounds)
    return {
        "inductor / limit": round(times["inductor"] / times["limit"], 2),
        "inductor bar": INDUCTOR_BAR,
        "eager / limit": round(times["eager"] / times["limit"], 2),
        "eager bar": EAGER_BAR,
    }
