"""MX on Ascend 950: quantisation in copies of its input, and products in units of the CPU's bfloat16 product.

python benchmarks/run.py mx
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import graph_quant  # noqa: F401 (before torch: it makes torch_npu loadable)
import torch
import torch_npu
from graph_quant import chip

from engine import _alternating, _compiled

SIZE, ROWS = 4096, (1, 128)
E8M0, E2M1, BLOCK = 293, 296, 32


def measure() -> dict[str, Any]:
    """Return all figures, with their bounds."""
    torch.manual_seed(0)
    with chip.use(chip.ASCEND_950):
        return {"quantisation": quantisation_costs(), "product": product_costs()}


def quantisation_costs(rounds: int = 10) -> dict[str, dict[str, float]]:
    """npu_dynamic_mx_quant of bfloat16 (4096, 4096) in the engine Inductor and eagerly, in copies of its input."""
    x, target = torch.randn(SIZE, SIZE).bfloat16(), torch.empty(SIZE, SIZE, dtype=torch.bfloat16)
    figures = {}
    for name, kind in (("float8_e4m3fn", torch.float8_e4m3fn), ("float4_e2m1", E2M1)):
        call = functools.partial(torch_npu.npu_dynamic_mx_quant, dst_type=kind)
        functions: dict[str, Callable[[], object]] = {
            "copy": functools.partial(target.copy_, x),
            "inductor": functools.partial(_compiled(lambda x, call=call: call(x), "inductor", (x.npu(),)), x.npu()),
            "eager": functools.partial(call, x.npu()),
        }
        times = _alternating(functions, rounds)
        figures[name] = {mode: round(times[mode] / times["copy"], 1) for mode in ("inductor", "eager")} | {"bar": 6}
    return figures


def product_costs(rounds: int = 10) -> dict[str, dict[str, float]]:
    """npu_quant_matmul in MX of float8 against ``linear`` of bfloat16 on the CPU, by (4096, 4096) weights."""
    weight, float_weight = torch.randn(SIZE, SIZE).to(torch.float8_e4m3fn).npu(), torch.randn(SIZE, SIZE).bfloat16()
    scale = torch.randint(124, 130, (SIZE, SIZE // 64, 2), dtype=torch.uint8).npu()

    def multiply(x: torch.Tensor, x_scale: torch.Tensor) -> torch.Tensor:
        return torch_npu.npu_quant_matmul(
            x,
            weight.t(),
            scale.transpose(0, 1),
            pertoken_scale=x_scale,
            output_dtype=torch.bfloat16,
            scale_dtype=E8M0,
            pertoken_scale_dtype=E8M0,
            group_sizes=[1, 1, BLOCK],
        )

    figures = {}
    for rows in ROWS:
        x = torch.randn(rows, SIZE)
        inputs = (
            x.to(torch.float8_e4m3fn).npu(),
            torch.randint(124, 130, (rows, SIZE // 64, 2), dtype=torch.uint8).npu(),
        )
        functions: dict[str, Callable[[], object]] = {
            "bfloat16": functools.partial(torch.nn.functional.linear, x.bfloat16(), float_weight),
            "inductor": functools.partial(_compiled(multiply, "inductor", inputs), *inputs),
            "eager": functools.partial(multiply, *inputs),
        }
        times = _alternating(functions, rounds)
        ratios = {mode: round(times[mode] / times["bfloat16"], 2) for mode in ("inductor", "eager")}
        figures[f"{rows} rows"] = ratios | {"bar": 2}
    return figures
