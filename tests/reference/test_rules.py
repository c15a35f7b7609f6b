"""Every operator against its rule stated in NumPy, bit for bit, with extreme values."""

import itertools

import numpy as np
import pytest
import torch
import torch_npu

from support import numpy_rules

SPECIAL = [float("nan"), float("inf"), float("-inf"), 0.0, -0.0, 0.5, 1.5, -0.5, -2.5, 127.5, 128.5, -128.5, -129.0]
SPECIAL += [7.5, 8.0, -8.5, 255.5, 256.0, 65504.0, -65504.0, 6e-8]
FLOATS = (torch.float32, torch.float16, torch.bfloat16)
KINDS = {"int8": torch.qint8, "int4": torch.quint4x2, "uint8": torch.quint8, "int32": torch.qint32}
PAIRS = list(itertools.product(FLOATS, FLOATS))
GENERATOR = torch.Generator().manual_seed(3)


def hostile(*shape: int, dtype: torch.dtype, scale: float = 40.0) -> torch.Tensor:
    """Random values with every special one among them."""
    values = torch.randn(shape, generator=GENERATOR) * scale
    flat = values.view(-1)
    positions = torch.randperm(flat.numel(), generator=GENERATOR)[: len(SPECIAL)]
    flat[positions] = torch.tensor(SPECIAL)[: len(positions)]
    return values.to(dtype)


def same(result: torch.Tensor, expected: np.ndarray) -> bool:  # type: ignore[type-arg]
    actual = result.cpu().numpy()
    return actual.dtype == expected.dtype and np.array_equal(actual, expected, equal_nan=actual.dtype.kind == "f")


@pytest.mark.parametrize(("x", "scale"), PAIRS)
@pytest.mark.parametrize("kind", ["int8", "int4"])
def test_group_quant(x: torch.dtype, scale: torch.dtype, kind: str) -> None:
    data, scales = hostile(40, 24, dtype=x), hostile(6, 24, dtype=scale, scale=1.0)
    ends = [0, 7, 7, 30, 40, 40]
    for offset in (None, torch.tensor([0.3]).to(scale)):
        y = torch_npu.npu_group_quant(data, scales, torch.tensor(ends), offset=offset, dst_dtype=KINDS[kind])
        value = None if offset is None else float(offset)
        with np.errstate(all="ignore"):
            expected = numpy_rules.group_quant(numpy_rules.floats(data), numpy_rules.floats(scales), ends, value, kind)
        assert same(y, expected)


@pytest.mark.parametrize(("x", "scale"), [(x, scale) for x, scale in PAIRS if x in (torch.float32, scale)])
@pytest.mark.parametrize("kind", ["int8", "int4"])
@pytest.mark.parametrize("axis", [-1, -2])
def test_quantize_multiplying(x: torch.dtype, scale: torch.dtype, kind: str, axis: int) -> None:
    data = hostile(3, 5, 16, dtype=x)
    for length in (1, data.size(axis)):
        scales, zeros = hostile(length, dtype=scale, scale=1.0), hostile(length, dtype=scale)
        y = torch_npu.npu_quantize(data, scales, zeros, KINDS[kind], axis, False)
        args = (numpy_rules.floats(data), numpy_rules.floats(scales), numpy_rules.floats(zeros), axis, False, kind)
        assert same(y, numpy_rules.quantize(*args))


@pytest.mark.parametrize("x", FLOATS)
@pytest.mark.parametrize("zero", [torch.int8, torch.uint8, torch.int32, torch.bfloat16, None])
@pytest.mark.parametrize("kind", ["int8", "uint8", "int32"])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_quantize_dividing(x: torch.dtype, zero: torch.dtype | None, kind: str, axis: int) -> None:
    data = hostile(3, 5, 16, dtype=x, scale=1e4)
    if zero is torch.bfloat16:  # then nothing else may be anything else
        data = data.bfloat16()
    halves = torch.bfloat16 if zero is torch.bfloat16 else torch.float32
    scales = hostile(data.size(axis), dtype=halves, scale=1e-4 if kind == "int32" else 1e2)
    zeros = None if zero is None else torch.randint(0, 99, (data.size(axis),), generator=GENERATOR).to(zero)
    y = torch_npu.npu_quantize(data, scales, zeros, KINDS[kind], axis)
    points = None if zeros is None else numpy_rules.floats(zeros)
    assert same(y, numpy_rules.quantize(numpy_rules.floats(data), numpy_rules.floats(scales), points, axis, True, kind))


