"""The native product of int8 matrices against NumPy: sizes around its tiles and blocks, strides, extremes."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import torch
from graph_quant import native
from graph_quant.destination import BFLOAT16, FLOAT16
from graph_quant.reference.matmul import int8_matmul_dequant
from graph_quant.reference.matmul.quant_matmul import quant_matmul
from torch.fx.experimental.proxy_tensor import make_fx

from support import numpy_rules

pytestmark = pytest.mark.skipif(
    not native.IS_SUPPORTED, reason="the processor has no AVX-512 VNNI, or nothing is built"
)
GENERATOR = torch.Generator().manual_seed(0)
# Rows, columns, depth: none, one, and around the 6 rows and 4 columns of a tile, the 64 columns of a block, the 64
# bytes of a register, the 256 of a single row's step and the rows of which 384 KiB hold all. Many rows: around their
# panels of 16, of which a tile has 3, its 8 columns, the 32 of a block, the 4 bytes of a lane, and 768 KiB.
SIZES = [
    (1, 1, 1), (1, 4, 64), (1, 7, 63), (1, 130, 1000), (2, 5, 65), (5, 3, 128), (6, 4, 64), (7, 64, 255), (13, 65, 257),
    (12, 131, 2049), (130, 9, 4000), (97, 5, 4096), (0, 4, 8), (3, 0, 8), (3, 4, 0),
    (12, 1, 1), (16, 8, 4), (16, 9, 64), (31, 33, 7), (33, 32, 66), (48, 40, 63), (49, 31, 130), (63, 65, 5),
    (128, 7, 129), (200, 35, 6003), (16, 4, 0),
]  # fmt: skip


def int8(*shape: int) -> torch.Tensor:
    return torch.randint(-128, 128, shape, dtype=torch.int8, generator=GENERATOR)


def product(x1: torch.Tensor, x2: torch.Tensor) -> np.ndarray:
    return x1.numpy().astype(np.int64) @ x2.numpy().astype(np.int64)


@pytest.mark.parametrize("size", SIZES)
def test_every_size(size: tuple[int, int, int]) -> None:
    rows, columns, depth = size
    x1, x2 = int8(rows, depth), int8(columns, depth).t()
    assert np.array_equal(native.int8_product(x1, x2).numpy(), product(x1, x2))


@pytest.mark.parametrize("left", [-128, 127])
@pytest.mark.parametrize("right", [-128, 127])
@pytest.mark.parametrize("rows", [1, 8, 16])
def test_extremes_beyond_what_float32_holds(left: int, right: int, rows: int) -> None:
    x1, x2 = torch.full((rows, 5633), left, dtype=torch.int8), torch.full((6, 5633), right, dtype=torch.int8).t()
    x1[:, 7] += 1 if left < 0 else -1
    assert np.array_equal(native.int8_product(x1, x2).numpy(), product(x1, x2))


@pytest.mark.parametrize("rows", [2, 16])
def test_sums_wrap_as_int32_does(rows: int) -> None:
    x1, x2 = torch.full((rows, 140_000), -128, dtype=torch.int8), torch.full((4, 140_000), -128, dtype=torch.int8).t()
    assert np.array_equal(native.int8_product(x1, x2).numpy(), product(x1, x2).astype(np.int32))


@pytest.mark.parametrize("rows", [5, 15])
def test_strides(rows: int) -> None:
    """Rows and columns may lie anywhere; what lies between them is not read as theirs."""
    x1, x2 = int8(2 * rows, 300)[::2, 17:217], int8(40, 260)[3::3, 11:211].t()
    for left, right in ((x1, x2), (x1[:1].expand(rows, 200), x2), (x1, x2[:, :1].expand(200, 6))):
        assert native.can_multiply_int8(left, right)
        assert np.array_equal(native.int8_product(left, right).numpy(), product(left, right))
    assert not native.can_multiply_int8(x1.t(), x2.t())
    assert not native.can_multiply_int8(x1[None], x2)
    assert not native.can_multiply_int8(x1, x2.contiguous())


def test_weight_is_not_cached() -> None:
    """Nothing of it is kept between calls."""
    x1, weight = int8(8, 128), int8(16, 128)
    native.int8_product(x1, weight.t())
    weight.zero_()
    assert native.int8_product(x1, weight.t()).count_nonzero() == 0


@pytest.mark.parametrize("output", [BFLOAT16, FLOAT16])
@pytest.mark.parametrize("scales", [1, 70])
@pytest.mark.parametrize("bias", [None, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("has_tokens", [True, False])
@pytest.mark.parametrize("rows", [5, 29])
def test_results_are_rescaled_step_by_step(
    output, scales: int, bias: torch.dtype | None, has_tokens: bool, rows: int
) -> None:
    x1, x2 = int8(rows, 512), int8(70, 512).t()
    # So wide that halves overflow, and come near nothing.
    scale = torch.randn(scales, generator=GENERATOR) * 10.0 ** torch.randint(-9, 1, (scales,), generator=GENERATOR)
    tokens = torch.randn(rows, generator=GENERATOR) if has_tokens else None
    added = None if bias is None else (torch.randn(70, generator=GENERATOR) * 50).to(bias)
    y = int8_matmul_dequant.int8_matmul_dequant(x1, x2, scale, tokens, added, output.storage)
    values = product(x1, x2).astype(np.int32).astype(np.float32) * scale.numpy()
    if tokens is not None:
        values = values * tokens.numpy()[:, None]
    if added is not None:
        values = values + numpy_rules.floats(added)
    assert torch.equal(y.view(torch.int16), torch.from_numpy(values).to(output.storage).view(torch.int16))


@pytest.mark.parametrize("output", [BFLOAT16, FLOAT16])
@pytest.mark.parametrize("rows", [3, 16])
def test_nan_and_infinite_scales(output, rows: int) -> None:
    x1, x2 = int8(rows, 64), int8(40, 64).t()
    x1[1] = 0
    scale = torch.tensor([torch.inf, -torch.inf, torch.nan, 1e-44, 3e38]).repeat(8)
    y = int8_matmul_dequant.int8_matmul_dequant(x1, x2, scale, None, None, output.storage)
    wanted = (torch.from_numpy(product(x1, x2)).float() * scale).to(output.storage)
    assert y.isnan().any()
    assert torch.equal(y.isnan(), wanted.isnan())
    assert torch.equal(y.nan_to_num(), wanted.nan_to_num())


def test_product_is_one_traced_operator() -> None:
    def multiply(x1: torch.Tensor, x2: torch.Tensor, scale: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
        return quant_matmul(x1, x2.t(), scale, pertoken_scale=tokens, output=BFLOAT16)

    arguments = int8(4, 64), int8(8, 64), torch.rand(8), torch.rand(4)
    graph = make_fx(multiply, tracing_mode="symbolic")(*arguments)
    assert int8_matmul_dequant.STEP in [node.target for node in graph.graph.nodes]
    assert torch.equal(graph(*arguments), multiply(*arguments))
    # Compiled code is free to lay a weight out otherwise.
    x1, x2, scale, tokens = arguments
    laid_out = int8_matmul_dequant.STEP(x1, x2.t().contiguous(), scale, tokens, None, torch.bfloat16)
    assert torch.equal(laid_out, multiply(*arguments))


def test_threads_share_the_work() -> None:
    code = (
        "import graph_quant, torch\n"
        "from graph_quant import native\n"
        "torch.set_num_threads(3)\n"
        "x1 = torch.randint(-128, 128, (37, 700), dtype=torch.int8)\n"
        "x2 = torch.randint(-128, 128, (901, 700), dtype=torch.int8)\n"
        "assert native.library.IN_THREADS is not None\n"
        "wanted = x1.double() @ x2.double().t()\n"
        "assert all(torch.equal(native.int8_product(x1, x2.t()).double(), wanted) for _ in range(20))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
