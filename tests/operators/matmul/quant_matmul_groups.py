"""Calls of npu_quant_matmul with scales for groups of k, and with int4 weights for int8 rows.

The whole forms are stated in `reference/test_quant_matmul.py`.
"""

from typing import Any

import numpy as np
import torch
import torch_npu
from hypothesis import strategies as st
from numpy.typing import NDArray

from support.call_strategies import Draw
from support.call_table import Call, Case, Statement, bad, good, packed
from support.numpy_rules import Floats, floats
from support.tensors import bf16, f16, f32, i8, i32, nz, small32

OP = "quant_matmul"
A4W4: dict[str, Any] = {
    "x1": i32(3, 128),
    "x2": i32(256, 128).t(),
    "scale": f32(4, 256),
    "offset": f16(4, 256).round(),
    "pertoken_scale": f32(3, 1),
    "output_dtype": torch.bfloat16,
    "group_sizes": [0, 0, 256],
}
A8W4: dict[str, Any] = {
    "x1": i8(3, 512),
    "x2": i32(512, 2),
    "scale": packed(16, rows=2),
    "offset": f32(16),
    "pertoken_scale": f32(3, 1),
    "output_dtype": torch.float16,
    "group_sizes": [0, 0, 256],
}
CHANNELS: dict[str, Any] = A8W4 | {"scale": packed(16), "pertoken_scale": f32(3), "group_sizes": None}
BLOCKS: dict[str, Any] = {
    "x1": i8(3, 512),
    "x2": i8(256, 512).t(),
    "scale": f32(2, 4).t(),
    "pertoken_scale": f32(3, 4),
    "bias": f32(256),
    "output_dtype": torch.bfloat16,
    "group_sizes": [1, 128, 128],
}


def right(label: str, form: dict[str, Any], **changes: Any) -> Call:
    options = form | changes
    return good(OP, label, *(options.pop(name) for name in ("x1", "x2", "scale")), **options)


def wrong(argument: str, label: str, form: dict[str, Any], **changes: Any) -> Call:
    options = form | changes
    return bad(OP, argument, label, *(options.pop(name) for name in ("x1", "x2", "scale")), **options)


