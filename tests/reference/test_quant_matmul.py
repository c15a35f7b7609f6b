"""npu_quant_matmul compared with NumPy's int64 product, one test for each row of the table of outputs."""

import itertools
from collections.abc import Iterator

import numpy as np
import pytest
import torch
import torch_npu
from graph_quant.reference.matmul import int8_matmul as matmul
from torch._dynamo.source import ConstantSource
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext

from support import numpy_rules

GENERATOR = torch.Generator().manual_seed(4)
DYNAMIC = StatelessSymbolicContext(dynamic_sizes=[DimDynamic.DYNAMIC, DimDynamic.DYNAMIC])


def int8(*shape: int) -> torch.Tensor:
    return torch.randint(-128, 128, shape, generator=GENERATOR, dtype=torch.int8)


def product(x1: torch.Tensor, x2: torch.Tensor) -> np.ndarray:  # type: ignore[type-arg]
    exact = x1.numpy().astype(np.int64) @ x2.numpy().astype(np.int64)
    assert np.abs(exact).max(initial=0) < 2**31
    return exact.astype(np.int32)


def decoded(scale: torch.Tensor, offset: torch.Tensor | None) -> tuple[np.ndarray, np.ndarray]:  # type: ignore[type-arg]
    """Scale with 13 mantissa bits cut off, and offset as a 9-bit integer."""
    bits = scale.numpy().view(np.uint32) & np.uint32(0xFFFFE000)
    whole = np.zeros(1) if offset is None else np.clip(np.rint(offset.numpy().astype(np.float64)), -256, 255)
    return bits.view(np.float32), whole.astype(np.int64)


@pytest.mark.parametrize("shape", [(4, 32, 16), (1, 1, 1), (3, 2049, 5)])
def test_int32_is_the_exact_product(shape: tuple[int, int, int]) -> None:
    m, k, n = shape
    x1, x2 = int8(m, k), int8(k, n)
    bias = torch.randint(-(2**20), 2**20, (n,), generator=GENERATOR, dtype=torch.int32)
    y = torch_npu.npu_quant_matmul(x1, x2, torch.ones(1), bias=bias, output_dtype=torch.int32)
    assert np.array_equal(y.numpy(), product(x1, x2) + bias.numpy())


@pytest.mark.parametrize("with_dot_product", [True, False])
def test_every_implementation_is_exact_at_the_extremes(with_dot_product: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matmul, "_HAS_INT8_DOT_PRODUCT", with_dot_product)
    x1, x2 = torch.full((2, 5000), -128, dtype=torch.int8), torch.full((5000, 3), -128, dtype=torch.int8)
    assert torch.equal(matmul.int8_matmul(x1, x2), torch.full((2, 3), 5000 * 128 * 128, dtype=torch.int32))


def _laid_out(matrix: torch.Tensor) -> Iterator[torch.Tensor]:
    """The same matrix, and others of its shape, with every kind of strides that views and compilers make."""
    rows, columns = matrix.shape
    yield matrix
    yield matrix.t().contiguous().t()
    yield torch.cat([matrix, matrix], 1)[:, :columns]
    yield torch.stack([matrix, matrix], -1).flatten(1)[:, ::2]
    yield matrix[:1].expand(rows, columns)
    yield matrix[:, :1].expand(rows, columns)
    if rows == 1:
        yield from (matrix.as_strided((1, columns), (stride, 1)) for stride in (0, 1, 7))
    if columns == 1:
        yield from (matrix.as_strided((rows, 1), (1, stride)) for stride in (0, 1, 7))


