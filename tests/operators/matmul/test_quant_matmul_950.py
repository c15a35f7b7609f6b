"""npu_quant_matmul on Ascend 950: calls, refusals, and its forms once more in NumPy."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
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
from graph_quant.meta.matmul import quant_matmul_950 as rules
from graph_quant.narrow_floats import decode_hif8, encode_hif8
from graph_quant.refusals import UndescribedError

from support.lowering import lower, node, types
from support.stated_rules import refusing_lines, rules_without_a_call
from support.tensors import bf16, f16, f32, i8, i32

HIF8, E2M1, E8M0 = 290, 296, 293
MX = {"scale_dtype": E8M0, "pertoken_scale_dtype": E8M0, "group_sizes": [1, 1, 32]}
FP4 = {"x1_dtype": E2M1, "x2_dtype": E2M1, **MX}
HIFLOAT = {"x1_dtype": HIF8, "x2_dtype": HIF8}


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


def multiply(x1: torch.Tensor, x2: torch.Tensor, scale: torch.Tensor, **options: Any) -> torch.Tensor:
    result: torch.Tensor = torch_npu.npu_quant_matmul(x1, x2, scale, **options)
    return result


torch.manual_seed(0)
PACKED = torch_npu.npu_trans_quant_param(f32(1), None)
BLOCKS = {"pertoken_scale": f32(2, 3), "output_dtype": torch.float32, "group_sizes": [128, 128, 128]}
# x1, x2, scale and options.
CALLS: dict[str, tuple[torch.Tensor, torch.Tensor, torch.Tensor, dict[str, Any]]] = {
    "float8, packed, with bias": (e4(3, 40), e5(40, 6), PACKED, {"bias": f32(6), "output_dtype": torch.float32}),
    "float8, packed here": (e4(2, 3, 40), e4(40, 6), f32(6), {"output_dtype": torch.float16}),
    "float8 of a token": (e5(3, 40), e4(6, 40).t(), f32(6), {"pertoken_scale": f32(3), "output_dtype": torch.bfloat16}),
    "float8, two numbers": (e4(3, 40), e4(40, 6), f32(1), {"pertoken_scale": f32(1), "output_dtype": torch.float32}),
    "two numbers, with bias": (
        e4(3, 40),
        e4(40, 6),
        f32(1),
        {"pertoken_scale": f32(1), "bias": f32(6), "output_dtype": torch.float32},
    ),
    "a number and channels": (
        e4(40, 3).t(),
        e4(40, 6),
        f32(6),
        {"pertoken_scale": f32(1), "bias": f32(6), "output_dtype": torch.float32},
    ),
    "HiFloat8 of a token": (
        hif8(3, 40),
        hif8(6, 40).t(),
        f32(1),
        {"pertoken_scale": f32(3), "output_dtype": torch.float32, **HIFLOAT},
    ),
    "HiFloat8 in int8, packed": (
        hif8(3, 40).view(torch.int8),
        hif8(40, 6),
        PACKED,
        {"output_dtype": torch.bfloat16, **HIFLOAT},
    ),
    "blocks": (e4(130, 300), e4(140, 300).t(), f32(2, 3).t(), BLOCKS),
    "blocks of rows, in batches": (
        e4(2, 3, 140),
        e5(2, 140, 130),
        f32(2, 2, 2),
        {"pertoken_scale": f32(2, 3, 2), "output_dtype": torch.bfloat16, "group_sizes": [1, 128, 128]},
    ),
    "blocks of int8": (
        i8(3, 256),
        i8(256, 128),
        f32(2, 1),
        {"pertoken_scale": f32(3, 2), "bias": f32(128), "output_dtype": torch.bfloat16, "group_sizes": [0, 0, 128]},
    ),
    "MX of float8": (
        e4(3, 100),
        e5(6, 100).t(),
        codes(6, 2, 2).transpose(0, 1),
        {"pertoken_scale": codes(3, 2, 2), "bias": f32(6), "output_dtype": torch.bfloat16, **MX},
    ),
    "MX, k not last": (
        e4(128, 3).t(),
        e4(128, 6),
        codes(2, 6, 2).view(torch.float8_e8m0fnu),
        {"pertoken_scale": codes(2, 3, 2).transpose(0, 1).view(torch.float8_e8m0fnu), "output_dtype": torch.float32},
    ),
    "MX in batches": (
        e4(2, 1, 3, 64),
        e4(4, 64, 6),
        codes(4, 1, 6, 2),
        {"pertoken_scale": codes(2, 1, 3, 1, 2), "output_dtype": torch.float16, **MX},
    ),
    "MX of float4": (
        fp4(3, 48),
        fp4(6, 48).t(),
        codes(6, 2, 2).transpose(0, 1),
        {"pertoken_scale": codes(3, 2, 2), "output_dtype": torch.float16, **FP4},
    ),
    "MX of float4, k not last": (
        fp4(96, 2).t(),
        fp4(96, 3),
        codes(2, 6, 2),
        {"pertoken_scale": codes(2, 4, 2).transpose(0, 1), "output_dtype": torch.float32, **FP4},
    ),
    "MX of float8 and float4": (
        e4(3, 96),
        fp4(6, 48).t(),
        codes(6, 2, 2).transpose(0, 1),
        {"pertoken_scale": codes(3, 2, 2), "bias": bf16(1, 6), "output_dtype": torch.bfloat16, "x2_dtype": E2M1, **MX},
    ),
    "int8, packed": (i8(3, 40), i8(40, 6), PACKED, {"bias": i32(6), "output_dtype": torch.bfloat16}),
    "int8 to int8": (i8(3, 40), i8(40, 6), f32(6) * 1e-2, {"offset": f32(6)}),
    "int8, one float": (i8(3, 40), i8(40, 6), f32(1), {"output_dtype": torch.bfloat16}),
    "int8, one float and a bias": (i8(3, 40), i8(40, 6), f32(1), {"bias": f32(6), "output_dtype": torch.bfloat16}),
    "int8 of a token": (
        i8(3, 40),
        i8(6, 40).t(),
        bf16(6),
        {"pertoken_scale": f32(3), "bias": i32(6), "output_dtype": torch.bfloat16},
    ),
    "int8 to int32": (i8(3, 40), i8(40, 6), f32(6), {"output_dtype": torch.int32}),
    "int4 of a token": (
        i32(3, 5),
        i32(6, 5).t(),
        f32(6),
        {"pertoken_scale": f32(3), "output_dtype": torch.float16},
    ),
}


def on_npu(value: Any) -> Any:
    return value.npu() if isinstance(value, torch.Tensor) else value


@pytest.mark.parametrize("name", CALLS)
def test_graphs_and_meta_tensors_agree_with_eager_execution(name: str) -> None:
    x1, x2, scale, options = CALLS[name]
    options = {key: on_npu(value) for key, value in options.items()}
    eager = multiply(x1.npu(), x2.npu(), scale.npu(), **options)
    meta = multiply(
        *(x.to("meta") for x in (x1, x2, scale)),
        **{key: value.to("meta") if isinstance(value, torch.Tensor) else value for key, value in options.items()},
    )
    assert (meta.shape, meta.dtype, meta.stride()) == (eager.shape, eager.dtype, eager.stride())
    torch._dynamo.reset()
    with use("eager"):
        compiled = torch.compile(lambda *args: multiply(*args, **options), backend="npu", fullgraph=True)
        assert torch.equal(compiled(x1.npu(), x2.npu(), scale.npu()).cpu(), eager.cpu())


@pytest.mark.parametrize("name", ["float8, packed here", "MX of float4", "blocks", "HiFloat8 of a token"])
def test_inductor_and_captured_graphs_agree_with_eager_execution(name: str) -> None:
    x1, x2, scale, options = CALLS[name]
    options = {key: on_npu(value) for key, value in options.items()}
    inputs = (x1.npu(), x2.npu(), scale.npu())
    eager = multiply(*inputs, **options)
    torch._dynamo.reset()
    compiled = torch.compile(lambda *args: multiply(*args, **options), backend="npu", fullgraph=True)
    assert torch.equal(compiled(*inputs).cpu(), eager.cpu())
    graph = torch.npu.NPUGraph()  # type: ignore[attr-defined]
    with torch.npu.graph(graph):  # type: ignore[attr-defined]
        captured = multiply(*inputs, **options)
    graph.replay()
    assert torch.equal(captured.cpu(), eager.cpu())


def test_bytes_become_their_dtypes_in_the_graph() -> None:
    x1, x2, scale, options = CALLS["MX of float4"]
    graph = lower(lambda *args: multiply(*args, **options), x1, x2, scale)
    kinds = [kind for kind in types(graph) if kind not in ("Const", "Data")]
    assert kinds.count("Bitcast") == 4
    assert kinds.count("QuantBatchMatmulV4") == 1
    assert node(graph, "QuantBatchMatmulV4").attr["group_size"].i == 4295032864


X, W = e4(3, 128), e4(128, 6)
TOKENS = {"pertoken_scale": f32(3), "output_dtype": torch.bfloat16}
MX_CALL = {"pertoken_scale": codes(3, 2, 2), "output_dtype": torch.bfloat16, **MX}
BYTES, TO_INT8 = (i8(3, 64), i8(64, 6), f32(6)), {"output_dtype": torch.int8}
BLOCK_CALL = {"pertoken_scale": f32(3, 1), "output_dtype": torch.bfloat16, "group_sizes": [1, 128, 128]}
BLOCKS_OF_BYTES = i8(3, 128), i8(128, 128), f32(1, 1)
MIXED_CALL, MIXED_WEIGHT = {**MX_CALL, "x2_dtype": E2M1, "group_sizes": [0, 0, 32]}, fp4(6, 64).t()
WRONG: list[tuple[str, torch.Tensor, torch.Tensor, torch.Tensor, dict[str, Any]]] = [
    ("output_dtype", X, W, f32(6), {}),
    ("output_dtype", X, W, f32(6), {**TOKENS, "output_dtype": torch.int32}),
    ("x1 must be", bf16(3, 128), W, f32(6), TOKENS),
    ("x2 must be float8", X, i8(128, 6), f32(6), TOKENS),
    ("x1_dtype", X, W, f32(6), {**TOKENS, "x1_dtype": 297}),
    ("x1 must be", X, W, f32(6), {**TOKENS, **HIFLOAT}),
    ("k of x2", X, e4(64, 6), f32(6), TOKENS),
    ("scale.size(0)", X, W, f32(5), TOKENS),
    ("scale must be torch.float32", X, W, bf16(6), TOKENS),
    ("scale must have 1", X, W, f32(1, 6), TOKENS),
    ("pertoken_scale.size(0)", X, W, f32(6), {**TOKENS, "pertoken_scale": f32(2)}),
    ("bias must be torch.float32", X, W, f32(6), {**TOKENS, "bias": bf16(6)}),
    ("bias must have 1", X, W, f32(6), {**TOKENS, "bias": f32(1, 6)}),
    ("offset", X, W, f32(6), {**TOKENS, "offset": f32(6)}),
    ("group_sizes", X, W, f32(6), {**TOKENS, "group_sizes": [1, 1, 32]}),
    ("bias must be None", X, W, f32(1, 1), {**TOKENS, "pertoken_scale": f32(3, 1), "bias": f32(6)}),
    ("group_sizes[0]", X, W, f32(1, 1), {**TOKENS, "pertoken_scale": f32(3, 1), "group_sizes": [2, 128, 128]}),
    ("pertoken_scale.size(0)", X, W, f32(1, 1), {**TOKENS, "pertoken_scale": f32(3, 1), "group_sizes": [128] * 3}),
    ("scale and pertoken_scale", X, W, codes(2, 6, 2), {**MX_CALL, "pertoken_scale_dtype": None}),
    ("scale_dtype", X, W, codes(2, 6, 2), {**MX_CALL, "scale_dtype": 292}),
    ("scale.size(0)", X, W, codes(1, 6, 2), MX_CALL),
    ("pertoken_scale.size(2)", X, W, codes(2, 6, 2), {**MX_CALL, "pertoken_scale": codes(3, 2, 1)}),
    ("group_sizes[2]", X, W, codes(2, 6, 2), {**MX_CALL, "group_sizes": [1, 1, 64]}),
    ("scale must be a transposed view", X, e4(6, 128).t(), codes(2, 6, 2), MX_CALL),
    ("x1 must be float8 or float4", hif8(3, 128), hif8(128, 6), codes(2, 6, 2), {**MX_CALL, **HIFLOAT}),
    ("x2 must be a transposed", X, fp4(128, 3), codes(2, 6, 2), {**MX_CALL, "x2_dtype": E2M1}),
    ("pertoken_scale.size(0)", i8(3, 64), i8(64, 6), f32(6), {**TOKENS, "pertoken_scale": f32(1)}),
    ("x1 must have 2 to 6", e4(128), W, f32(6), TOKENS),
    ("x2 must have 2 to 6", X, e4(128), f32(6), TOKENS),
    ("x1.size(0) must be at least 1", e4(0, 128), W, f32(6), TOKENS),
    ("x2.size(1) must be at least 1", X, e4(128, 0), f32(6), TOKENS),
    ("x1 must not be a transposed", i32(2, 16).t(), i32(16, 2), f32(16), {"output_dtype": torch.float16}),
    ("pertoken_scale_dtype", X, W, f32(6), {"pertoken_scale_dtype": E8M0, "output_dtype": torch.float16}),
    ("scale must be torch.uint8", X, W, f32(2, 6, 2), MX_CALL),
    ("group_sizes must have 3", X, W, codes(2, 6, 2), {**MX_CALL, "group_sizes": [1, 32]}),
    ("offset must be torch.float32", *BYTES, {**TO_INT8, "offset": f16(6)}),
    ("offset must have 1", *BYTES, {**TO_INT8, "offset": f32(1, 6)}),
    ("offset.size(0)", *BYTES, {**TO_INT8, "offset": f32(5)}),
    ("pertoken_scale must be torch.float32", X, W, f32(6), {**TOKENS, "pertoken_scale": bf16(3)}),
    ("pertoken_scale must have 1", X, W, f32(6), {**TOKENS, "pertoken_scale": torch.tensor(1.0)}),
    ("output_dtype", X, W, f32(1, 1), {**BLOCK_CALL, "output_dtype": torch.int32}),
    ("scale must be torch.float32", X, W, bf16(1, 1), BLOCK_CALL),
    ("pertoken_scale must be torch.float32", X, W, f32(1, 1), {**BLOCK_CALL, "pertoken_scale": bf16(3, 1)}),
    ("bias must be torch.float32", *BLOCKS_OF_BYTES, {**BLOCK_CALL, "bias": bf16(128)}),
    ("pertoken_scale must have 2", X, W, f32(1, 1), {**BLOCK_CALL, "pertoken_scale": f32(1, 3, 1)}),
    ("scale must have 2", X, W, f32(1, 1, 1), BLOCK_CALL),
    ("group_sizes[1]", X, W, f32(1, 1), {**BLOCK_CALL, "group_sizes": [1, 64, 128]}),
    ("group_sizes[2]", X, W, f32(1, 1), {**BLOCK_CALL, "group_sizes": [1, 128, 64]}),
    ("scale.size(0)", X, W, f32(2, 1), BLOCK_CALL),
    ("number of scales along n", X, W, f32(1, 0), {**BLOCK_CALL, "group_sizes": [1, 0, 128]}),
    ("n must be a multiple", X, W, f32(1, 4), {**BLOCK_CALL, "group_sizes": [1, 0, 128]}),
    ("must both be float8_e8m0fnu", X, fp4(3, 64).t(), f32(6), {**TOKENS, "x2_dtype": E2M1}),
    ("output_dtype", X, W, codes(2, 6, 2), {**MX_CALL, "output_dtype": torch.int8}),
    ("x1 must have 2 dimensions", e4(2, 3, 128), fp4(3, 64).t(), codes(2, 6, 2), MIXED_CALL),
    ("x2 must have 2 dimensions", X, fp4(2, 3, 64).transpose(1, 2), codes(2, 6, 2), MIXED_CALL),
    ("x1 must not be a transposed", e4(128, 3).t(), fp4(3, 64).t(), codes(2, 6, 2), MIXED_CALL),
    ("k must be a multiple of 8", e4(3, 12), fp4(6, 6).t(), codes(1, 6, 2), MIXED_CALL),
    ("k must be at least 3", fp4(3, 1), fp4(6, 1).t(), codes(1, 6, 2), {**MX_CALL, **FP4}),
    ("group_sizes[0]", X, W, codes(2, 6, 2), {**MX_CALL, "group_sizes": [2, 1, 32]}),
    ("group_sizes[1]", X, W, codes(2, 6, 2), {**MX_CALL, "group_sizes": [1, 2, 32]}),
    ("bias must be torch.bfloat16", X, MIXED_WEIGHT, codes(6, 2, 2).transpose(0, 1), {**MIXED_CALL, "bias": f32(1, 6)}),
    ("bias", X, MIXED_WEIGHT, codes(6, 2, 2).transpose(0, 1), {**MIXED_CALL, "bias": bf16(6)}),
    ("bias must be torch.float32", X, W, codes(2, 6, 2), {**MX_CALL, "bias": bf16(6)}),
]


@pytest.mark.parametrize(("message", "x1", "x2", "scale", "options"), WRONG)
def test_wrong_calls_are_refused_eagerly_and_while_tracing(
    message: str, x1: torch.Tensor, x2: torch.Tensor, scale: torch.Tensor, options: dict[str, Any]
) -> None:
    with pytest.raises(Refusal, match="npu_quant_matmul: ") as refused:
        multiply(x1.npu(), x2.npu(), scale.npu(), **{key: on_npu(value) for key, value in options.items()})
    assert message in str(refused.value)


def test_every_rule_refuses_a_call_of_the_table() -> None:
    calls = [partial(multiply, x1, x2, scale, **options) for _, x1, x2, scale, options in WRONG]
    assert rules_without_a_call([Path(rules.__file__)], set().union(*map(refusing_lines, calls))) == []


@pytest.mark.parametrize(
    ("x1", "x2", "scale", "options"),
    [
        (i8(3, 256), i32(256, 1), f32(8), {**TOKENS, "offset": f32(8)}),
        (X, fp4(3, 64).t(), bf16(3, 4).t(), {"y_scale": PACKED, "x2_dtype": E2M1, "output_dtype": torch.bfloat16}),
    ],
    ids=["int4 x2", "y_scale"],
)
def test_forms_that_are_not_described_are_refused_by_name(
    x1: torch.Tensor, x2: torch.Tensor, scale: torch.Tensor, options: dict[str, Any]
) -> None:
    with pytest.raises(UndescribedError, match="not described"):
        multiply(x1.npu(), x2.npu(), scale.npu(), **{key: on_npu(value) for key, value in options.items()})


def test_hifloat8_in_fractal_nz_is_refused_by_name() -> None:
    weight = torch_npu.npu_format_cast(hif8(64, 32).view(torch.int8).npu(), 29)
    options = {"pertoken_scale": f32(3).npu(), "output_dtype": torch.bfloat16, **HIFLOAT}
    with pytest.raises(UndescribedError, match="FRACTAL_NZ is not described"):
        multiply(hif8(3, 64).npu(), weight, f32(32).npu(), **options)


def as_array(x: torch.Tensor, number: int | None = None) -> Any:
    """float64 values of an operand, by another implementation of its format than the package's."""
    if number == HIF8:
        return decode_hif8(x.view(torch.uint8)).double().numpy()
    if number == E2M1:
        packed = x.numpy()
        values = np.stack([packed & 15, packed >> 4], -1).view(ml_dtypes.float4_e2m1fn).astype(np.float64)
        return values.reshape(*packed.shape[:-1], -1)
    if x.dtype in (torch.float8_e4m3fn, torch.float8_e5m2):
        kind = ml_dtypes.float8_e4m3fn if x.dtype == torch.float8_e4m3fn else ml_dtypes.float8_e5m2
        return x.contiguous().view(torch.uint8).numpy().view(kind).astype(np.float64)
    return x.double().numpy()