GOOD = [
    right("int4 in groups", A4W4),
    right("int4 in groups, float16", A4W4, output_dtype=torch.float16, group_sizes=[1, 1, 256]),
    right("int8 and int4 in groups", A8W4),
    right("int8 and int4, bfloat16", A8W4, output_dtype=torch.bfloat16),
    right("int8 and int4 by channel", CHANNELS),
    right("int8 in blocks", BLOCKS),
]
WRONG = [
    wrong("group_sizes", "two group sizes", A4W4, group_sizes=[0, 256]),
    wrong("group_sizes", "a group below 0", A4W4, group_sizes=[0, -1, 256]),
    wrong("group_sizes", "int4 in another group size", A4W4, group_sizes=[0, 0, 128]),
    wrong("group_sizes", "int4 without groups", A4W4, group_sizes=None),
    wrong("output_dtype", "int4 to int8", A4W4, output_dtype=torch.int8),
    wrong("x1", "int4 of three dimensions", A4W4, x1=i32(1, 3, 128)),
    wrong("x1.size(0)", "no int4 row", A4W4, x1=i32(0, 128), pertoken_scale=f32(0, 1)),
    wrong("x2", "int4 x2 of three dimensions", A4W4, x2=i32(1, 1024, 32)),
    wrong("x2.size(1)", "no int4 column", A8W4, x2=i32(512, 0), scale=packed(0, rows=2), offset=f32(0)),
    wrong("x2.size(0)", "int4 x2 not transposed", A4W4, x2=i32(1024, 32)),
    wrong("k must be", "int4 depth", A4W4, x1=i32(3, 64), x2=i32(256, 64).t(), scale=f32(2, 256), offset=f16(2, 256)),
    wrong("n must be", "int4 columns", A4W4, x2=i32(128, 128).t(), scale=f32(4, 128), offset=f16(4, 128)),
    wrong("scale.size(0)", "a scale too few", A4W4, scale=f32(3, 256)),
    wrong("scale.size(1)", "scales of fewer columns", A4W4, scale=f32(4, 128)),
    wrong("offset", "no offset", A4W4, offset=None),
    wrong("offset", "offset float32", A4W4, offset=f32(4, 256)),
    wrong("offset", "offset of one dimension", A4W4, offset=f16(256)),
    wrong("offset.size(0)", "an offset too few", A4W4, offset=f16(3, 256)),
    wrong("pertoken_scale", "tokens of one dimension", A4W4, pertoken_scale=f32(3)),
    wrong("pertoken_scale", "tokens bfloat16", A4W4, pertoken_scale=bf16(3, 1)),
    wrong("pertoken_scale.size(0)", "int4, a token too few", A4W4, pertoken_scale=f32(2, 1)),
    wrong("pertoken_scale.size(1)", "tokens in groups", A4W4, pertoken_scale=f32(3, 4)),
    wrong("bias", "bias with int4 in groups", A4W4, bias=small32(256)),
    wrong("pertoken_scale", "int8 and int4 without tokens", A8W4, pertoken_scale=None),
    wrong("group_sizes", "int8 and int4 in another group size", A8W4, group_sizes=[1, 1, 256]),
    wrong("group_sizes", "groups by channel", CHANNELS, group_sizes=[0, 0, 256]),
    wrong("scale", "float scale for int4", CHANNELS, scale=f32(16)),
    wrong("scale", "packed scale of three dimensions", CHANNELS, scale=packed(16, rows=2)[None]),
    wrong("scale.size(0)", "a channel too few", CHANNELS, scale=packed(8)),
    wrong("scale.size(0)", "groups too few", A8W4, scale=packed(16, rows=1)),
    wrong("scale.size(1)", "groups of fewer columns", A8W4, scale=packed(8, rows=2)),
    wrong("x2.size(0)", "int8 and int4 of other depth", A8W4, x2=i32(256, 2)),
    wrong("k must be", "an odd depth", CHANNELS, x1=i8(3, 5), x2=i32(5, 2)),
    wrong("k must be", "a group not full", A8W4, x1=i8(3, 300), x2=i32(300, 2), scale=packed(16, rows=1)),
    wrong("k must be", "too deep", CHANNELS, x1=i8(3, 29578), x2=i32(29578, 2)),
    wrong("offset", "int8 and int4 without offset", A8W4, offset=None),
    wrong("offset", "int8 and int4, offset float16", A8W4, offset=f16(16)),
    wrong("offset.size(0)", "offset of fewer columns", A8W4, offset=f32(8)),
    wrong("pertoken_scale", "tokens of two dimensions by channel", CHANNELS, pertoken_scale=f32(3, 1)),
    wrong("pertoken_scale.size(1)", "tokens by group", A8W4, pertoken_scale=f32(3, 2)),
    wrong("bias", "bias for int8 and int4", A8W4, bias=small32(16)),
    wrong("group_sizes", "blocks of rows", BLOCKS, group_sizes=[128, 128, 128]),
    wrong("output_dtype", "blocks to float16", BLOCKS, output_dtype=torch.float16),
    wrong("x2", "x2 of blocks not transposed", BLOCKS, x2=i8(512, 256)),
    wrong("x2.size(0)", "blocks of other depth", BLOCKS, x2=i8(256, 1024).t()),
    wrong("scale", "scale of blocks not transposed", BLOCKS, scale=f32(4, 2)),
    wrong("scale.size(1)", "a block too few", BLOCKS, scale=f32(1, 4).t()),
    wrong("k must be", "depth of blocks", BLOCKS, x1=i8(3, 256), x2=i8(256, 256).t(), scale=f32(2, 2).t()),
    wrong("n must be", "columns of blocks", BLOCKS, x2=i8(128, 512).t(), scale=f32(1, 4).t(), bias=f32(128)),
    wrong("pertoken_scale.size(1)", "tokens without groups", BLOCKS, pertoken_scale=f32(3, 1)),
    wrong("offset", "offset with blocks", BLOCKS, offset=f32(256)),
    wrong("bias", "blocks without bias", BLOCKS, bias=None),
    wrong("bias", "blocks with bias bfloat16", BLOCKS, bias=bf16(256)),
    wrong("bias.size(0)", "bias of fewer columns", BLOCKS, bias=f32(128)),
]
WRONG_FORMATS = [
    wrong("x1", "x1 in FRACTAL_NZ", A8W4, x1=nz(i8(3, 512))),
    wrong("x2", "int4 beside int8 in FRACTAL_NZ", A8W4, x2=nz(i32(512, 2))),
    wrong("x2", "blocks in FRACTAL_NZ", BLOCKS, x2=nz(i8(256, 512).t())),
]


def golden(form: dict[str, Any]) -> Case:
    """Transpose the weight, and the scale of blocks, inside the graph if they are transposed views."""
    names = [name for name, value in form.items() if isinstance(value, torch.Tensor)]
    transposed = [name for name in names if form[name].dim() == 2 and form[name].stride(0) == 1 < form[name].size(0)]
    rest = {name: value for name, value in form.items() if name not in names}

    def call(*tensors: torch.Tensor) -> torch.Tensor:
        arguments = dict(zip(names, tensors, strict=True))
        arguments |= {name: arguments[name].t() for name in transposed}
        return torch_npu.npu_quant_matmul(**arguments, **rest)

    return call, tuple(form[name].t() if name in transposed else form[name] for name in names)


GOLDEN = {
    "quant_matmul-int4-groups": golden(A4W4 | {"pertoken_scale": f32(3, 2)[:, :1]}),
    "quant_matmul-int8-int4-groups": golden(A8W4 | {"pertoken_scale": f32(3, 2)[:, :1]}),
    "quant_matmul-int8-blocks": golden(BLOCKS),
}


