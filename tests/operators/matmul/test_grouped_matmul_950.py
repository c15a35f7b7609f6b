"""npu_grouped_matmul on Ascend 950: calls, refusals, and its forms once more in NumPy."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch
import torch_npu
from graph_quant import chip
from graph_quant.chip import ASCEND_950
from graph_quant.destination import Refusal
from graph_quant.host.engine import use
from graph_quant.narrow_floats import decode_hif8, encode_hif8
from graph_quant.refusals import UndescribedError

from operators.matmul.grouped_statement import activated, nineteen_bits, sizes_of
from support.arrays import int4_elements
from support.call_table import packed
from support.lowering import lower, node, types
from support.tensors import bf16, f16, f32, i8, i32

HIF8, E2M1, E8M0, BF16, FP16, FP32 = 290, 296, 293, 15, 5, 6
HIFLOAT = {"x_dtype": HIF8, "weight_dtype": HIF8}
CODES = {"scale_dtype": E8M0, "per_token_scale_dtype": E8M0}
FP4 = {"x_dtype": E2M1, "weight_dtype": E2M1, **CODES}
COUNTS = {"group_list": torch.tensor([4, 0, 3]), "group_list_type": 1, "group_type": 0, "split_item": 3}
ENDS = {**COUNTS, "group_list": torch.tensor([4, 4, 7]), "group_list_type": 0}
SPARSE = {**COUNTS, "group_list": torch.tensor([[2, 3], [0, 4], [1, 0]]), "group_list_type": 2}
COLUMNS = {"group_list": torch.tensor([150, 0, 66]), "group_list_type": 1, "group_type": 2, "split_item": 3}
SHALLOW = {**COLUMNS, "group_list": torch.tensor([50, 0, 66])}

torch.manual_seed(0)


@pytest.fixture(autouse=True)
def on_950() -> Iterator[None]:
    with chip.use(ASCEND_950):
        yield


def e4(*shape: int) -> torch.Tensor:
    return torch.randint(-8, 9, shape).float().to(torch.float8_e4m3fn)


def e5(*shape: int) -> torch.Tensor:
    return torch.randint(-4, 5, shape).float().to(torch.float8_e5m2)


def hif8(*shape: int) -> torch.Tensor:
    return encode_hif8(torch.randint(-8, 9, shape).float())


def fp4(*shape: int) -> torch.Tensor:
    return torch.randint(0, 256, shape).to(torch.uint8)


def codes(*shape: int) -> torch.Tensor:
    return torch.randint(124, 131, shape).to(torch.uint8)


# x, weight and options, of which lists are of one tensor.
CALLS: dict[str, tuple[torch.Tensor, torch.Tensor, dict[str, Any]]] = {
    "int8 to int32": (i8(9, 40), i8(3, 40, 6), {"bias": i32(3, 6), "output_dtype": 3, **COUNTS}),
    "int8 to int8": (i8(9, 40), i8(3, 40, 8), {"bias": i32(3, 8), "scale": packed(8, 3), **COUNTS}),
    "int8, packed": (i8(9, 40), i8(3, 40, 8), {"scale": packed(8, 3), "output_dtype": BF16, **SPARSE}),
    "int8, a float of each group": (
        i8(9, 40),
        i8(3, 40, 6),
        {"scale": f32(3), "bias": i32(3, 6), "output_dtype": FP16, **ENDS},
    ),
    "int8, a float of each group and a float bias": (
        i8(9, 40),
        i8(3, 40, 6),
        {"scale": f32(3, 1), "bias": f16(3, 6), "output_dtype": FP16, **COUNTS},
    ),
    "int8 of tokens": (
        i8(9, 40),
        i8(3, 6, 40).transpose(1, 2),
        {"scale": bf16(3, 6), "per_token_scale": f32(9), "bias": f32(3, 6), "output_dtype": BF16, **COUNTS},
    ),
    "int8, a float of each group, of tokens": (
        i8(9, 40),
        i8(3, 40, 6),
        {"scale": f32(3), "per_token_scale": f32(9), "output_dtype": BF16, **COUNTS},
    ),
    "int8 of tokens with an activation": (
        i8(9, 40),
        i8(3, 40, 6),
        {"scale": f32(3, 6) * 1e-3, "per_token_scale": f32(9), "act_type": 5, "output_dtype": BF16, **COUNTS},
    ),
    "int8 of one column with an activation": (
        i8(9, 40),
        i8(3, 40, 1),
        {"scale": f32(3, 1) * 1e-3, "act_type": 1, "output_dtype": BF16, **COUNTS},
    ),
    "float8, packed": (e4(9, 40), e5(3, 40, 6), {"scale": packed(6, 3), "output_dtype": FP32, **COUNTS}),
    "float8, channels": (e4(9, 40), e4(3, 40, 6), {"scale": f32(3, 6), "output_dtype": BF16, **SPARSE}),
    "float8 of groups": (e4(9, 40), e4(3, 40, 6), {"scale": f32(3, 1), "output_dtype": FP32, **COUNTS}),
    "float8, both of groups": (
        e4(9, 40),
        e4(3, 40, 6),
        {"scale": f32(3), "per_token_scale": f32(3, 1), "output_dtype": FP32, **COUNTS},
    ),
    "float8, channels and groups": (
        e4(9, 40),
        e4(3, 40, 6),
        {"scale": f32(3, 6), "per_token_scale": f32(3), "output_dtype": FP32, **COUNTS},
    ),
    "float8 of tokens": (
        e5(9, 40),
        e4(3, 6, 40).transpose(1, 2),
        {"scale": f32(3, 6), "per_token_scale": f32(9), "output_dtype": FP16, **SPARSE},
    ),
    "HiFloat8 of tokens": (
        hif8(9, 40),
        hif8(3, 40, 6),
        {"scale": f32(3), "per_token_scale": f32(9), "output_dtype": BF16, **HIFLOAT, **COUNTS},
    ),
    "blocks": (
        e4(9, 200),
        e4(3, 200, 140),
        {"scale": f32(3, 2, 2), "per_token_scale": f32(9, 2), "output_dtype": FP32, **COUNTS},
    ),
    "blocks of a transposed view": (
        e4(9, 200),
        e4(3, 140, 200).transpose(1, 2),
        {"scale": f32(3, 2, 2).transpose(1, 2), "per_token_scale": f32(9, 2), "output_dtype": BF16, **COUNTS},
    ),
    "MX of float8": (
        e4(9, 100),
        e5(3, 6, 100).transpose(1, 2),
        {
            "scale": codes(3, 6, 2, 2).transpose(1, 2),
            "per_token_scale": codes(9, 2, 2),
            "output_dtype": BF16,
            **CODES,
            **COUNTS,
        },
    ),
    "MX of float8, n last": (
        e4(9, 100),
        e4(3, 100, 6),
        {
            "scale": codes(3, 2, 6, 2).view(torch.float8_e8m0fnu),
            "per_token_scale": codes(9, 2, 2).view(torch.float8_e8m0fnu),
            "output_dtype": FP32,
            **SPARSE,
        },
    ),
    "MX of float4": (
        fp4(9, 48),
        fp4(3, 6, 48).transpose(1, 2),
        {
            "scale": codes(3, 6, 2, 2).transpose(1, 2),
            "per_token_scale": codes(9, 2, 2),
            "bias": f32(3, 6),
            "output_dtype": FP16,
            **FP4,
            **COUNTS,
        },
    ),
    "MX of float4, n last": (
        fp4(9, 48),
        fp4(3, 96, 3),
        {"scale": codes(3, 2, 6, 2), "per_token_scale": codes(9, 2, 2), "output_dtype": FP32, **FP4, **COUNTS},
    ),
    "columns, channels of tokens": (
        e4(216, 5).t(),
        e4(216, 6),
        {"scale": f32(3, 6), "per_token_scale": f32(3, 5), "output_dtype": FP32, **COLUMNS},
    ),
    "columns, both of groups": (
        hif8(216, 5).t(),
        hif8(216, 6),
        {"scale": f32(3), "per_token_scale": f32(3, 1), "output_dtype": FP32, **HIFLOAT, **COLUMNS},
    ),
    "columns of groups": (e4(216, 5).t(), e5(216, 6), {"scale": f32(3, 1), "output_dtype": BF16, **COLUMNS}),
    "columns, blocks": (
        e4(216, 5).t(),
        e4(216, 140),
        {"scale": f32(4, 2), "per_token_scale": f32(4, 5).t(), "output_dtype": FP32, **COLUMNS},
    ),
    "columns, blocks of fewer than 128": (
        e4(116, 5).t(),
        e4(116, 7),
        {"scale": f32(3, 1), "per_token_scale": f32(3, 5), "output_dtype": FP32, **SHALLOW},
    ),
    "columns, MX": (
        e4(216, 5).t(),
        e5(216, 6),
        {
            "scale": codes(6, 6, 2),
            "per_token_scale": codes(6, 5, 2).transpose(0, 1),
            "output_dtype": FP32,
            **CODES,
            **COLUMNS,
        },
    ),
    "bfloat16 with a bfloat16 bias": (bf16(9, 40), bf16(3, 40, 6), {"bias": bf16(3, 6), **COUNTS}),
    "float16 with a float32 bias": (f16(9, 40), f16(3, 40, 6), {"bias": f32(3, 6), **ENDS}),
    "bfloat16, int8 weights without an offset": (
        bf16(9, 40),
        i8(3, 40, 6),
        {"antiquant_scale": bf16(3, 6), "bias": bf16(3, 6), **COUNTS},
    ),
    "bfloat16, int4 weights in groups": (
        bf16(9, 64),
        i32(3, 64, 1),
        {"antiquant_scale": bf16(3, 2, 8), "antiquant_offset": bf16(3, 2, 8), **COUNTS},
    ),
}


def call(x: torch.Tensor, weight: torch.Tensor, options: dict[str, Any]) -> torch.Tensor:
    listed = {
        name: [value] if isinstance(value, torch.Tensor) and name != "group_list" else value
        for name, value in options.items()
    }
    result: torch.Tensor = torch_npu.npu_grouped_matmul([x], [weight], **listed)[0]
    return result


def on(device: str, options: dict[str, Any]) -> dict[str, Any]:
    return {name: value.to(device) if isinstance(value, torch.Tensor) else value for name, value in options.items()}


@pytest.mark.parametrize("name", CALLS)
def test_graphs_and_meta_tensors_agree_with_eager_execution(name: str) -> None:
    x, weight, options = CALLS[name]
    eager = call(x.npu(), weight.npu(), on("npu", options))
    meta = call(x.to("meta"), weight.to("meta"), on("meta", options))
    assert (meta.shape, meta.dtype, meta.stride()) == (eager.shape, eager.dtype, eager.stride())
    torch._dynamo.reset()
    with use("eager"):
        compiled = torch.compile(call, backend="npu", fullgraph=True)
        assert torch.equal(compiled(x.npu(), weight.npu(), on("npu", options)).cpu(), eager.cpu())


@pytest.mark.parametrize("name", ["MX of float4", "float8 of tokens", "columns, MX"])
def test_inductor_and_captured_graphs_agree_with_eager_execution(name: str) -> None:
    x, weight, options = CALLS[name]
    inputs = (x.npu(), weight.npu(), on("npu", options))
    eager = call(*inputs)
    torch._dynamo.reset()
    assert torch.equal(torch.compile(call, backend="npu", fullgraph=True, dynamic=True)(*inputs).cpu(), eager.cpu())
    graph = torch.npu.NPUGraph()  # type: ignore[attr-defined]
    with torch.npu.graph(graph):  # type: ignore[attr-defined]
        captured = call(*inputs)
    graph.replay()
    assert torch.equal(captured.cpu(), eager.cpu())


def test_weights_in_fractal_nz_give_the_same() -> None:
    for name in ("int8 of tokens", "MX of float4, n last"):
        x, weight, options = CALLS[name]
        plain = call(x.npu(), weight.npu(), on("npu", options))
        blocks = torch_npu.npu_format_cast(weight.contiguous().npu(), 29)
        assert torch_npu.get_npu_format(blocks) == 29
        assert torch.equal(call(x.npu(), blocks, on("npu", options)).cpu(), plain.cpu())


def test_bytes_become_their_dtypes_in_the_graph() -> None:
    x, weight, options = CALLS["MX of float4"]
    graph = lower(lambda *args: call(*args, options), x, weight)
    kinds = [kind for kind in types(graph) if kind not in ("Const", "Data")]
    assert kinds.count("Bitcast") == 4
    assert kinds.count("GroupedMatmul") == 1
    assert node(graph, "GroupedMatmul").attr["dtype"].i == 0


def as_array(x: torch.Tensor, number: int | None = None, along: int = -1) -> Any:
    """float64 values of an operand, by another implementation of its format than the package's."""
    if number == HIF8:
        return decode_hif8(x).double().numpy()
    if number == E2M1:
        packed_codes = np.moveaxis(x.numpy(), along, -1)
        values = np.stack([packed_codes & 15, packed_codes >> 4], -1).view(ml_dtypes.float4_e2m1fn).astype(np.float64)
        return np.moveaxis(values.reshape(*packed_codes.shape[:-1], -1), -1, along)
    if x.dtype in (torch.float8_e4m3fn, torch.float8_e5m2):
        kind = ml_dtypes.float8_e4m3fn if x.dtype == torch.float8_e4m3fn else ml_dtypes.float8_e5m2
        return x.contiguous().view(torch.uint8).numpy().view(kind).astype(np.float64)
    return x.double().numpy()


