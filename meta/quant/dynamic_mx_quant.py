"""npu_dynamic_mx_quant: what may be passed, and what comes back. Only Ascend 950 has it.

input is float16, bfloat16 or float32 of one to seven dimensions. Blocks of block_size elements, a multiple of 32 up to
1024, run along axis. float8 is rounded to nearest; float4 also half away from zero or down, and its last dimension is
even. scale_alg 1 is for float8, 2 for float4_e2m1 in blocks of 32 over the last axis, dst_type_max for float4_e2m1,
max_low_bound for scale_alg 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from graph_quant.chip import ASCEND_950
from graph_quant.destination import describe
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import FLOATS, Rules, Size
from graph_quant.narrow_floats import E2M1, MODES, RINT, NarrowFloat, find_format
from graph_quant.reference.quant.dynamic_mx_quant import dynamic_mx_quant as reference
from graph_quant.reference.quant.mx_blocks import BY_MANTISSA, OCP, ROUND_UP, MxRule
from torch import Tensor

_BLOCK, _LARGEST_BLOCK = 32, 1024
_ALGORITHMS = {"float8_e4m3fn": (OCP, ROUND_UP), "float8_e5m2": (OCP, ROUND_UP), "float4_e2m1": (OCP, BY_MANTISSA)}


@dataclass(frozen=True)
class MxPlan(Plan):
    """``rule`` is how blocks are quantised."""

    rule: MxRule


@operator("npu_dynamic_mx_quant", reference=reference, chips=(ASCEND_950,))
def dynamic_mx_quant(
    rules: Rules,
    input: Tensor,  # noqa: A002
    axis: int,
    round_mode: str,
    dst_type: int | torch.dtype,
    block_size: int,
    scale_alg: int | None,
    dst_type_max: float,
    max_low_bound: float,
) -> MxPlan:
    """The plan of a call that the documents and the kernel's checks allow; any other call is refused."""
    rules.dtype("input", input, FLOATS)
    rules.rank("input", input, 1, 7)
    dims = input.dim()
    rules.require(-dims <= axis < dims, lambda: f"axis must be from {-dims} to {dims - 1}, got {axis}")
    rules.require(
        block_size > 0 and block_size % _BLOCK == 0 and block_size <= _LARGEST_BLOCK,
        lambda: f"block_size must be a multiple of 32 up to 1024, got {block_size}",
    )
    target = find_target(rules, "dst_type", dst_type)
    algorithm = OCP if scale_alg is None else scale_alg
    check_rounding(rules, target, round_mode, algorithm)
    if algorithm == BY_MANTISSA:
        rules.one_of("block_size", block_size, (_BLOCK,), " with scale_alg 2")
        rules.require(
            axis in (-1, dims - 1),
            lambda: f"axis must be the last one with scale_alg 2: others are not described yet, got {axis}",
        )
    if dst_type_max:
        rules.require(
            target is E2M1 and block_size == _BLOCK,
            lambda: f"dst_type_max must be 0 but for float4_e2m1 in blocks of 32, got {dst_type_max}",
        )
        rules.require(6 <= dst_type_max <= 12, lambda: f"dst_type_max must be 0 or from 6 to 12, got {dst_type_max}")
    if max_low_bound:
        rules.require(
            algorithm == ROUND_UP, lambda: f"max_low_bound must be 0 unless scale_alg is 1, got {max_low_bound}"
        )
        rules.require(
            max_low_bound > 0 and math.isfinite(max_low_bound),
            lambda: f"max_low_bound must be a number that is not negative, got {max_low_bound}",
        )
    if input.dtype == torch.float32:
        rules.one_of("block_size", block_size, (_BLOCK,), " for float32")
        rules.at_least(f"input.size({axis})", input.size(axis), _BLOCK)
    rule = MxRule(target, algorithm, round_mode, block_size, dst_type_max, max_low_bound)
    y = stored_values(rules, input.shape, target)
    return MxPlan((y, Result(stored_scales(input.shape, axis, block_size), torch.uint8)), rule)


def find_target(rules: Rules, argument: str, requested: int | torch.dtype) -> NarrowFloat:
    """The format of a requested dtype; others are refused."""
    target = find_format(requested)
    if target is None:
        accepted = "torch.float8_e5m2, torch.float8_e4m3fn, torch_npu.float4_e2m1fn_x2 or torch_npu.float4_e1m2fn_x2"
        rules.refuse(f"{argument} must be {accepted}, got {describe(requested)}")
    return target


def check_rounding(rules: Rules, target: NarrowFloat, round_mode: str, scale_alg: int) -> None:
    """Refuse rounding modes and scale algorithms that the format does not have."""
    modes = (RINT,) if target.dtype is not None else MODES
    rules.one_of("round_mode", round_mode, modes, f" for {target.name}")
    rules.one_of("scale_alg", scale_alg, _ALGORITHMS.get(target.name, (OCP,)), f" for {target.name}")


def stored_values(rules: Rules, shape: tuple[Size, ...], target: NarrowFloat, argument: str = "input") -> Result:
    """The quantised result of an input of ``shape``: float8, or two float4 to a uint8."""
    if target.dtype is not None:
        return Result(tuple(shape), target.dtype)
    rules.require(
        shape[-1] % 2 == 0,
        lambda: f"{argument}.size(-1) must be even for {target.name}, two to a byte, got {shape[-1]}",
    )
    return Result((*shape[:-1], shape[-1] // 2), torch.uint8)


def stored_scales(shape: tuple[Size, ...], axis: int, block_size: int) -> tuple[Size, ...]:
    """The shape of the scales: pairs of blocks along ``axis``, and the two of a pair."""
    sizes = list(shape)
    sizes[axis] = (sizes[axis] + 2 * block_size - 1) // (2 * block_size)
    return (*sizes, 2)