def nibbles(packed: torch.Tensor) -> NDArray[np.int64]:
    """The int4 elements of int32, lowest bits first, along the last dimension."""
    words = packed.contiguous().numpy().astype(np.int64)[..., None] >> (4 * np.arange(8))
    unsigned = (words & 0xF).reshape(*packed.shape[:-1], -1)
    return np.where(unsigned > 7, unsigned - 16, unsigned)


def cut_scale(params: torch.Tensor) -> Floats:
    return (params.numpy() & 0xFFFFE000).astype(np.uint32).view(np.float32)


def sum_groups(x: NDArray[np.int64], weight: NDArray[np.int64], scale: Floats) -> Floats:
    """The products of groups of k, each rounded to float16 and added in float16."""
    total = np.zeros((x.shape[0], weight.shape[1]), np.float16)
    depth = x.shape[1] // len(scale)
    for index, group_scale in enumerate(scale):
        part = slice(index * depth, (index + 1) * depth)
        total = total + ((x[:, part] @ weight[part]).astype(np.float32) * group_scale).astype(np.float16)
    return total.astype(np.float32)


def expected(
    x1: torch.Tensor,
    x2: torch.Tensor,
    scale: torch.Tensor,
    *,
    pertoken_scale: torch.Tensor,
    output_dtype: torch.dtype,
    group_sizes: list[int],  # noqa: ARG001
    offset: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
) -> torch.Tensor:
    tokens = pertoken_scale.numpy()
    if offset is None:
        assert bias is not None
        values = np.broadcast_to(bias.numpy(), (x1.size(0), x2.size(1)))
        for index in range(scale.size(0)):
            part = slice(index * 128, (index + 1) * 128)
            whole = x1.numpy()[:, part].astype(np.int64) @ x2.numpy()[part].astype(np.int64)
            values = values + whole.astype(np.float32) * (tokens[:, [index]] * np.repeat(scale.numpy()[index], 128))
    elif x1.dtype == torch.int8:
        weight, whole = nibbles(x2), x1.numpy().astype(np.int64)
        scales = cut_scale(scale).reshape(-1, weight.shape[1])
        high, low = (sum_groups(half, weight, scales) for half in (whole // 16, whole % 16 - 8))
        values = (high * np.float32(16) + low + offset.numpy()) * tokens.reshape(-1, 1)
    else:
        rows, weight = nibbles(x1), nibbles(x2.t()).T
        values = np.zeros((rows.shape[0], weight.shape[1]), np.float32)
        for index in range(scale.size(0)):
            part = slice(index * 256, (index + 1) * 256)
            shift = rows[:, part].sum(1, keepdims=True).astype(np.float32) * floats(offset)[index]
            whole = (rows[:, part] @ weight[part]).astype(np.float32) - shift
            values = values + whole * scale.numpy()[index]
        values = values * tokens
    return torch.from_numpy(values).to(output_dtype)


@st.composite
def with_data(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**16)))
    form, m, depth = draw(st.sampled_from(["a4w4", "a8w4", "channels", "blocks"])), draw(st.integers(1, 3)), 512

    def numbers(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator) * draw(st.sampled_from([1.0, 1e-3]))

    def words(*shape: int) -> torch.Tensor:
        return torch.randint(-(2**31), 2**31, shape, generator=generator, dtype=torch.int32)

    dtype = draw(st.sampled_from([torch.float16, torch.bfloat16]))
    options: dict[str, Any] = {"output_dtype": dtype, "pertoken_scale": numbers(m, 1)}
    rows = torch.randint(-128, 128, (m, depth), generator=generator, dtype=torch.int8)
    if form == "blocks":
        weight = torch.randint(-128, 128, (256, depth), generator=generator, dtype=torch.int8)
        options |= {"output_dtype": torch.bfloat16, "pertoken_scale": numbers(m, 4), "bias": numbers(256)}
        return (rows, weight.t(), numbers(2, 4).t()), options | {"group_sizes": [1, 128, 128]}
    if form == "a4w4":
        options |= {"offset": (numbers(8, 256) * 3).half(), "group_sizes": [0, 0, 256]}
        return (words(m, 256), words(256, 256).t(), numbers(8, 256)), options
    n, groups = draw(st.sampled_from([8, 24])), 2 if form == "a8w4" else 1
    scale = torch_npu.npu_trans_quant_param(numbers(groups * n)).reshape(groups, n)
    options |= {"offset": numbers(n), "group_sizes": [0, 0, 256] if form == "a8w4" else [0, 0, 0]}
    if form == "channels":
        scale, options["pertoken_scale"] = scale.reshape(-1), options["pertoken_scale"].reshape(-1)
    return (rows, words(depth, n // 8), scale), options


STATEMENTS = {"npu_quant_matmul": Statement(expected, with_data())}