def wide(scale: torch.Tensor, axis: int, block: int, size: int) -> Any:
    values = scale.float().numpy()
    return np.take(np.repeat(values, block, axis), np.arange(size), axis)


def state_blocks(left: Any, right: Any, rows: Any, columns: Any) -> Any:
    total: Any = None
    for index, start in enumerate(range(0, left.shape[1], 128)):
        part = np.float32(left[:, start : start + 128] @ right[start : start + 128])
        scales = np.repeat(columns[index], 128)[: right.shape[1]]
        part = part * (rows[:, index, None] * scales)
        total = part if total is None else part + total
    return total


def state_mx(left: Any, right: Any, rows: torch.Tensor, columns: torch.Tensor) -> Any:
    depth = left.shape[1]
    one = np.repeat(2.0 ** (rows.view(torch.uint8).double().numpy().reshape(len(left), -1) - 127), 32, 1)[:, :depth]
    other = columns.view(torch.uint8).double().numpy().swapaxes(-1, -2).reshape(-1, right.shape[1])
    return np.float32((left * one) @ (right * np.repeat(2.0 ** (other - 127), 32, 0)[:depth]))


def state_vectors(product: Any, scale: Any, tokens: Any, of_x: str, options: dict[str, Any]) -> Any:
    """A product in float32 with scales of one or all columns, and none, one or all rows."""
    bias = options.get("bias")
    floats = None if bias is None or bias.dtype == torch.int32 else bias
    if scale.dtype == np.int64:
        return product * nineteen_bits(scale)
    if scale.size == 1 and of_x != "rows" and floats is None and not options.get("act_type"):
        return product * nineteen_bits((scale if tokens is None else scale * tokens).view(np.uint32))
    product = product * scale
    return product if tokens is None else product * tokens.reshape(-1, 1)


