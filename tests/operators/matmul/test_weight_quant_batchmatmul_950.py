"""npu_weight_quant_batchmatmul on Ascend 950: calls, refusals, and its forms once more in NumPy."""

from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch
import torch_npu
from graph_quant import chip
from graph_quant.chip import ASCEND_950
from graph_quant.destination import Refusal
from graph_quant.narrow_floats import decode_hif8, encode_hif8
from graph_quant.refusals import UndescribedError

from operators.matmul.test_grouped_matmul_950 import HIF8, codes, e4, e5, hif8
from support.arrays import int4_elements
from support.ascend950 import on_device, run_in_every_mode
from support.call_table import packed
from support.lowering import lower, node, types
from support.tensors import bf16, f16, f32, i8, i32

torch.manual_seed(2)


@pytest.fixture(autouse=True)
def on_950() -> Iterator[None]:
    with chip.use(ASCEND_950):
        yield


def fours(*shape: int) -> torch.Tensor:
    """Eight float4 in each float32."""
    return torch.randint(-(2**31), 2**31, shape).to(torch.int32).view(torch.float32)


# x, weight, antiquant_scale and options.
Call = tuple[torch.Tensor, torch.Tensor, torch.Tensor, dict[str, Any]]
CALLS: dict[str, Call] = {
    "int8, one scale": (bf16(4, 40), i8(40, 16), bf16(1), {"antiquant_offset": bf16(1), "bias": f32(16)}),
    "int8 of columns": (bf16(4, 40), i8(40, 16), bf16(1, 16), {"antiquant_offset": bf16(1, 16), "bias": bf16(1, 16)}),
    "int8 of groups, transposed": (
        f16(4, 72),
        i8(16, 72).t(),
        f16(16, 3).t(),
        {"antiquant_offset": f16(16, 3).t(), "antiquant_group_size": 32},
    ),
    "int4 of columns, transposed": (
        bf16(4, 64),
        i32(16, 8).t(),
        bf16(16, 1).t(),
        {"antiquant_offset": bf16(16, 1).t()},
    ),
    "int4 of groups": (f16(4, 96), i32(96, 2), f16(2, 16), {"bias": f16(16), "antiquant_group_size": 64}),
    "float8": (f16(4, 40), e4(40, 16), f16(16), {"bias": f16(16)}),
    "float8, transposed": (bf16(4, 40), e4(16, 40).t(), bf16(16, 1).t(), {"bias": bf16(1, 16), "inner_precise": 1}),
    "HiFloat8": (f16(4, 40), hif8(40, 16), f16(1, 16), {"weight_dtype": HIF8}),
    "HiFloat8, transposed": (bf16(4, 40), hif8(16, 40).t(), bf16(16), {"weight_dtype": HIF8, "bias": bf16(16)}),
    "float4": (bf16(4, 72), fours(72, 2), codes(3, 16), {"antiquant_group_size": 32, "bias": bf16(16)}),
    "float4, transposed": (f16(4, 72), fours(16, 9).t(), codes(16, 3).t(), {"antiquant_group_size": 32}),
}


call = torch_npu.npu_weight_quant_batchmatmul


def test_graphs_and_meta_tensors_agree_with_eager_execution() -> None:
    run_in_every_mode(call, [(tensors, options) for *tensors, options in CALLS.values()])


def test_inductor_agrees_with_eager_execution() -> None:
    *tensors, options = CALLS["float4, transposed"]
    run_in_every_mode(call, [(tensors, options)], engine="inductor")


FLOAT4 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], np.float32)


def elements(x: torch.Tensor, weight: torch.Tensor, options: dict[str, Any]) -> Any:
    """The values of a weight, one by one."""
    if "weight_dtype" in options:
        return decode_hif8(weight).numpy()
    if weight.dtype == torch.float8_e4m3fn:
        return weight.float().numpy()
    if weight.dtype == torch.int8:
        return weight.numpy().astype(np.float32)
    along_k = weight.size(0) != x.size(1)
    rows = (weight.t() if along_k else weight).contiguous().view(torch.int32)
    values = int4_elements(rows)
    values = FLOAT4[values & 15] if weight.dtype == torch.float32 else values.astype(np.float32)
    return values.T if along_k else values


