"""Quantised linears compared with NumPy statements, and with the float linear."""

import numpy as np
import pytest
import torch
from graph_quant.nn import (
    DynamicW8A8Linear,
    Range,
    StaticW8A8Linear,
    W4A4Linear,
    W4A8Linear,
    W4A16Linear,
    W8A16Linear,
)
from torch import Tensor, nn

from support.experts import split_product

HALVES = [torch.float16, torch.bfloat16]


def made(dtype: torch.dtype, bias: bool = True, outlier: float = 1.0) -> tuple[nn.Linear, Tensor, Range]:
    """A linear, an input with one channel ``outlier`` times the others, and the range of it."""
    linear = nn.Linear(64, 24, bias=bias).to(dtype)
    x = torch.randn(2, 30, 64) + 0.5
    x[..., 7] *= outlier
    x = x.to(dtype)
    rows = x.float().reshape(-1, 64)
    return linear, x, Range(rows.amin(0), rows.amax(0))


def sqnr(exact: Tensor, approximate: Tensor) -> float:
    exact, approximate = exact.detach().double().cpu(), approximate.double().cpu()
    return float(10 * torch.log10(exact.square().sum() / (exact - approximate).square().sum()))


def rounded(values: np.ndarray, dtype: torch.dtype) -> Tensor:
    """Round float32 once to ``dtype``."""
    return torch.from_numpy(values.astype(np.float32)).to(dtype)


def by_row(x: np.ndarray, top: int) -> tuple[np.ndarray, np.ndarray]:
    """Return integers and scales of each row by its absmax, in float32."""
    largest = np.abs(x).max(-1, keepdims=True)
    integers = np.rint(x * (np.float32(top) / largest)).astype(np.int64)
    return integers, largest * (np.float32(1) / np.float32(top))


def integer_weight(weight: np.ndarray, top: int) -> tuple[np.ndarray, np.ndarray]:
    scale = np.abs(weight).max(-1) / np.float32(top)
    return np.clip(np.rint(weight / scale[:, None]), -top, top).astype(np.int64), scale


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize(("module", "top"), [(DynamicW8A8Linear, 127), (W4A4Linear, 7)])
@pytest.mark.parametrize("device", ["cpu", "npu"])
def test_dynamic_linears_agree_with_numpy(module: type, top: int, dtype: torch.dtype, device: str) -> None:
    linear, x, _ = made(dtype)
    rows, row_scale = by_row(x.float().numpy().reshape(-1, 64), top)
    weight, scale = integer_weight(linear.weight.detach().float().numpy(), top)
    product = (rows @ weight.T).astype(np.float32)
    expected = product * scale * row_scale + linear.bias.detach().float().numpy()
    y = module.from_float(linear).to(device)(x.to(device))
    assert y.dtype == dtype
    assert torch.equal(y.cpu(), rounded(expected.reshape(2, 30, 24), dtype))


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("bias", [True, False])
def test_static_linear_agrees_with_numpy(dtype: torch.dtype, bias: bool) -> None:
    linear, x, seen = made(dtype, bias)
    quantised = StaticW8A8Linear.from_float(linear, seen)
    multiplier = np.float32(quantised.multiplier.float().item())
    zero_point = np.float32(quantised.zero_point.float().item())
    rows = np.clip(np.rint(x.float().numpy() * multiplier + zero_point), -128, 127).astype(np.int64)
    assert rows.min() == -128
    assert rows.max() == 127
    weight = quantised.weight.numpy().astype(np.int64)
    product = (rows @ weight + quantised.bias.numpy()).astype(np.float32)
    assert torch.equal(quantised(x), rounded(product * quantised.scale.numpy(), dtype))


def test_static_bias_subtracts_the_zero_point() -> None:
    linear, _, seen = made(torch.float16)
    quantised = StaticW8A8Linear.from_float(linear, seen)
    zeros = torch.zeros(3, 64, dtype=torch.float16)
    step = quantised.scale.max().item()
    torch.testing.assert_close(quantised(zeros), linear(zeros), rtol=1e-3, atol=step)


def test_static_scales_are_exact_when_packed() -> None:
    linear, _, seen = made(torch.float16)
    scale = StaticW8A8Linear.from_float(linear, seen, smooth=0.5).scale
    assert (scale.view(torch.int32) & 0x1FFF).count_nonzero() == 0


@pytest.mark.parametrize("dtype", HALVES)
def test_quantised_linears_are_close_to_float(dtype: torch.dtype) -> None:
    linear, x, seen = made(dtype)
    exact = linear(x)
    assert sqnr(exact, DynamicW8A8Linear.from_float(linear)(x)) > 37
    assert sqnr(exact, StaticW8A8Linear.from_float(linear, seen)(x)) > 33
    assert sqnr(exact, StaticW8A8Linear.from_float(linear, seen, symmetric=True)(x)) > 33
    assert sqnr(exact, W4A4Linear.from_float(linear)(x)) > 14
    assert sqnr(exact, W8A16Linear.from_float(linear)(x)) > 37
    linear.weight.data[:, :8] *= 6
    exact = linear(x)
    for module in (W4A8Linear, W4A16Linear):
        by_channel, by_group = (sqnr(exact, module.from_float(linear, size)(x)) for size in (None, 32))
        assert by_group > by_channel + 0.5 > 16