@pytest.mark.parametrize("name", [name for name in CALLS if "float16" not in name])
def test_statement(name: str) -> None:
    x, weight, options = CALLS[name]
    result = call(x.npu(), weight.npu(), on("npu", options)).cpu()
    columns = options["group_type"] == 2
    number, along_k = options.get("x_dtype"), weight.stride(-2) == 1
    one = as_array(x, number)
    other = as_array(weight, options.get("weight_dtype"), along=-2 if along_k else -1)
    scale, tokens, bias = (options.get(key) for key in ("scale", "per_token_scale", "bias"))
    group_list = options["group_list"]
    expected = torch.zeros_like(result)
    start = 0
    for group, size in sizes_of(group_list, options["group_list_type"]):
        rows = slice(start, start + size)
        left, right = (one[:, rows], other[rows]) if columns else (one[rows], other[group])
        target = expected[group] if columns else expected[rows]
        if size == 0:
            continue
        if scale is not None and tokens is not None and tokens.element_size() == 1:
            first = start // 64 + group
            part = (tokens[:, first:], scale[first:]) if columns else (tokens[rows], scale[group])
            values = state_mx(left, right, *part)
            values = values if bias is None else values + bias[group].numpy()
        elif "blocks" in name:
            first = start // 128 + group
            by_rows = tokens if tokens.size(0) == x.size(0) else tokens.t()
            pair = (by_rows[:, first:], scale[first:]) if columns else (tokens[rows], scale[group])
            values = state_blocks(left, right, *(entry.numpy() for entry in pair))
        else:
            product = left @ right
            if bias is not None and bias.dtype == torch.int32:
                product = product + bias[group].numpy()
            if scale is None:
                target.copy_(torch.from_numpy(product))
                start += size
                continue
            if result.dtype == torch.int8:
                values = np.clip(np.rint(np.float32(product) * nineteen_bits(scale[group].numpy())), -128, 127)
                target.copy_(torch.from_numpy(values))
                start += size
                continue
            of_rows = tokens is not None and ("tokens" in name)
            chosen = None if tokens is None else (tokens[group] if columns or not of_rows else tokens[rows])
            values = state_vectors(
                np.float32(product),
                scale[group].float().numpy().reshape(-1) if scale.is_floating_point() else scale[group].numpy(),
                None if chosen is None else chosen.numpy().reshape(-1),
                "rows" if of_rows else "",
                options,
            )
            if bias is not None and bias.dtype != torch.int32:
                values = values + bias[group].float().numpy()
            values = activated(values, options.get("act_type") or 0)
        target.copy_(torch.from_numpy(np.ascontiguousarray(values)))
        start += size
    assert torch.equal(result, expected)


