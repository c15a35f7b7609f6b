"""Calls of npu_dynamic_quant and npu_dynamic_quant_asymmetric."""

from typing import Any

import torch
import torch_npu
from hypothesis import strategies as st

from support.call_strategies import DESTINATIONS, HALVES, SIZES, Draw, group_ends, mostly, optional, tensor
from support.call_table import INT4, Case, bad, good
from support.tensors import bf16, ends, f16, f32

PERTENSOR, PERCHANNEL = {"quant_mode": "pertensor"}, {"quant_mode": "perchannel"}
GOOD = [
    *(
        good(op, label, *args, **kwargs)
        for op in ("dynamic_quant_asymmetric", "dynamic_quant")
        for label, args, kwargs in (
            ("default", (f16(6, 16),), {}),
            ("int8", (bf16(2, 3, 5),), {"dst_type": torch.int8}),
            ("qint8", (bf16(2, 3, 5),), {"dst_type": torch.qint8}),
            ("quint4x2", (f16(2, 3, 16),), {"dst_type": INT4}),
            ("smooth", (f16(6, 16),), {"smooth_scales": f16(16)}),
            ("groups", (f16(2, 3, 16),), {"smooth_scales": f16(3, 16), "group_index": ends(1, 4, 6)}),
            (
                "groups quint4x2",
                (bf16(6, 16),),
                {"smooth_scales": bf16(2, 16), "group_index": ends(2, 6), "dst_type": INT4},
            ),
            ("experts without tokens", (f16(6, 16),), {"smooth_scales": f16(4, 16), "group_index": ends(0, 3, 3, 6)}),
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
]
WRONG = [
    bad(op, argument, label, *args, **kwargs)
    for op in ("dynamic_quant_asymmetric", "dynamic_quant")
    for argument, label, args, kwargs in (
        ("input", "one dimension", (f16(16),), {}),
        ("input", "nine dimensions", (f16(1, 1, 1, 1, 1, 1, 1, 1, 8),), {}),
        ("input", "float32", (f32(6, 16),), {}),
        ("smooth_scales", "smooth float32", (f16(6, 16),), {"smooth_scales": f32(16)}),
        ("smooth_scales", "smooth of two dimensions", (f16(6, 16),), {"smooth_scales": f16(2, 16)}),
        ("smooth_scales.size(0)", "smooth too short", (f16(6, 16),), {"smooth_scales": f16(8)}),
        (
            "smooth_scales.size(0)",
            "perchannel smooth of the width",
            (f16(6, 16),),
            {**PERCHANNEL, "smooth_scales": f16(16)},
        ),
        ("smooth_scales", "groups and one row", (f16(6, 16),), {"smooth_scales": f16(16), "group_index": ends(6)}),
        (
            "smooth_scales.size(1)",
            "groups too narrow",
            (f16(6, 16),),
            {"smooth_scales": f16(2, 8), "group_index": ends(1, 6)},
        ),
        ("smooth_scales.size(0)", "no groups", (f16(0, 16),), {"smooth_scales": f16(0, 16), "group_index": ends()}),
        (
            "smooth_scales.size(0)",
            "1025 groups",
            (f16(1025, 16),),
            {"smooth_scales": f16(1025, 16), "group_index": ends(*range(1, 1026))},
        ),
        ("smooth_scales", "groups without smooth", (f16(6, 16),), {"group_index": ends(6)}),
        (
            "group_index",
            "group_index int64",
            (f16(6, 16),),
            {"smooth_scales": f16(2, 16), "group_index": ends(1, 6, dtype=torch.int64)},
        ),
        (
            "group_index",
            "group_index of two dimensions",
            (f16(6, 16),),
            {"smooth_scales": f16(2, 16), "group_index": ends(1, 6)[None]},
        ),
        (
            "group_index.size(0)",
            "an end too few",
            (f16(6, 16),),
            {"smooth_scales": f16(2, 16), "group_index": ends(6)},
        ),
        (
            "group_index",
            "groups and pertensor",
            (f16(6, 16),),
            {**PERTENSOR, "smooth_scales": f16(2, 16), "group_index": ends(1, 6)},
        ),
        ("quant_mode", "unknown mode", (f16(6, 16),), {"quant_mode": "pergroup"}),
        ("dst_type_max", "negative maximum", (f16(6, 16),), {"dst_type_max": -1.0}),
        ("dst_type", "quint8", (f16(6, 16),), {"dst_type": torch.quint8}),
        ("dst_type", "unknown number", (f16(6, 16),), {"dst_type": 999}),
        ("input.size(-1)", "width not of eights", (f16(6, 12),), {"dst_type": INT4}),
    )
]
WRONG_EAGERLY = [
    *(
        bad(op, "smooth_scales", label, f16(6, 16), **options)
        for op in ("dynamic_quant_asymmetric", "dynamic_quant")
        for label, options in (
            ("smooth of another dtype", {"smooth_scales": bf16(16)}),
            ("groups of another dtype", {"smooth_scales": bf16(2, 16), "group_index": ends(2, 6)}),
        )
    ),
]
WRONG_VALUES = [
    *(
        bad(op, argument, label, f16(6, 16), smooth_scales=f16(2, 16), group_index=ends(*values))
        for op in ("dynamic_quant_asymmetric", "dynamic_quant")
        for argument, label, values in (
            ("group_index[0]", "negative", (-1, 6)),
            ("group_index[1]", "above the rows", (1, 7)),
            ("group_index[1]", "decreasing", (6, 5)),
            ("group_index", "last not the rows", (1, 5)),
        )
    ),
]


def golden(symmetric: bool, kind: torch.dtype, mode: str) -> Case:
    op = torch_npu.npu_dynamic_quant if symmetric else torch_npu.npu_dynamic_quant_asymmetric
    return lambda x: op(x, dst_type=kind, quant_mode=mode), (f16(2, 3, 16),)


GOLDEN = {
    f"dynamic_quant{'' if symmetric else '_asymmetric'}-{name}-{mode}": golden(symmetric, kind, mode)
    for symmetric in (True, False)
    for name, kind in (("int8", torch.int8), ("int4", INT4))
    for mode in ("pertoken", "pertensor", "perchannel")
    if (name, mode) != ("int4", "perchannel")
}


@st.composite
def calls(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    shape = tuple(draw(st.lists(SIZES, min_size=2, max_size=4)))
    mode = mostly(draw, draw(st.sampled_from(["pertoken", "pertensor", "perchannel"])), st.just("pergroup"))
    options = {"quant_mode": mode, "dst_type": draw(DESTINATIONS), "dst_type_max": draw(st.sampled_from([0.0, 9.0]))}
    if mostly(draw, mode == "pertoken", st.booleans()) and draw(st.booleans()):
        groups = draw(st.sampled_from([1, 2, 3]))
        rows = torch.Size(shape[:-1]).numel()
        options["smooth_scales"] = tensor(draw, (groups, shape[-1]), *HALVES)
        options["group_index"] = group_ends(draw, groups, rows, torch.int32)
    else:
        options["smooth_scales"] = optional(draw, (shape[-2 if mode == "perchannel" else -1],), *HALVES)
    return (tensor(draw, shape, *HALVES),), options


CALLS = {"npu_dynamic_quant": calls(), "npu_dynamic_quant_asymmetric": calls()}