@pytest.mark.parametrize("round_mode", [0, 1])
def test_trans_quant_param(round_mode: int) -> None:
    words = torch.randint(-(2**31), 2**31, (3000,), generator=GENERATOR, dtype=torch.int64).to(torch.int32)
    edges = [0x7F7FFFFF, -0x00800001, 0x7F800000, 0x7FC00000, 0x7F800001, 0x00000001, 0x007FFFFF, 0x00800000]
    edges += [0x3F801000, 0x3F803000, 0x3F801001, 0x3F800FFF, -0x80000000]
    scale = torch.cat([words, torch.tensor(edges, dtype=torch.int32)]).view(torch.float32)
    offset = hostile(scale.numel(), dtype=torch.float32, scale=300.0)
    offset[:4] = torch.tensor([254.5, 255.5, -256.5, 0.5])
    params = torch_npu.npu_trans_quant_param(scale, offset, round_mode).tolist()
    for word, one, other in zip(params, scale.numpy(), offset.tolist(), strict=True):
        assert word == numpy_rules.trans_quant_param(one, other, round_mode)
    without = torch_npu.npu_trans_quant_param(scale, None, round_mode).tolist()
    assert without == [numpy_rules.trans_quant_param(one, None, round_mode) for one in scale.numpy()]


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("kind", ["int8", "int4"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("mode", ["pertoken", "pertensor", "perchannel"])
@pytest.mark.parametrize("smoothed", [False, True])
def test_dynamic_quant(symmetric: bool, kind: str, dtype: torch.dtype, mode: str, smoothed: bool) -> None:
    x = (torch.randn(3, 8, 32, generator=GENERATOR) * 5).to(dtype)
    x[0, 0], x[0, 1], x[0, 2] = 0.0, 3.0, -3.0
    if mode != "pertensor":
        x[1, 0, 0], x[1, 1, 1], x[1, 2, 2] = float("nan"), float("inf"), float("-inf")
    smooth = torch.randn(8 if mode == "perchannel" else 32, generator=GENERATOR).to(dtype) if smoothed else None
    op = torch_npu.npu_dynamic_quant if symmetric else torch_npu.npu_dynamic_quant_asymmetric
    y, *parameters = op(x, smooth_scales=smooth, dst_type=KINDS[kind], quant_mode=mode)
    values = numpy_rules.floats(x)
    if smooth is not None:
        factors = numpy_rules.floats(smooth)
        values = values * (factors[:, None] if mode == "perchannel" else factors)
    tokens = {
        "pertoken": values.reshape(-1, 32),
        "pertensor": values.reshape(1, -1),
        "perchannel": values.swapaxes(1, 2).reshape(-1, 8),
    }[mode]
    rows = [numpy_rules.dynamic_quant(token, kind, symmetric) for token in tokens]
    whole = np.stack([row[0] for row in rows])
    whole = whole.reshape(3, 32, 8).swapaxes(1, 2) if mode == "perchannel" else whole.reshape(3, 8, 32)
    assert same(y, numpy_rules.pack(whole) if kind == "int4" else np.ascontiguousarray(whole))
    for at, parameter in enumerate(parameters, start=1):
        assert same(parameter, np.array([row[at] for row in rows], np.float32).reshape(tuple(parameter.shape)))


@pytest.mark.parametrize("symmetric", [True, False])
def test_groups_take_their_own_smooth_row(symmetric: bool) -> None:
    x, smooth = torch.randn(2, 5, 16, generator=GENERATOR).half(), torch.randn(3, 16, generator=GENERATOR).half()
    op = torch_npu.npu_dynamic_quant if symmetric else torch_npu.npu_dynamic_quant_asymmetric
    y, *parameters = op(x, smooth_scales=smooth, group_index=torch.tensor([1, 6, 10], dtype=torch.int32))
    by_row = numpy_rules.floats(smooth)[[0] + [1] * 5 + [2] * 4]
    smoothed = numpy_rules.floats(x).reshape(10, 16) * by_row
    rows = [numpy_rules.dynamic_quant(row, "int8", symmetric) for row in smoothed]
    assert same(y, np.stack([row[0] for row in rows]).reshape(2, 5, 16))
    scales = np.array([row[1] for row in rows], np.float32)
    if symmetric:  # the kernel for groups stores the reciprocal of what it multiplies by
        scales = np.float32(1) / (np.float32(127) / np.abs(smoothed).max(-1))
    assert same(parameters[0], scales.reshape(2, 5))


@pytest.mark.parametrize("symmetric", [True, False])
def test_dst_type_max_is_the_largest_result(symmetric: bool) -> None:
    x = torch.randn(4, 16, generator=GENERATOR).half()
    op = torch_npu.npu_dynamic_quant if symmetric else torch_npu.npu_dynamic_quant_asymmetric
    y, *_ = op(x, dst_type_max=100.0)
    assert same(
        y, np.stack([numpy_rules.dynamic_quant(row, "int8", symmetric, 100.0)[0] for row in numpy_rules.floats(x)])
    )


def test_constant_rows_as_a2_quantises_them() -> None:
    y, scale, offset = torch_npu.npu_dynamic_quant_asymmetric(torch.zeros(2, 8).half())
    assert y.unique().tolist() == [127]
    assert scale.tolist() == [np.float32(1e-12)] * 2
    assert offset.tolist() == [127.0] * 2
    y, scale = torch_npu.npu_dynamic_quant(torch.zeros(2, 8).half())
    assert y.unique().tolist() == [0]
    assert scale.tolist() == [0.0] * 2