@pytest.mark.parametrize("with_dot_product", [True, False])
@pytest.mark.parametrize("shape", [(1, 64, 16), (1, 1, 1), (3, 1, 5), (5, 64, 1), (1, 64, 1), (17, 33, 65), (1, 1, 16)])
def test_strides_do_not_matter(
    with_dot_product: bool, shape: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(matmul, "_HAS_INT8_DOT_PRODUCT", with_dot_product)
    m, k, n = shape
    for x1, x2 in itertools.product(_laid_out(int8(m, k)), _laid_out(int8(k, n))):
        assert np.array_equal(matmul.int8_matmul(x1, x2).numpy(), product(x1, x2)), (x1.stride(), x2.stride())


def test_the_product_is_one_operator_to_a_tracer() -> None:
    operator = torch.ops.graph_quant.int8_matmul.default
    for x1, x2 in ((int8(1, 1, 64), int8(64, 16)), (int8(2, 1, 3, 8), int8(5, 8, 1))):
        torch.library.opcheck(operator, (x1, x2))


@pytest.mark.parametrize("batches", [((), (3,)), ((2, 1), (3,)), ((5,), ()), ((2, 3), (2, 3))])
def test_leading_dimensions_broadcast(batches: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    x1, x2 = int8(*batches[0], 4, 24), int8(*batches[1], 24, 5)
    y = torch_npu.npu_quant_matmul(x1, x2, torch.ones(1), output_dtype=torch.int32)
    assert np.array_equal(y.numpy(), product(x1, x2))


@pytest.mark.parametrize("columns", [1, 16])
def test_float16_uses_the_truncated_scale(columns: int) -> None:
    x1, x2, scale = int8(4, 32), int8(32, 16), torch.randn(columns, generator=GENERATOR) / 100
    cut, _ = decoded(scale, None)
    expected = (product(x1, x2).astype(np.float32) * cut).astype(np.float16)
    params = torch_npu.npu_trans_quant_param(scale)
    for scale_or_params in (scale, params):
        y = torch_npu.npu_quant_matmul(x1, x2, scale_or_params, output_dtype=torch.float16)
        assert np.array_equal(y.numpy(), expected)


def test_int8_saturates_to_nine_bits_then_to_eight() -> None:
    x1, x2 = int8(64, 32), int8(32, 16)
    scale = torch.randn(16, generator=GENERATOR) / 64
    offset = torch.tensor([0.5, 1.5, -300.0, 300.0, 255.4, -256.5, 7.0, 0.0]).repeat(2)
    cut, whole = decoded(scale, offset)
    nine = np.clip(np.rint((product(x1, x2).astype(np.float32) * cut).astype(np.float64)), -256, 255)
    expected = np.clip(nine + whole, -128, 127).astype(np.int8)
    assert np.array_equal(torch_npu.npu_quant_matmul(x1, x2, scale, offset=offset).numpy(), expected)
    params = torch_npu.npu_trans_quant_param(scale, offset)
    assert np.array_equal(torch_npu.npu_quant_matmul(x1, x2, params).numpy(), expected)
    # Beside a packed scale, whose bits hold an offset, the argument changes nothing.
    assert np.array_equal(torch_npu.npu_quant_matmul(x1, x2, params, offset=offset + 9).numpy(), expected)


@pytest.mark.parametrize("output", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("bias_dtype", [None, torch.int32, torch.float32, "output"])
def test_float_scales_round_once(output: torch.dtype, bias_dtype: object) -> None:
    x1, x2 = int8(2, 4, 32), int8(16, 32).t()
    scale, tokens = torch.randn(16, generator=GENERATOR) / 99, torch.randn(4, generator=GENERATOR)
    bias = None
    if bias_dtype is not None:
        bias = (torch.randn(16, generator=GENERATOR) * 50).to(output if bias_dtype == "output" else bias_dtype)  # type: ignore[call-overload]
    y = torch_npu.npu_quant_matmul(x1, x2, scale, pertoken_scale=tokens, bias=bias, output_dtype=output)
    accumulator = product(x1, x2)
    if bias is not None and bias.dtype == torch.int32:
        accumulator = accumulator + bias.numpy()
    values = accumulator.astype(np.float32) * scale.numpy() * tokens.numpy()[:, None]
    if bias is not None and bias.dtype != torch.int32:
        values = values + numpy_rules.floats(bias)
    assert torch.equal(y, torch.from_numpy(values).to(output))


@pytest.mark.parametrize("along_k", [False, True])
def test_int4_operands(along_k: bool) -> None:
    left = torch.randint(-8, 8, (4, 32), generator=GENERATOR)
    right = torch.randint(-8, 8, (32, 24), generator=GENERATOR)
    x1 = torch.from_numpy(numpy_rules.pack(left.numpy()))
    x2 = torch.from_numpy(numpy_rules.pack((right.t() if along_k else right).numpy())).contiguous()
    x2 = x2.t() if along_k else x2
    tokens = torch.ones(4)
    y = torch_npu.npu_quant_matmul(x1, x2, torch.ones(1), pertoken_scale=tokens, output_dtype=torch.float16)
    assert np.array_equal(y.numpy(), (left.numpy() @ right.numpy()).astype(np.float16))


def test_shapes_are_inferred_for_any_depth() -> None:
    mode = FakeTensorMode(shape_env=ShapeEnv())
    square = mode.from_tensor(int8(32, 32), source=ConstantSource("x1"), symbolic_context=DYNAMIC)
    with mode:
        rows, columns = matmul.int8_matmul(square, square).shape
    assert isinstance(rows, torch.SymInt)
    assert isinstance(columns, torch.SymInt)


@pytest.mark.skipif(not torch.cpu._is_vnni_supported(), reason="torch._int_mm is slow here, and not used")
def test_compiled_code_calls_atens_product_where_strides_are_plain() -> None:
    x1, x2 = int8(3, 8), int8(8, 5)
    assert np.array_equal(matmul.as_int_mm(x1, x2).numpy(), product(x1, x2))
    # With such strides ATen's product is left unwritten.
    for left, right in ((x1[:1].expand(3, 8), x2), (x1, x2[:, :1].expand(8, 5)), (x1[:0], x2), (x1[None], x2)):
        assert matmul.as_int_mm(left, right) is NotImplemented
    with FakeTensorMode(shape_env=ShapeEnv()) as mode:
        of_any_size = mode.from_tensor(x1, symbolic_context=DYNAMIC, source=ConstantSource("x1"))
        assert matmul.as_int_mm(of_any_size, mode.from_tensor(x2)) is NotImplemented