@pytest.mark.parametrize("dtype", HALVES)
def test_smoothing_reduces_the_error_of_an_outlier_channel(dtype: torch.dtype) -> None:
    linear, x, seen = made(dtype, outlier=60.0)
    exact = linear(x)
    for plain, smooth in (
        (DynamicW8A8Linear.from_float(linear), DynamicW8A8Linear.from_float(linear, seen, 0.5)),
        (StaticW8A8Linear.from_float(linear, seen), StaticW8A8Linear.from_float(linear, seen, 0.5)),
    ):
        assert sqnr(exact, smooth(x)) > sqnr(exact, plain(x)) + 3


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("group_size", [None, 32])
@pytest.mark.parametrize("device", ["cpu", "npu"])
def test_int4_weights_and_int8_rows_agree_with_numpy(dtype: torch.dtype, group_size: int | None, device: str) -> None:
    linear, x, _ = made(dtype, bias=group_size is None)
    # With a scale for each channel as well, few rows are split in halves of int4: 24 columns are more than 4 rows each.
    few = x.reshape(-1, 64)[:4]
    rows, scales = by_row(few.float().numpy(), 127)
    weight = linear.weight.detach().float().numpy()
    pairs = zip(rows, scales, strict=True)
    expected = rounded(np.stack([split_product(*pair, weight, dtype, group_size or 64) for pair in pairs]), dtype)
    expected = expected if linear.bias is None else expected + linear.bias.detach()
    assert torch.equal(W4A8Linear.from_float(linear, group_size).to(device)(few.to(device)).cpu(), expected)


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("group_size", [None, 32])
@pytest.mark.parametrize(("module", "top"), [(W8A16Linear, 127), (W4A16Linear, 7)])
def test_weight_only_linears_multiply_exactly(
    module: type, top: int, group_size: int | None, dtype: torch.dtype
) -> None:
    """Weights of small integers times a power of two in each group: no sum has to be rounded."""
    length = group_size or 64
    integers = torch.randint(-top, top + 1, (24, 64 // length, length))
    integers[..., 0] = top
    exact = (integers * 2.0 ** torch.randint(-6, -2, (24, 64 // length, 1))).flatten(1)
    linear = nn.Linear(64, 24).to(dtype)
    linear.weight.data = exact.to(dtype)
    linear.bias.data = torch.randint(-8, 8, (24,)).to(dtype)
    x = torch.randint(-3, 4, (2, 3, 64)).to(dtype)
    expected = (x.double() @ exact.double().T + linear.bias.double()).to(dtype)
    quantised = module.from_float(linear, group_size).npu()
    assert torch.equal(quantised(x.npu()).cpu(), expected)
    assert f"in_features=64, out_features=24, bias=True, group_size={group_size}" in str(quantised)


@pytest.mark.parametrize("module", [DynamicW8A8Linear, W4A4Linear, W4A8Linear, W8A16Linear, W4A16Linear])
@pytest.mark.parametrize("shape", [(64,), (0, 64), (1, 64), (2, 3, 5, 64)])
def test_inputs_of_any_rank(module: type, shape: tuple[int, ...]) -> None:
    linear, _, _ = made(torch.bfloat16)
    if 0 in shape and module is not W4A8Linear:
        with pytest.raises(RuntimeError, match=r"npu_(weight_quant_batch|quant_)matmul: x"):
            module.from_float(linear)(torch.randn(shape).bfloat16())
        return
    assert module.from_float(linear)(torch.randn(shape).bfloat16()).shape == (*shape[:-1], 24)


def test_channels_of_zeros() -> None:
    linear, x, seen = made(torch.float16, bias=False)
    linear.weight.data[3] = 0
    quiet = Range(torch.zeros(64), torch.zeros(64))
    for quantised in (
        DynamicW8A8Linear.from_float(linear),
        W4A4Linear.from_float(linear),
        W4A8Linear.from_float(linear),
        W8A16Linear.from_float(linear),
        W4A16Linear.from_float(linear, 32),
        StaticW8A8Linear.from_float(linear, seen, 0.5),
    ):
        y = quantised(x)
        assert y.isfinite().all()
        assert y[..., 3].count_nonzero() == 0
    assert StaticW8A8Linear.from_float(linear, quiet)(torch.zeros_like(x)).count_nonzero() == 0


def test_invalid_linears_are_refused() -> None:
    with pytest.raises(ValueError, match="W4A4Linear: in_features must be a multiple of 8, got 20"):
        W4A4Linear.from_float(nn.Linear(20, 8).half())
    with pytest.raises(TypeError, match=r"linear.weight must be torch.float16 or torch.bfloat16, got torch.float32"):
        DynamicW8A8Linear.from_float(nn.Linear(16, 8))
    with pytest.raises(ValueError, match="DynamicW8A8Linear: smooth needs the observed range of the input, got None"):
        DynamicW8A8Linear.from_float(nn.Linear(16, 8).half(), smooth=0.5)
    with pytest.raises(ValueError, match="W4A16Linear: group_size must be a multiple of 32, got 48"):
        W4A16Linear.from_float(nn.Linear(64, 8).half(), group_size=48)
    with pytest.raises(ValueError, match="W8A16Linear: group_size must be None or positive, got 0"):
        W8A16Linear.from_float(nn.Linear(64, 8).half(), group_size=0)
    with pytest.raises(ValueError, match="W4A8Linear: group_size must divide the input channels, got 96 and 128"):
        W4A8Linear.from_float(nn.Linear(128, 8).half(), group_size=96)
    with pytest.raises(ValueError, match="W4A16Linear: output channels must be a multiple of 8, got 12"):
        W4A16Linear.from_float(nn.Linear(64, 12).half())
    with pytest.raises(ValueError, match="observed must have in_features channels, 16, got 8"):
        StaticW8A8Linear.from_float(nn.Linear(16, 8).half(), Range(torch.zeros(8), torch.ones(8)))
