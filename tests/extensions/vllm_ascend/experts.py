"""Calls of grouped_matmul_swiglu_quant, its forms, and npu_dequant_swiglu_quant."""

from typing import Any

import numpy as np
import torch
from operators.activation.dequant_swiglu_quant import expected as dequantised
from operators.matmul.grouped_matmul_swiglu_quant import stated

from support.call_table import packed
from support.extension_calls import Case, Wrong
from support.tensors import bf16, ends, f16, f32, i8, i32, nz

ONE = "_C_ascend::grouped_matmul_swiglu_quant"
NZ, LIST, TWO = f"{ONE}_weight_nz", f"{ONE}_weight_nz_tensor_list", f"{ONE}_v2"
DEQUANT = "_C_ascend::npu_dequant_swiglu_quant"
X, W, S, T = i8(6, 32), i8(3, 32, 16), f32(3, 16) / 99, f32(6)
W4, P, B, X4 = i32(3, 32, 2), packed(16, 3), f32(3, 16), i32(6, 4)
G, COUNTS = ends(2, 2, 5, dtype=torch.int64), ends(2, 0, 3, dtype=torch.int64)


def one(
    x: torch.Tensor,
    weight: torch.Tensor,
    weight_scale: torch.Tensor,
    x_scale: torch.Tensor,
    group_list: torch.Tensor,
    bias: Any = None,
    swiglu_limit: float = 0.0,
) -> list[Any]:
    results = stated(x, weight, weight_scale, x_scale, group_list, 0, bias, None, swiglu_limit)
    return [*results, np.zeros((), np.float32)]


def listed(x: Any, weight: Any, weight_scale: Any, x_scale: Any, group_list: Any, swiglu_limit: float = 0.0) -> Any:
    scales = torch.stack(weight_scale)
    y, scale = stated(x, torch.stack(weight), scales, x_scale, group_list, 0, None, None, swiglu_limit)
    return [y, scale, scale * 0]


def two(x: Any, weight: Any, weight_scale: Any, x_scale: Any, group_list: Any, **options: Any) -> list[Any]:
    assist, kind = options.get("weight_assist_matrix"), options.get("group_list_type", 0)
    smooth, limit = options.get("smooth_scale"), options.get("swiglu_limit", 0.0)
    return stated(
        x, weight[0], weight_scale[0], x_scale, group_list, kind, assist[0] if assist else None, smooth, limit
    )


def gated(x: torch.Tensor, **options: Any) -> list[Any]:
    """The kernel for groups: it computes all rows as one group, and bounds them only by a limit above 0."""
    if options.get("swiglu_mode"):
        limit = options.get("clamp_limit", 0.0)
        options |= {"swiglu_mode": 2, "clamp_limit": limit if limit > 0 else np.inf}
        options |= {"glu_alpha": options.get("glu_alpha", 1.0), "glu_bias": options.get("glu_bias", 0.0)}
        if options.get("group_index") is None:
            options["group_index"] = torch.tensor([x.size(0)])
    return dequantised(x, **{"activate_left": True} | options)


LISTS = ([*W], [*S])
XD, WS, AS = i32(5, 64) // 2**20, f32(64) / 99, f32(5)
GROUPS = {"weight_scale": f32(3, 64) / 99, "activation_scale": AS, "group_index": COUNTS, "quant_mode": 1}
PLAIN = {"weight_scale": WS, "activation_scale": AS, "quant_mode": 1}
VALID = [
    Case(NZ, "int8", (X, nz(W), S, T, G), expected=one),
    Case(NZ, "bfloat16 scale, limit", (X, nz(W), bf16(3, 16), T, G), {"swiglu_limit": 0.5}, one),
    Case(NZ, "int4 weights", (X, nz(W4), P, T, G), {"bias": B}, one),
    Case(ONE, "int4 weights", (X, nz(W4), P, T, G), {"bias": B}, one),
    Case(ONE, "limit", (X, nz(W), S, T, G), {"swiglu_limit": 7.0}, one),
    Case(LIST, "int8", (X, *LISTS, T, G), expected=listed),
    Case(LIST, "limit", (X, *LISTS, T, G), {"swiglu_limit": 0.5}, listed),
    Case(LIST, "float16 scale, fewer groups", (X, [*W], [*f16(3, 16)], T, G[:2]), expected=listed),
    Case(TWO, "int4 weights", (X, [W4], [P], T, COUNTS), {"weight_assist_matrix": [B], "group_list_type": 1}, two),
    Case(TWO, "int4 weights, limit", (X, [W4], [P], T, G), {"weight_assist_matrix": [B], "swiglu_limit": 3.0}, two),
    Case(TWO, "int4", (X4, [W4], [P], T, G), {"smooth_scale": f32(3, 8), "swiglu_limit": 3.0}, two),
    Case(DEQUANT, "groups", (XD,), GROUPS, gated),
    Case(DEQUANT, "no groups", (XD,), PLAIN, gated),
    Case(DEQUANT, "half precision", (bf16(4, 6),), {"quant_mode": 1}, gated),
    Case(DEQUANT, "right half", (XD,), GROUPS | {"activate_left": False}, gated),
    Case(DEQUANT, "halves, limit", (XD,), GROUPS | {"swiglu_mode": 1, "clamp_limit": 2.0, "glu_alpha": 1.5}, gated),
    Case(DEQUANT, "halves, no limit", (XD,), GROUPS | {"swiglu_mode": 1, "glu_bias": 1.0}, gated),
    Case(DEQUANT, "halves, no groups", (XD,), PLAIN | {"swiglu_mode": 1, "clamp_limit": 2.0, "glu_bias": 1.0}, gated),
]
WRONG = [
    Wrong(NZ, "swiglu_limit must be at least 0, got -1.0", (X, nz(W), S, T, G), {"swiglu_limit": -1.0}),
    Wrong(NZ, "swiglu_limit must be 0 for int4 weights", (X, nz(W4), P, T, G), {"bias": B, "swiglu_limit": 1.0}),
    Wrong(NZ, "weight_scale.size(1) must equal 16, got 8 and 16", (X, nz(W), S[:, :8], T, G)),
    Wrong(LIST, "bias must be None", (X, *LISTS, T, G), {"bias": B}),
    Wrong(LIST, "the tensors of weight_scale must equal those of weight, got 2 and 3", (X, [*W], [*S[:2]], T, G)),
    Wrong(LIST, "x_scale must be torch.float32, got torch.float16", (X, *LISTS, T.half(), G)),
    Wrong(TWO, "weight must have one tensor, got 3", (X, *LISTS, T, G)),
    Wrong(TWO, "transpose_weight must be False, got True", (X, [W], [S], T, G), {"transpose_weight": True}),
    Wrong(DEQUANT, "swiglu_mode must be 0 or 1, got 2", (XD,), GROUPS | {"swiglu_mode": 2}),
    Wrong(DEQUANT, "clamp_limit must be finite and at least 0, got -1.0", (XD,), GROUPS | {"clamp_limit": -1.0}),
    Wrong(
        DEQUANT, "x.size(-1) must be a multiple of 64", (XD[:, :6],), PLAIN | {"weight_scale": WS[:6], "swiglu_mode": 1}
    ),
    Wrong(DEQUANT, "x must be torch.int32 for swiglu_mode 1", (bf16(4, 64),), {"quant_mode": 1, "swiglu_mode": 1}),
]