def cut(scale: Any) -> Any:
    return (np.float32(scale).reshape(-1).view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)


def check(result: torch.Tensor, expected: Any) -> None:
    wanted = torch.from_numpy(np.ascontiguousarray(expected, dtype=np.float32)).to(result.dtype)
    assert torch.equal(result.cpu(), wanted)


def test_one_scale_of_each_operand_is_cut_to_19_bits_without_a_bias() -> None:
    x1, x2 = e4(5, 64), e5(64, 7)
    scale, token, bias = f32(1), f32(1), f32(7)
    product = np.float32(as_array(x1) @ as_array(x2))
    call = {"pertoken_scale": token.npu(), "output_dtype": torch.float32}
    plain = multiply(x1.npu(), x2.npu(), scale.npu(), **call)
    check(plain, product * cut(scale.numpy() * token.numpy()))
    biased = multiply(x1.npu(), x2.npu(), scale.npu(), bias=bias.npu(), **call)
    check(biased, product * scale.numpy() * token.numpy() + bias.numpy())
    integers = i8(5, 64), i8(64, 7)
    product = np.float32(as_array(integers[0]) @ as_array(integers[1]))
    call = {"output_dtype": torch.bfloat16}
    check(multiply(*(x.npu() for x in integers), scale.npu(), **call), product * cut(scale.numpy()))
    biased = multiply(*(x.npu() for x in integers), scale.npu(), bias=bias.npu(), **call)
    check(biased, product * scale.numpy() + bias.numpy())