def test_bfloat16_weights_are_rounded_after_each_operation() -> None:
    x, weight, options = CALLS["bfloat16, int4 weights in groups"]
    result = call(x.npu(), weight.npu(), on("npu", options)).cpu()
    integers = torch.from_numpy(int4_elements(weight[2], -1))
    scale, offset = (options[f"antiquant_{key}"][2].repeat_interleave(32, 0) for key in ("scale", "offset"))
    elements = (integers.bfloat16() + offset) * scale
    exact = x[4:7].double() @ elements.double()
    assert ((result[4:7].double() - exact).abs() <= 2**-8 * exact.abs() + 1e-6).all()
    once = ((integers.float() + offset.float()) * scale.float()).bfloat16()
    assert not torch.equal(once, elements)


X, W = e4(9, 128), e4(3, 128, 6)
TOKENS = {"scale": f32(3, 6), "per_token_scale": f32(9), "output_dtype": BF16, **COUNTS}
MX = {"scale": codes(3, 2, 6, 2), "per_token_scale": codes(9, 2, 2), "output_dtype": BF16, **CODES, **COUNTS}
FOURS = {**MX, **FP4}
A, B = i8(9, 128), i8(3, 128, 6)
WRONG: list[tuple[str, torch.Tensor, torch.Tensor, dict[str, Any]]] = [
    ("output_dtype", X, W, {**TOKENS, "output_dtype": None}),
    ("output_dtype", X, W, {**TOKENS, "output_dtype": 3}),
    ("output_dtype", A, B, {**TOKENS, "output_dtype": FP32}),
    ("weight must be float8", X, B, TOKENS),
    ("x_dtype", X, W, {**TOKENS, "x_dtype": 292}),
    ("k of weight[0]", X, e4(3, 64, 6), TOKENS),
    ("group_type", X, W, {**TOKENS, "group_type": -1}),
    ("split_item", X, W, {**TOKENS, "split_item": 0}),
    ("group_list must be given", X, W, {**TOKENS, "group_list": None}),
    ("group_list.size(0)", X, W, {**TOKENS, "group_list": torch.tensor([4, 5])}),
    ("scale must be given", X, W, {**TOKENS, "scale": None}),
    ("scale[0].size(0)", X, W, {**TOKENS, "scale": f32(2, 6)}),
    ("scale[0].size(1)", X, W, {**TOKENS, "scale": f32(3, 5)}),
    ("scale[0] must be torch.float32", X, W, {**TOKENS, "scale": bf16(3, 6)}),
    ("scale[0] must be torch.float32 with per_token_scale", X, W, {**TOKENS, "scale": packed(6, 3)}),
    ("per_token_scale[0] must be torch.float32", X, W, {**TOKENS, "per_token_scale": bf16(9)}),
    ("per_token_scale[0].size(0)", X, W, {**TOKENS, "per_token_scale": f32(8)}),
    ("per_token_scale[0].size(1)", X, W, {**TOKENS, "per_token_scale": f32(3, 6)}),
    ("bias must be None", X, W, {**TOKENS, "bias": f32(3, 6)}),
    ("offset must be None", X, W, {**TOKENS, "offset": f32(3, 6)}),
    ("antiquant_scale must be None", X, W, {**TOKENS, "antiquant_scale": f32(3, 6)}),
    ("act_type", X, W, {**TOKENS, "act_type": 1}),
    ("act_type", A, B, {**TOKENS, "act_type": 3}),
    ("act_type", A, B, {**TOKENS, "scale": f32(3), "act_type": 1}),
    ("x[0] must not be a transposed view", e4(128, 9).t(), W, TOKENS),
    ("x[0] must be a transposed view", e4(9, 216), e4(216, 6), {**TOKENS, **COLUMNS}),
    ("weight[0] must not be a transposed view", e4(216, 9).t(), e4(6, 216).t(), {**TOKENS, **COLUMNS}),
    ("weight[0] must have 2", e4(216, 9).t(), e4(3, 216, 6), {**TOKENS, **COLUMNS}),
    ("group_type must be 0", i8(216, 9).t(), i8(216, 6), {**TOKENS, **COLUMNS}),
    ("group_list_type", e4(216, 9).t(), e4(216, 6), {**TOKENS, **COLUMNS, "group_list_type": 2}),
    (
        "scale[0] must be torch.float32",
        e4(216, 9).t(),
        e4(216, 6),
        {**COLUMNS, "scale": packed(6, 3), "output_dtype": 15},
    ),
    ("per_token_scale[0].size(1)", X, e4(3, 128, 6), {**TOKENS, "scale": f32(3, 1, 1), "per_token_scale": f32(9, 2)}),
    ("scale and per_token_scale", X, W, {**MX, "per_token_scale_dtype": None}),
    ("scale_dtype", X, W, {**MX, "scale_dtype": 292}),
    ("scale[0].size(1)", X, W, {**MX, "scale": codes(3, 1, 6, 2)}),
    ("per_token_scale[0].size(2)", X, W, {**MX, "per_token_scale": codes(9, 2, 1)}),
    ("bias must be None", X, W, {**MX, "bias": f32(3, 6)}),
    ("scale[0] must be a transposed view", X, e4(3, 6, 128).transpose(1, 2), MX),
    ("x[0] must be float8 or float4", hif8(9, 128), hif8(3, 128, 6), {**MX, **HIFLOAT}),
    ("scale and per_token_scale must be", fp4(9, 64), fp4(3, 128, 3), {**TOKENS, "x_dtype": 296, "weight_dtype": 296}),
    ("bias[0] must be torch.float32", fp4(9, 64), fp4(3, 128, 3), {**FOURS, "bias": bf16(3, 6)}),
    ("k must be at least 3", fp4(9, 1), fp4(3, 2, 3), FOURS),
    ("group_type must be 0", fp4(216, 4).t(), fp4(216, 3), {**FOURS, **COLUMNS}),
    ("scale must be given", A, B, {**COUNTS, "output_dtype": BF16}),
    ("scale[0] must be", A, B, {**COUNTS, "scale": f32(3, 6), "output_dtype": 3}),
    ("scale[0] must be", A, B, {**TOKENS, "scale": bf16(3, 6), "output_dtype": FP16}),
    ("scale[0] must have 2", A, B, {**COUNTS, "scale": packed(3)}),
    ("per_token_scale must be None", A, B, {**COUNTS, "per_token_scale": f32(9), "output_dtype": 3}),
    ("per_token_scale[0].size(0)", A, B, {**TOKENS, "per_token_scale": f32(3)}),
    ("bias[0] must be torch.int32", A, B, {**COUNTS, "scale": packed(6, 3), "bias": f32(3, 6), "output_dtype": BF16}),
    ("bias[0] must be", A, B, {**TOKENS, "bias": f16(3, 6)}),
    ("bias[0] must be torch.bfloat16", bf16(9, 40), bf16(3, 40, 6), {**COUNTS, "bias": f16(3, 6)}),
    ("x_dtype must be None", bf16(9, 40), bf16(3, 40, 6), {**COUNTS, "x_dtype": HIF8}),
    (
        "32, 64, 128 or 256",
        bf16(9, 32),
        i32(3, 32, 1),
        {"antiquant_scale": bf16(3, 2, 8), "antiquant_offset": bf16(3, 2, 8), **COUNTS},
    ),
    ("weight must be one tensor", bf16(9, 40), i8(40, 6), {"antiquant_scale": bf16(1, 6), **COUNTS}),
    ("x[0] must have 2", bf16(2, 3, 8), bf16(8, 4), {"group_type": -1, "split_item": 0}),
]


