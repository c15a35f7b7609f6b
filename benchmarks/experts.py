"""Experts: npu_grouped_matmul relative to single products, npu_dequant_swiglu_quant relative to a copy.

Times are measured alternately in one run, the best of a few rounds, and reported as ratios. Limits: 1.3 for the
products; 30 and, compiled by Inductor, 8 for the copy of what is read and written.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch_npu
from graph_quant.destination import INT32
from graph_quant.reference.matmul.quant_matmul import quant_matmul

from engine import _alternating, _compiled, _copy_of, _traffic

EXPERTS, SIZE = 16, 4096


def measure() -> dict[str, Any]:
    """All figures."""
    return {"grouped_matmul": grouped_matmul(), "dequant_swiglu_quant": dequant_swiglu_quant()}


def grouped_matmul(rounds: int = 3) -> dict[str, Any]:
    """Sixteen experts of 4096x4096 over 4096 rows, int8 to int32."""
    x = torch.randint(-128, 128, (SIZE, SIZE), dtype=torch.int8)
    weight = torch.randint(-128, 128, (EXPERTS, SIZE, SIZE), dtype=torch.int8)
    counts, scale = torch.full((EXPERTS,), SIZE // EXPERTS), torch.ones(1)
    options = {"split_item": 3, "group_type": 0, "group_list_type": 1, "output_dtype": torch.int32}

    def one_by_one() -> list[torch.Tensor]:
        rows = x.chunk(EXPERTS)
        return [quant_matmul(part, matrix, scale, output=INT32) for part, matrix in zip(rows, weight, strict=True)]

    def together() -> list[torch.Tensor]:
        return torch_npu.npu_grouped_matmul([x], [weight], group_list=counts, **options)

    times = _alternating({"one by one": one_by_one, "grouped": together}, rounds)
    return {"to its products": {"ratio": round(times["grouped"] / times["one by one"], 2), "limit": 1.3}}


def dequant_swiglu_quant(rounds: int = 15) -> dict[str, Any]:
    """4096 rows of 4096, in sixteen groups and in none."""
    x = torch.randint(-30000, 30000, (SIZE, SIZE), dtype=torch.int32)
    grouped = {"weight_scale": torch.rand(EXPERTS, SIZE) / 999, "group_index": torch.full((EXPERTS,), SIZE // EXPERTS)}
    figures = {}
    for name, options in {"in groups": grouped, "without": {"weight_scale": torch.rand(SIZE) / 999}}.items():
        tensors = (x, torch.rand(SIZE), *options.values())

        def call(x: torch.Tensor, tokens: torch.Tensor, *values: torch.Tensor, names: Any = tuple(options)) -> Any:
            parameters = dict(zip(names, values, strict=True))
            return torch_npu.npu_dequant_swiglu_quant(x, activation_scale=tokens, **parameters, quant_mode=1)

        compiled = _compiled(call, "inductor", tensors)
        functions: dict[str, Callable[[], object]] = {
            "copy": _copy_of(_traffic(tensors) + _traffic(call(*tensors))),
            "eager": lambda call=call, tensors=tensors: call(*tensors),
            "inductor": lambda compiled=compiled, tensors=tensors: compiled(*tensors),
        }
        times = _alternating(functions, rounds)
        ratios = {engine: round(times[engine] / times["copy"], 1) for engine in ("eager", "inductor")}
        figures[name] = {**ratios, "limits": "30, 8"}
    return figures