def test_a_packed_scale_multiplies_after_the_bias_and_a_float_scale_before() -> None:
    x1, x2, scale, bias, tokens = e4(5, 64), e4(64, 7), f32(7), f32(7), f32(5)
    product = np.float32(as_array(x1) @ as_array(x2))
    packed = multiply(x1.npu(), x2.npu(), scale.npu(), bias=bias.npu(), output_dtype=torch.float32)
    check(packed, (product + bias.numpy()) * cut(scale.numpy()))
    options = {"pertoken_scale": tokens.npu(), "bias": bias.npu(), "output_dtype": torch.float32}
    check(
        multiply(x1.npu(), x2.npu(), scale.npu(), **options),
        product * scale.numpy() * tokens.numpy()[:, None] + bias.numpy(),
    )


@pytest.mark.parametrize("name", ["blocks", "blocks of rows, in batches", "blocks of int8"])
def test_blocks_are_added_up_in_the_order_of_k(name: str) -> None:
    x1, x2, scale, options = CALLS[name]
    tokens, group_m = options["pertoken_scale"].numpy(), options["group_sizes"][0] or 1
    one, other = as_array(x1), as_array(x2)
    tall = np.repeat(tokens, group_m, -2)[..., : one.shape[-2], :]
    wide = np.repeat(scale.numpy(), 128, -1)[..., : other.shape[-1]]
    total: Any = 0
    for index, start in enumerate(range(0, one.shape[-1], 128)):
        part = np.float32(one[..., start : start + 128] @ other[..., start : start + 128, :])
        total = part * (tall[..., index, None] * wide[..., index, None, :]) + total
    if "bias" in options:
        total = total + options["bias"].numpy()
    options = {key: on_npu(value) for key, value in options.items()}
    check(multiply(x1.npu(), x2.npu(), scale.npu(), **options), total)