def wrong_calls() -> Iterator[Callable[[], torch.Tensor]]:
    """Every wrong call, for the test that each rule refuses one."""
    for _, x, weight, options in WRONG:
        yield partial(call, x.npu(), weight.npu(), on("npu", options))
    for kind, options in ((torch.int8, {"antiquant_scale": bf16(3, 32)}), (torch.float32, {})):
        x, weight = bf16(9, 32) if options else f32(9, 32), torch.ones(3, 32, 32, dtype=kind).npu()
        yield partial(call, x.npu(), torch_npu.npu_format_cast(weight, 29), on("npu", {**options, **COUNTS}))


@pytest.mark.parametrize(("message", "x", "weight", "options"), WRONG)
def test_wrong_calls_are_refused(message: str, x: torch.Tensor, weight: torch.Tensor, options: dict[str, Any]) -> None:
    with pytest.raises(Refusal, match="npu_grouped_matmul: ") as refused:
        call(x.npu(), weight.npu(), on("npu", options))
    assert message in str(refused.value)


def test_wrong_calls_are_refused_while_tracing() -> None:
    torch._dynamo.reset()
    x, weight, options = X.npu(), W.npu(), on("npu", {**TOKENS, "output_dtype": None})
    with pytest.raises(RuntimeError, match="npu_grouped_matmul: output_dtype must be"):
        torch.compile(call, backend="npu", fullgraph=True)(x, weight, options)


