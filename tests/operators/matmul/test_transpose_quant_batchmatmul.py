"""npu_transpose_quant_batchmatmul on Ascend 950: calls, refusals, and its forms once more in NumPy."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
import torch_npu
from graph_quant import chip
from graph_quant.chip import A2, ASCEND_950
from graph_quant.destination import Refusal
from graph_quant.narrow_floats import decode_hif8
from graph_quant.refusals import UndescribedError

from operators.matmul.grouped_statement import nineteen_bits
from operators.matmul.test_grouped_matmul_950 import HIF8, codes, e4, e5, hif8
from support.ascend950 import assert_refused, on_device, run_in_every_mode
from support.call_table import packed
from support.tensors import f16, f32, i8

multiply = torch_npu.npu_transpose_quant_batchmatmul
torch.manual_seed(3)
BACK = {"perm_x2": [0, 2, 1]}
PERMS = {"perm_x1": [1, 0, 2], "perm_x2": [0, 1, 2], "perm_y": [1, 0, 2]}


@pytest.fixture(autouse=True)
def on_950() -> Iterator[None]:
    with chip.use(ASCEND_950):
        yield


def e8(*shape: int) -> torch.Tensor:
    return codes(*shape).view(torch.float8_e8m0fnu)


MX = {"group_sizes": [0, 0, 32], "x1_scale": e8(3, 2, 1, 2)}
HIFLOAT = {"x1_dtype": HIF8, "x2_dtype": HIF8}
CALLS: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    "float8": ((e4(3, 2, 512), e5(2, 512, 128), torch.float16), {"x1_scale": f32(3), "x2_scale": f32(128), **PERMS}),
    "mx": ((e4(3, 2, 64), e4(2, 64, 5), torch.bfloat16), {"x2_scale": e8(2, 1, 5, 2), **MX}),
    "mx, x2 transposed": (
        (e4(3, 2, 128), e4(2, 5, 128), torch.bfloat16),
        {"x2_scale": e8(2, 5, 2, 2), **BACK, "group_sizes": [1, 1, 32], "x1_scale": e8(3, 2, 2, 2)},
    ),
    "HiFloat8": ((hif8(3, 2, 20), hif8(2, 20, 5), torch.bfloat16), {"x2_scale": packed(5), **HIFLOAT}),
    "HiFloat8, x2 transposed": (
        (hif8(3, 2, 20), hif8(2, 5, 20), torch.float16),
        {"x2_scale": packed(5), **HIFLOAT, **BACK},
    ),
}


def test_graphs_and_meta_tensors_agree_with_eager_execution() -> None:
    run_in_every_mode(multiply, list(CALLS.values()))


def test_inductor_agrees_with_eager_execution() -> None:
    run_in_every_mode(multiply, [CALLS["mx, x2 transposed"]], engine="inductor")


def scales(bits: torch.Tensor) -> Any:
    """Codes of scales, pairs last, as factors of single elements of k: the dimension before the pairs."""
    factors = np.exp2(bits.view(torch.uint8).numpy().astype(np.float64) - 127)
    return np.repeat(factors.reshape(*factors.shape[:-2], -1), 32, -1)


@pytest.mark.parametrize("name", CALLS)
def test_statement(name: str) -> None:
    (x1, x2, dtype), options = CALLS[name]
    one, other = ((decode_hif8(x) if x.dtype == torch.uint8 else x.float()).numpy() for x in (x1, x2))
    one, other = one.astype(np.float64), other.astype(np.float64)
    if "perm_x2" in options and options["perm_x2"] == [0, 2, 1]:
        other = other.swapaxes(1, 2)
    if name.startswith("mx"):
        one = one * scales(options["x1_scale"])
        right = options["x2_scale"].view(torch.uint8)
        right = right if "transposed" in name else right.transpose(1, 2)
        other = other * scales(right).swapaxes(1, 2)
    values = np.einsum("mbk,bkn->mbn", one, other).astype(np.float32)
    if name.startswith("HiFloat8"):
        values = values * nineteen_bits(options["x2_scale"].numpy())
    elif name == "float8":
        values = values * options["x2_scale"].numpy() * options["x1_scale"].numpy()[:, None, None]
    result = multiply(*on_device((x1, x2, dtype), "npu"), **on_device(options, "npu")).cpu()
    assert torch.equal(result, torch.from_numpy(values).to(dtype))


X, W = e4(3, 2, 512), e4(2, 512, 128)
ROWS = {"x1_scale": f32(3), "x2_scale": f32(128)}
H, V, P = hif8(3, 2, 20), hif8(2, 20, 5), packed(5)
A, B, C = e4(3, 2, 64), e4(2, 64, 5), e8(2, 1, 5, 2)
HALF = torch.float16
WRONG: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("x1 must be", (f16(3, 2, 512), W, HALF), ROWS),
    ("x1 must be float8 or HiFloat8", (i8(3, 2, 512), i8(2, 512, 128), HALF), ROWS),
    ("x2 must be float8", (X, i8(2, 512, 128), HALF), ROWS),
    ("x1 must have 3", (e4(3, 512), W, HALF), ROWS),
    ("the batches of x2", (X, e4(3, 512, 128), HALF), ROWS),
    ("k of x2", (X, e4(2, 256, 128), HALF), ROWS),
    ("k must equal 512", (e4(3, 2, 256), e4(2, 256, 128), HALF), ROWS),
    ("n must equal 128", (X, e4(2, 512, 64), HALF), {"x1_scale": f32(3), "x2_scale": f32(64)}),
    ("dtype must be", (X, W, torch.float32), ROWS),
    ("bias must be None", (X, W, HALF), {**ROWS, "bias": f32(128)}),
    ("batch_split_factor", (X, W, HALF), {**ROWS, "batch_split_factor": 2}),
    ("perm_x1 should be [1, 0, 2]", (X, W, HALF), {**ROWS, "perm_x1": [0, 1, 2]}),
    ("perm_x2 should be [0, 1, 2]", (X, W, HALF), {**ROWS, "perm_x2": [0, 2, 1]}),
    ("perm_y should be [1, 0, 2]", (X, W, HALF), {**ROWS, "perm_y": [0, 1, 2]}),
    ("x2_scale must be given", (X, W, HALF), {"x1_scale": f32(3)}),
    ("x1_scale must be given", (X, W, HALF), {"x2_scale": f32(128)}),
    ("x1_scale must be torch.float32", (X, W, HALF), {**ROWS, "x1_scale": f16(3)}),
    ("x2_scale.size(0)", (X, W, HALF), {**ROWS, "x2_scale": f32(1)}),
    ("group_sizes must be None", (X, W, HALF), {**ROWS, "group_sizes": [0, 0, 32]}),
    ("group_sizes must be [0 or 1", (A, B, HALF), {**MX, "x2_scale": C, "group_sizes": None}),
    ("x1_scale must be given", (A, B, HALF), {**MX, "x2_scale": C, "x1_scale": None}),
    ("x1_scale must be torch.float8_e8m0fnu", (A, B, HALF), {**MX, "x2_scale": C, "x1_scale": codes(3, 2, 1, 2)}),
    ("x1_scale.size(3)", (A, B, HALF), {**MX, "x2_scale": C, "x1_scale": e8(3, 2, 1, 1)}),
    ("x2_scale.size(1)", (A, B, HALF), {**MX, "x2_scale": e8(2, 5, 1, 2)}),
    ("x1 and x2 must be float8_e4m3fn", (A, e5(2, 64, 5), HALF), {**MX, "x2_scale": C}),
    ("k must be a multiple of 64", (e4(3, 2, 32), e4(2, 32, 5), HALF), {**MX, "x2_scale": C}),
    ("x2_scale must be torch.int64", (H, V, HALF), {**HIFLOAT, "x2_scale": f32(5)}),
    ("x2_scale.size(0)", (H, V, HALF), {**HIFLOAT, "x2_scale": packed(1)}),
]


@pytest.mark.parametrize(("message", "args", "options"), WRONG)
def test_wrong_calls_are_refused(message: str, args: tuple[Any, ...], options: dict[str, Any]) -> None:
    assert_refused(multiply, message, args, options)


def test_what_the_kernel_of_hifloat8_reads_otherwise_is_not_described() -> None:
    with pytest.raises(UndescribedError, match="x1_scale beside HiFloat8"):
        multiply(H.npu(), V.npu(), HALF, x1_scale=packed(1).npu(), x2_scale=P.npu(), **HIFLOAT)
    with pytest.raises(UndescribedError, match="results of HiFloat8"):
        multiply(H.npu(), V.npu(), HIF8, x2_scale=P.npu(), **HIFLOAT)


def test_other_chips_have_no_kernel() -> None:
    with chip.use(A2), pytest.raises(Refusal, match="Ascend 950"):
        multiply(X.npu(), W.npu(), HALF, **on_device(ROWS, "npu"))


def test_x2_in_fractal_nz_is_for_mx() -> None:
    x2 = e4(2, 64, 32)
    options = on_device({**MX, "x2_scale": e8(2, 1, 32, 2)}, "npu")
    plain = multiply(A.npu(), x2.npu(), HALF, **options)
    blocks = torch_npu.npu_format_cast(x2.npu(), 29)
    assert torch.equal(multiply(A.npu(), blocks, HALF, **options), plain)
    with pytest.raises(Refusal, match="x2 must be in"):
        multiply(X.npu(), torch_npu.npu_format_cast(W.npu(), 29), HALF, **on_device(ROWS, "npu"))
