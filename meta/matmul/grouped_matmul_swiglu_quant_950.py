"""npu_grouped_matmul_swiglu_quant_v2 on Ascend 950: what may be passed, and what comes back.

x (m, k) and one weight (E, k, n), which may be a transposed view, are as in npu_grouped_matmul; n is even.

====== =============================== =========================== =============== =================================
form   weight_scale                    x_scale                     y               scale of y
====== =============================== =========================== =============== =================================
int8   float32, float16, bfloat16      float32 (m,)                int8            float32 (m,)
       (E, n)
float8 float32, bfloat16 (E, n)        float32 (m,)                float8          float32 (m,)
HiF8   float32, bfloat16 (E, n)        float32 (m,)                HiFloat8        float32 (m,)
MX     float8_e8m0fnu                  float8_e8m0fnu              float8; float4  float8_e8m0fnu
       (E, ceil(k/64), n, 2)           (m, ceil(k/64), 2)          of float4       (m, ceil(n/128), 2)
====== =============================== =========================== =============== =================================

MX has dequant_mode and quant_mode 2, weight_scale_dtype and x_scale_dtype float8_e8m0fnu and dequant_dtype float32;
the others have modes 0. float4 needs n a multiple of 4 and k above 2. Weights in FRACTAL_NZ are float8_e4m3fn with n a
multiple of 64 and results of that dtype, or float4 with n a multiple of 128, in MX. float8 rows of float4 weights are
not described yet.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from graph_quant.destination import HIFLOAT8, describe, find
from graph_quant.meta.matmul.grouped_matmul_950 import QuantisedCall, is_quantised
from graph_quant.meta.matmul.quant_matmul_950 import is_codes
from graph_quant.meta.operator import Plan, Result
from graph_quant.meta.rules import ND, NZ, Rules, Size
from graph_quant.narrow_floats import E2M1, E4M3, E5M2, find_format
from graph_quant.reference.matmul.grouped_narrow import ROWS
from graph_quant.reference.matmul.narrow_products import HIFLOAT8 as HIFLOAT8_NAME
from graph_quant.reference.matmul.narrow_swiglu_quant import SwigluForm
from graph_quant.reference.matmul.quant_matmul_950 import INT8
from torch import Tensor

_PERTOKEN, _MX = 0, 2
_BETWEEN = {None: torch.float32, 6: torch.float32, 5: torch.float16, 15: torch.bfloat16}
_MOST_GROUPS, _PAIR = 1024, 64


@dataclass(frozen=True)
class GroupedSwigluQuantPlan(Plan):
    """The ``form`` of a call on Ascend 950; None on other chips."""

    form: SwigluForm | None = None


def plan_950(
    rules: Rules,
    x: Tensor,
    weight: Sequence[Tensor],
    weight_scale: Sequence[Tensor],
    x_scale: Tensor,
    group_list: Tensor,
    modes: tuple[int, int],
    dequant_dtype: int | None,
    quant_dtype: int | None,
    list_type: int,
    tuning_config: Sequence[int] | None,
    dtypes: tuple[int | None, int | None],
    scale_dtypes: tuple[int | None, int | None],
) -> GroupedSwigluQuantPlan:
    """The plan of a call; ``modes`` are dequant_mode and quant_mode, dtypes those of x and weight, of weight first."""
    rules.require(is_quantised([x], weight), lambda: f"x and weight must be quantised, got {x.dtype}")
    call = QuantisedCall(rules, [x], weight, ROWS, *dtypes)
    rules.require(
        modes in ((_PERTOKEN, _PERTOKEN), (_MX, _MX)),
        lambda: f"dequant_mode and quant_mode must both be 0 or both be 2, got {modes[0]} and {modes[1]}",
    )
    is_mx = modes[0] == _MX
    accepted = (None, 6) if is_mx else tuple(_BETWEEN)
    rules.require(
        dequant_dtype in accepted,
        lambda: (
            f"dequant_dtype must be torch.float32{'' if is_mx else ', torch.float16 or torch.bfloat16'}, "
            f"got {describe(dequant_dtype)}"
        ),
    )
    rules.require(not tuning_config, lambda: f"tuning_config must be None on Ascend 950, got {tuning_config}")
    rules.one_of("group_list_type", list_type, (0, 1))
    rules.require(call.n % 2 == 0, lambda: f"n must be even, got {call.n}")
    rules.at_least("n", call.n, 2)
    if call.x_name == E2M1.name:
        rules.multiple("n", call.n, 4, " for float4")
    target = _find_target(rules, call.x_name, quant_dtype)
    codes = (
        is_codes(rules, "weight_scale", weight_scale[0], scale_dtypes[0]),
        is_codes(rules, "x_scale", x_scale, scale_dtypes[1]),
    )
    if is_mx:
        for name, requested in zip(("weight_scale_dtype", "x_scale_dtype"), scale_dtypes, strict=True):
            if requested is None:
                rules.refuse(f"{name} must be torch_npu.float8_e8m0fnu for dequant_mode 2, got None")
        rules.require(
            call.x_name not in (INT8, HIFLOAT8_NAME),
            lambda: f"x must be float8 or float4 for dequant_mode 2, got {call.x_name}",
        )
    else:
        rules.require(not any(codes), lambda: "weight_scale_dtype and x_scale_dtype must be None for dequant_mode 0")
        rules.require(call.x_name != E2M1.name, lambda: "dequant_mode must be 2 for float4 x, got 0")
    scale = _check_scales(rules, call, weight_scale[0], x_scale, is_mx)
    _check_groups(rules, group_list, weight[0])
    _check_format(rules, call, weight[0], target, is_mx)
    form = SwigluForm(replace(call.form, is_mx=is_mx), target, _BETWEEN[dequant_dtype])
    return GroupedSwigluQuantPlan((_stored(call, target), scale), form)


def _find_target(rules: Rules, x: str, quant_dtype: int | None) -> str:
    narrow = None if quant_dtype is None else find_format(quant_dtype)
    destination = find(quant_dtype)
    name = narrow.name if narrow is not None else (destination.name if destination is not None else "")
    float8 = (E4M3.name, E5M2.name)
    accepted = {INT8: (INT8,), HIFLOAT8_NAME: (HIFLOAT8.name,), E2M1.name: (E2M1.name, *float8)}.get(x, float8)
    rules.require(
        name in accepted, lambda: f"quant_dtype must be {' or '.join(accepted)} for {x} x, got {describe(quant_dtype)}"
    )
    return name


def _check_scales(rules: Rules, call: QuantisedCall, weight_scale: Tensor, x_scale: Tensor, is_mx: bool) -> Result:
    experts = call.weight.size(0)
    if is_mx:
        pairs = (call.k + _PAIR - 1) // _PAIR  # type: ignore[operator]
        rules.shape("weight_scale", weight_scale, (experts, pairs, call.n, 2), ("E", "ceil(k/64)", "n", "2"))
        rules.shape("x_scale", x_scale, (call.m, pairs, 2), ("m", "ceil(k/64)", "2"))
        call.check_view("weight_scale", weight_scale, "weight", call.weight_is_view, 3)
        half: Size = call.n // 2
        return Result((call.m, (half + _PAIR - 1) // _PAIR, 2), torch.uint8)
    floats = (torch.float32, torch.bfloat16, *((torch.float16,) if call.x_name == INT8 else ()))
    rules.dtype("weight_scale", weight_scale, floats, f" for {call.x_name} weights")
    rules.shape("weight_scale", weight_scale, (experts, call.n), ("E", "n"))
    rules.dtype("x_scale", x_scale, (torch.float32,))
    rules.shape("x_scale", x_scale, (call.m,), ("m",))
    return Result((call.m,), torch.float32)


def _check_groups(rules: Rules, group_list: Tensor, weight: Tensor) -> None:
    rules.dtype("group_list", group_list, (torch.int64,))
    rules.rank("group_list", group_list, 1)
    rules.at_least("group_list.size(0)", group_list.size(0), 1)
    rules.require(
        group_list.size(0) <= weight.size(0),
        lambda: f"group_list.size(0) must be at most the experts, {weight.size(0)}, got {group_list.size(0)}",
    )
    rules.require(
        group_list.size(0) <= _MOST_GROUPS,
        lambda: f"group_list.size(0) must be at most {_MOST_GROUPS}, got {group_list.size(0)}",
    )


def _check_format(rules: Rules, call: QuantisedCall, weight: Tensor, target: str, is_mx: bool) -> None:
    rules.format("x", call.x, ND)
    if rules.format("weight", weight, ND, NZ) is not NZ:
        return
    is_e4m3 = call.x_name == call.weight_name == E4M3.name
    rules.require(
        is_mx and (is_e4m3 or call.x_name == E2M1.name),
        lambda: f"weight must be float8_e4m3fn or float4 in MX where it is in FRACTAL_NZ, got {call.weight_name}",
    )
    rules.multiple("n", call.n, 64 if is_e4m3 else 128, f" for {call.weight_name} in FRACTAL_NZ")
    rules.require(
        not is_e4m3 or target == E4M3.name,
        lambda: f"quant_dtype must be float8_e4m3fn where weight is in FRACTAL_NZ, got {target}",
    )


def _stored(call: QuantisedCall, target: str) -> Result:
    half: Size = call.n // 2
    if target == E2M1.name:
        return Result((call.m, half // 2), torch.uint8)
    narrow = next((known for known in (E4M3, E5M2) if known.name == target), None)
    if narrow is not None and narrow.dtype is not None:
        return Result((call.m, half), narrow.dtype)
    return Result((call.m, half), torch.uint8 if target == HIFLOAT8.name else torch.int8)