@pytest.mark.parametrize(
    ("x", "weight", "options"),
    [
        (i8(9, 256), i32(3, 256, 8), {"scale": packed(64, 3)[:, None], "bias": f32(3, 64), "output_dtype": 15}),
        (i32(9, 8), i32(3, 64, 8), {"scale": packed(64, 3), "output_dtype": 15}),
        (e4(116, 3).t(), e4(116, 7), {"scale": f32(3, 1), "per_token_scale": f32(3, 3), "output_dtype": 6, **SHALLOW}),
    ],
    ids=["int8 x and int4 weights", "int4", "scales that are of rows and of blocks"],
)
def test_forms_that_are_not_described_are_refused_by_name(
    x: torch.Tensor, weight: torch.Tensor, options: dict[str, Any]
) -> None:
    with pytest.raises(UndescribedError, match="not described"):
        call(x.npu(), weight.npu(), on("npu", {**COUNTS, **options}))


def test_weights_in_fractal_nz_that_the_kernel_does_not_take_are_refused() -> None:
    weight = torch_npu.npu_format_cast(i8(3, 128, 6).npu(), 29)
    with pytest.raises(Refusal, match="output_dtype must not be int8"):
        call(A.npu(), weight, on("npu", {**COUNTS, "scale": packed(6, 3)}))
    hifloat = torch_npu.npu_format_cast(hif8(3, 128, 6).npu(), 29)
    with pytest.raises(Refusal, match=r"weight\[0\] must be int8, or"):
        call(hif8(9, 128).npu(), hifloat, on("npu", {**TOKENS, **HIFLOAT}))


def test_the_list_form_is_not_described() -> None:
    with pytest.raises(UndescribedError, match="not described"):
        torch_npu.npu_grouped_matmul([bf16(4, 8).npu()], [bf16(8, 4).npu()], group_list=[4])