@pytest.mark.parametrize("name", CALLS)
def test_statement(name: str) -> None:
    x, weight, scale, options = CALLS[name]
    half = np.float16 if x.dtype == torch.float16 else ml_dtypes.bfloat16
    values = elements(x, weight, options).astype(half)
    group = options.get("antiquant_group_size", 0)

    def of_rows(parameters: torch.Tensor) -> Any:
        array = parameters.float().numpy() if parameters.dtype != torch.uint8 else np.exp2(parameters.numpy() - 127.0)
        return (np.repeat(array, group, 0)[: x.size(1)] if group else array).astype(half)

    if "antiquant_offset" in options:
        values = values + of_rows(options["antiquant_offset"])
    values = values * of_rows(scale)
    assert values.dtype == half
    y = x.double().numpy() @ values.astype(np.float64)
    if "bias" in options:
        y = y + options["bias"].double().numpy()
    result = call(*on_device([x, weight, scale], "npu"), **on_device(options, "npu")).cpu().double().numpy()
    # Sums in float32 differ by their order; one step of the result's dtype at most.
    step = 2.0**-10 if half is np.float16 else 2.0**-7
    assert np.allclose(result, y, rtol=step, atol=np.abs(y).max() * step)


def test_a_code_of_zero_is_zero_and_large_codes_overflow() -> None:
    x, weight = bf16(2, 64), torch.full((64, 1), 0x22222222).to(torch.int32).view(torch.float32)
    x[:] = 1
    zero = call(x.npu(), weight.npu(), torch.zeros(2, 8, dtype=torch.uint8).npu(), **MX)
    assert not zero.any()
    half = torch.full((2, 8), 127 + 17, dtype=torch.uint8).npu()
    assert call(x.half().npu(), weight.npu(), half, **MX).isinf().all()
    assert (call(x.npu(), weight.npu(), half, **MX) == 2.0**23).all()


def test_scales_are_rounded_to_the_dtype_of_x() -> None:
    """Each operation rounds to bfloat16: 127 + 1.5 is 128, which other chips keep as 128.5."""
    x, weight = torch.ones(1, 1).bfloat16(), torch.full((1, 1), 127, dtype=torch.int8)
    scale, offset = torch.ones(1).bfloat16(), torch.full((1,), 1.5).bfloat16()
    result = torch_npu.npu_weight_quant_batchmatmul(x.npu(), weight.npu(), scale.npu(), offset.npu())
    assert result.item() == 128


def test_graphs_merge_transposes_and_bitcasts() -> None:
    graph = lower(
        lambda x, weight, scale: torch_npu.npu_weight_quant_batchmatmul(
            x, weight.t(), scale.t(), antiquant_group_size=32
        ),
        f16(4, 72),
        fours(16, 9),
        codes(16, 3),
    )
    assert types(graph).count("Bitcast") == 1
    assert node(graph, "WeightQuantBatchMatmulV2")


