"""Calls of the operators: those the documents allow, and for every rule one that breaks it."""

from dataclasses import dataclass, field
from typing import Any

import torch

from support.tensors import bf16, ends, f16, f32, i8, i32, on, small32, u8

INT4 = torch.quint4x2
PERTENSOR, PERCHANNEL = {"quant_mode": "pertensor"}, {"quant_mode": "perchannel"}


@dataclass(frozen=True)
class Call:
    """One call. `argument` is what the refusal of a wrong call has to name."""

    op: str
    label: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any] = field(default_factory=dict)
    argument: str = ""

    @property
    def overload(self) -> Any:
        return getattr(torch.ops.npu, self.op).default

    def on(self, device: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return tuple(on(device, arg) for arg in self.args), {name: on(device, arg) for name, arg in self.kwargs.items()}

    def __str__(self) -> str:
        return f"{self.op.removeprefix('npu_')}: {self.label}"


def good(op: str, label: str, *args: Any, **kwargs: Any) -> Call:
    return Call(f"npu_{op}", label, args, kwargs)


def bad(op: str, argument: str, label: str, *args: Any, **kwargs: Any) -> Call:
    return Call(f"npu_{op}", label, args, kwargs, argument)


def packed(n: int, rows: int | None = None) -> torch.Tensor:
    """Parameters as npu_trans_quant_param gives them: scale 2**-j and offset j, bit 46 set."""
    places = torch.arange(n, dtype=torch.int64) % 8
    params = ((127 - places) << 23) | (places << 37) | (1 << 46)
    return params if rows is None else params.expand(rows, n).contiguous()


GROUPS = ends(1, 4, 4, 6)
GOOD = [
    good("group_quant", "default", f16(6, 16), f32(4, 16), GROUPS),
    good("group_quant", "int8", f32(6, 5), bf16(4, 5), GROUPS.long(), dst_dtype=torch.int8),
    good("group_quant", "qint8 offset", bf16(6, 16), f16(4, 16), GROUPS, offset=f16(1), dst_dtype=torch.qint8),
    good("group_quant", "quint4x2", f16(6, 16), f32(4, 16), GROUPS, offset=f32(1), dst_dtype=INT4),
    good("group_quant", "offset of no dimension", f16(6, 16), f32(4, 16), GROUPS, offset=f32(), dst_dtype=INT4),
    good("group_quant", "no rows", f16(0, 16), f32(2, 16), ends(0, 0), dst_dtype=INT4),
    good("group_quant", "no columns", f16(3, 0), f32(2, 0), ends(0, 3)),
    good("group_quant", "transposed x", f16(16, 6).t(), f32(4, 16), GROUPS),
    good("quantize", "mul qint8", f16(2, 3, 16), f16(16), None, torch.qint8, -1, False),
    good("quantize", "mul default axis", f16(2, 3, 16), f32(16), f32(16), torch.int8, 1, False),
    good("quantize", "mul one scale", f32(5), f32(1), f32(1), torch.qint8, 0, False),
    good("quantize", "mul axis -2", bf16(2, 3, 16), f16(3), f16(3), torch.qint8, -2, False),
    good("quantize", "mul full rank", f16(2, 3, 16), f16(1, 1, 16), f16(1, 1, 16), torch.qint8, -1, False),
    good("quantize", "mul full rank -2", f16(2, 3, 16), f16(1, 3, 1), None, INT4, -2, False),
    good("quantize", "mul quint4x2", f16(2, 3, 16), f32(16), None, INT4, -1, False),
    good("quantize", "mul eight dimensions", f16(1, 1, 1, 2, 1, 1, 3, 8), f16(8), None, INT4, -1, False),
    good("quantize", "mul transposed input", f16(16, 3).t(), f16(16), None, torch.qint8, -1, False),
    good("quantize", "mul no rows", f16(0, 16), f16(16), None, INT4, -1, False),
    good("quantize", "div qint8", f16(2, 3, 16), f32(3), small32(3), torch.qint8, 1),
    good("quantize", "div quint8", f32(2, 3, 16), f32(16), u8(16), torch.quint8, -1),
    good("quantize", "div uint8", f32(2, 3, 16), f32(1), i8(1), torch.uint8, 2),
    good("quantize", "div qint32", bf16(2, 3, 16), bf16(2), bf16(2), torch.qint32, 0),
    good("quantize", "div int32", f16(2, 3, 16), f32(2), None, torch.int32, -3),
    good("quantize", "div transposed input", f32(16, 3).t(), f32(3), None, torch.int8, 0),
    good("trans_quant_param", "(1,)", f32(1)),
    good("trans_quant_param", "(n,)", f32(16), round_mode=1),
    good("trans_quant_param", "(1, n)", f32(1, 16), f32(1, 16)),
    good("trans_quant_param", "(g, 1)", f32(4, 1)),
    good("trans_quant_param", "(g, n)", f32(4, 16), None, 1),
    good("trans_quant_param", "(1,) with (n,)", f32(1), f32(16)),
    good("trans_quant_param", "(n,) with (1,)", f32(16), f32(1), 1),
    good("trans_quant_param", "round_mode None", f32(16), f32(16), None),
    good("trans_quant_param", "strided", f32(32)[::2], f32(32)[::2]),
    *(
        good(op, label, *args, **kwargs)
        for op in ("dynamic_quant_asymmetric", "dynamic_quant")
        for label, args, kwargs in (
            ("default", (f16(6, 16),), {}),
            ("int8", (bf16(2, 3, 5),), {"dst_type": torch.int8}),
            ("qint8", (bf16(2, 3, 5),), {"dst_type": torch.qint8}),
            ("quint4x2", (f16(2, 3, 16),), {"dst_type": INT4}),
            ("smooth", (f16(6, 16),), {"smooth_scales": f16(16)}),
            ("smooth of another dtype", (f16(6, 16),), {"smooth_scales": bf16(16)}),
            ("groups", (f16(2, 3, 16),), {"smooth_scales": f16(3, 16), "group_index": ends(1, 4, 6)}),
            (
                "groups quint4x2",
                (bf16(6, 16),),
                {"smooth_scales": bf16(2, 16), "group_index": ends(2, 6), "dst_type": INT4},
            ),
            ("pertensor", (f16(2, 3, 16),), PERTENSOR),
            ("pertensor quint4x2", (f16(2, 3, 16),), {**PERTENSOR, "dst_type": INT4}),
            ("pertensor smooth", (f16(2, 3, 16),), {**PERTENSOR, "smooth_scales": f16(16)}),
            ("perchannel", (f16(2, 3, 16),), PERCHANNEL),
            ("perchannel smooth", (f16(2, 3, 16),), {**PERCHANNEL, "smooth_scales": f16(3)}),
            ("perchannel quint4x2", (f16(2, 3, 16),), {**PERCHANNEL, "dst_type": INT4}),
            ("dst_type_max", (f16(6, 16),), {"dst_type_max": 100.0}),
            ("transposed input", (f16(16, 6).t(),), {"dst_type": INT4}),
            ("no rows", (f16(0, 16),), {}),
            ("no columns", (f16(3, 0),), PERTENSOR),
            ("eight dimensions", (f16(1, 2, 1, 1, 1, 1, 3, 8),), {"dst_type": INT4}),
        )
    ),
    good("quant_matmul", "int8 packed", i8(4, 32), i8(32, 16), packed(16)),
    good("quant_matmul", "int8 packed one", i8(4, 32), i8(32, 16), packed(1), bias=small32(16)),
    good("quant_matmul", "int8 float scale", i8(4, 32), i8(32, 16), f32(1), offset=f32(16)),
    good("quant_matmul", "int8 batch", i8(3, 1, 32), i8(3, 32, 16), f32(16), bias=small32(3, 1, 16)),
    good("quant_matmul", "int8 broadcast", i8(2, 1, 4, 32), i8(3, 32, 16), packed(16), output_dtype=torch.int8),
    good("quant_matmul", "batch of none", i8(0, 4, 32), i8(1, 32, 16), packed(16)),
    good("quant_matmul", "float16", i8(4, 32), i8(32, 16), packed(16), output_dtype=torch.float16),
    good("quant_matmul", "float16 float scale", i8(4, 32), i8(32, 16), f32(16), output_dtype=torch.float16),
    good("quant_matmul", "float16 int4", i32(4, 2), i32(16, 3), f32(24), output_dtype=torch.float16),
    good("quant_matmul", "int4 view", i32(4, 2), i32(24, 2).t(), packed(24), output_dtype=torch.float16),
    good(
        "quant_matmul",
        "float16 tokens",
        i8(4, 32),
        i8(32, 16),
        f32(16),
        pertoken_scale=f32(4),
        bias=f16(16),
        output_dtype=torch.float16,
    ),
    good("quant_matmul", "bfloat16", i8(4, 32), i8(32, 16), bf16(1), bias=bf16(16), output_dtype=torch.bfloat16),
    good(
        "quant_matmul",
        "bfloat16 tokens",
        i8(2, 4, 32),
        i8(16, 32).t(),
        f32(16),
        pertoken_scale=f32(4),
        bias=f32(16),
        output_dtype=torch.bfloat16,
    ),
    good("quant_matmul", "int32", i8(4, 32), i8(32, 16), f32(16), bias=small32(16), output_dtype=torch.int32),
]