@pytest.mark.parametrize("name", [name for name in CALLS if name.startswith("MX")])
def test_mx_scales_belong_to_32_elements_of_k(name: str) -> None:
    x1, x2, scale, options = CALLS[name]
    tokens = options["pertoken_scale"].view(torch.uint8).double().numpy()
    scales = scale.view(torch.uint8).double().numpy()
    one = as_array(x1, options.get("x1_dtype"))
    other = as_array(x2, options.get("x2_dtype"))
    if name == "MX of float4, k not last":
        one = np.swapaxes(as_array(x1.t().contiguous(), E2M1), -1, -2)
    elif options.get("x2_dtype") == E2M1:
        other = np.swapaxes(as_array(x2.t().contiguous(), E2M1), -1, -2)
    depth = one.shape[-1]
    tall = np.repeat(tokens.reshape(*tokens.shape[:-2], -1), 32, -1)[..., :depth]
    wide = np.repeat(np.moveaxis(scales, -1, -2).reshape(*scales.shape[:-3], -1, scales.shape[-2]), 32, -2)
    expected = (one * 2.0 ** (tall - 127)) @ (other * 2.0 ** (wide[..., :depth, :] - 127))
    if "bias" in options:
        expected = np.float32(expected) + options["bias"].float().numpy()
    options = {key: on_npu(value) for key, value in options.items()}
    check(multiply(x1.npu(), x2.npu(), scale.npu(), **options), expected)


def test_blocks_with_a_nan_scale_give_nan_and_tiny_ones_are_kept() -> None:
    x1, x2 = torch.ones(2, 64).to(torch.float8_e4m3fn), torch.ones(64, 2).to(torch.float8_e4m3fn)
    left = torch.full((2, 1, 2), 127, dtype=torch.uint8)
    right = torch.full((1, 2, 2), 250, dtype=torch.uint8)
    left[0, 0, 1] = 255
    left[1] = 0
    y = multiply(x1.npu(), x2.npu(), right.npu(), pertoken_scale=left.npu(), output_dtype=torch.float32, **MX)
    assert y[0].isnan().all()
    assert y[1].tolist() == [2.0**2] * 2