X, W, S = f16(4, 64), i8(64, 16), f16(16)
E, H, F, C = e4(64, 16), hif8(64, 16), fours(64, 2), codes(2, 16)
MX = {"antiquant_group_size": 32}
WRONG: list[tuple[str, torch.Tensor, torch.Tensor, torch.Tensor, dict[str, Any]]] = [
    ("x must be", f32(4, 64), W, S, {}),
    ("x must have 2", f16(1, 4, 64), W, S, {}),
    ("x.size(0)", f16(0, 64), W, S, {}),
    ("x must be contiguous", f16(64, 4).t(), W, S, {}),
    ("weight must be", X, e5(64, 16), S, {}),
    ("weight must be", X, E, S, {"weight_dtype": HIF8}),
    ("weight_dtype", X, H, S, {"weight_dtype": 296}),
    ("weight must be torch.float8_e4m3fn", X, H, S, {"weight_dtype": 292}),
    ("weight.size(0)", X, e4(32, 16), S, {}),
    ("float4 along k", X, fours(8, 16), C, MX),
    ("quant_scale", X, W, S, {"quant_scale": f32(16)}),
    ("quant_offset", X, W, S, {"quant_offset": f32(16)}),
    ("antiquant_scale must be", X, W, packed(16), {}),
    ("antiquant_scale must have", X, W, f16(1, 1, 16), {}),
    ("antiquant_scale", X, W, bf16(16), {}),
    ("antiquant_scale must be", X, F, f32(2, 16), MX),
    ("antiquant_scale.size(0)", X, F, codes(3, 16), MX),
    ("antiquant_scale.size(1)", X, F, codes(2, 8), MX),
    ("antiquant_scale.size(-1)", X, E, f16(1), {}),
    ("antiquant_scale must be a transposed view", X, i8(16, 64).t(), f16(2, 16), MX),
    ("antiquant_scale must be a transposed view", X, W, f16(16, 2).t(), MX),
    ("antiquant_offset must be None", X, E, S, {"antiquant_offset": S}),
    ("antiquant_offset must be", X, W, S, {"antiquant_offset": i32(16)}),
    ("antiquant_offset", X, W, S, {"antiquant_offset": f16(1)}),
    ("antiquant_group_size", X, F, C, {"antiquant_group_size": 64}),
    ("antiquant_group_size", X, E, f16(2, 16), MX),
    ("antiquant_group_size", X, W, f16(4, 16), {"antiquant_group_size": 16}),
    ("bias must be torch.float16", X, W, S, {"bias": f32(16)}),
    ("bias must be torch.bfloat16", bf16(4, 64), E, bf16(16), {"bias": f32(16)}),
    ("bias.size(0)", X, W, S, {"bias": f16(8)}),
    ("inner_precise", X, W, S, {"inner_precise": 2}),
]


@pytest.mark.parametrize(("message", "x", "weight", "scale", "options"), WRONG)
def test_wrong_calls_are_refused(
    message: str, x: torch.Tensor, weight: torch.Tensor, scale: torch.Tensor, options: dict[str, Any]
) -> None:
    with pytest.raises(Refusal, match="npu_weight_quant_batchmatmul: ") as refused:
        call(*on_device([x, weight, scale], "npu"), **on_device(options, "npu"))
    assert message in str(refused.value)


def test_wrong_calls_are_refused_while_tracing() -> None:
    torch._dynamo.reset()
    with pytest.raises(RuntimeError, match="npu_weight_quant_batchmatmul: antiquant_offset must be None"):
        torch.compile(call, backend="npu", fullgraph=True)(X.npu(), E.npu(), S.npu(), S.npu())


def test_float4_in_groups_of_half_precision_scales_are_not_described() -> None:
    with pytest.raises(UndescribedError, match="not described"):
        call(X.npu(), F.npu(), f16(2, 16).npu(), **MX)


def test_weights_in_fractal_nz_are_integers() -> None:
    blocks = torch_npu.npu_format_cast(W.npu(), 29)
    assert torch.equal(call(X.npu(), blocks, S.npu()), call(X.npu(), W.npu(), S.npu()))
    four = torch_npu.npu_format_cast(i32(64, 2).npu(), 29)
    call(X.npu(), four, S.npu())
    with pytest.raises(Refusal, match="antiquant_scale must have an element"):
        call(X.npu(), blocks, f16(1).npu())
    with pytest.raises(Refusal, match="antiquant_group_size must be 0"):
        call(X.npu(), blocks, f16(2, 16).npu(), **MX)
    with pytest.raises(Refusal, match=r"bias must be torch\.float32"):
        call(X.bfloat16().npu(), blocks, S.bfloat16().npu(), bias=bf16(16).npu())
    with pytest.raises(Refusal, match="weight must not be a transposed view"):
        call(X.npu(), torch_npu.npu_format_cast(i32(16, 8).npu(), 29).t(), f16(16, 1).npu().t())
    with pytest.raises(Refusal, match="weight must be int8 or int4"):
        call(X.npu(), torch_npu.npu_format_cast(E.npu(), 29), S.npu())


def test_hifloat8_saturates_nothing() -> None:
    weight = encode_hif8(torch.tensor([[32768.0], [2.0**-22]]))
    result = call(f16(1, 2).fill_(1).npu(), weight.npu(), f16(1).fill_(1).npu(), weight_dtype=HIF8)
    assert result.item() == 32768
