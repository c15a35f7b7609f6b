"""A daily sample of the forms of operators and optimizers against the CPU; `make coverage` runs all."""

import warnings
from typing import Any

import pytest
import torch
from torch import Tensor

from host.opinfo import DTYPES
from host.variants import NO_FORMS, OPERATORS, OPTIMIZERS, check_operator, check_optimizer
from support.daily_sample import DAY

# The day decides which operators run, and in which dtype besides float16; GRAPH_QUANT_SAMPLE repeats a day's sample.
SLOTS, STEP = 60, 29
OTHERS = tuple(dtype for dtype in DTYPES if dtype != torch.float16)


@pytest.mark.parametrize("slot", range(SLOTS))
def test_forms_match_cpu(slot: int) -> None:
    op = OPERATORS[(slot * STEP + DAY) % len(OPERATORS)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        outcome = check_operator(op, [torch.float16, OTHERS[(slot + DAY) % len(OTHERS)]])
    if outcome.failure and outcome.name in NO_FORMS:
        pytest.xfail(NO_FORMS[outcome.name])
    assert outcome.failure is None, f"{outcome.name}: {outcome.failure} (GRAPH_QUANT_SAMPLE={DAY})"


@pytest.mark.parametrize("slot", range(2))
def test_optimizers_match_cpu(slot: int) -> None:
    info = OPTIMIZERS[(slot * 7 + DAY) % len(OPTIMIZERS)]
    dtype = (torch.float16, torch.bfloat16, torch.float32)[(slot + DAY) % 3]
    outcome = check_optimizer(info, [dtype])
    assert outcome.failure is None, f"{outcome.name}: {outcome.failure} (GRAPH_QUANT_SAMPLE={DAY})"


def _momentum_sgd(dtype: torch.dtype, device: str, **settings: bool) -> list[Tensor]:
    generator = torch.Generator().manual_seed(1)
    parameter = torch.nn.Parameter(torch.randn(67, generator=generator).to(dtype).to(device))
    optimizer = torch.optim.SGD([parameter], lr=0.1, momentum=0.9, dampening=0.5, weight_decay=0.01, **settings)
    for _ in range(3):
        parameter.grad = torch.randn(67, generator=generator).to(dtype).to(device)
        optimizer.step()
    return [parameter.detach().cpu(), optimizer.state[parameter]["momentum_buffer"].cpu()]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_fused_sgd_follows_the_steps_of_the_loop(dtype: torch.dtype) -> None:
    """PyTorch's CPU kernel leaves parameters in half precision as they were."""
    expected = _momentum_sgd(torch.float64, "cpu", foreach=False)
    for actual, exact in zip(_momentum_sgd(dtype, "npu", fused=True), expected, strict=True):
        assert (actual.double() - exact).abs().max() < 8 * torch.finfo(dtype).eps


def test_fused_sgd_without_momentum_is_refused_as_on_the_device() -> None:
    parameter = torch.nn.Parameter(torch.ones(3).npu())
    parameter.grad = torch.ones(3).npu()
    with pytest.raises(RuntimeError, match="_fused_sgd_: momentum must be positive, got 0"):
        torch.optim.SGD([parameter], lr=0.1, fused=True).step()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", ["add", "sub"])
def test_alpha_is_rounded_alike_in_every_form(name: str, dtype: torch.dtype) -> None:
    x, other = (torch.randn(67, generator=torch.Generator().manual_seed(seed)).to(dtype).npu() for seed in (1, 2))
    function = getattr(torch, name)
    expected = function(x, other, alpha=0.3)
    strided, empty = torch.empty(67, 2, dtype=dtype).npu()[:, 0], torch.empty(0, dtype=dtype).npu()
    forms = (
        getattr(x, name)(other, alpha=0.3),
        getattr(x.clone(), f"{name}_")(other, alpha=0.3),
        *(function(x, other, alpha=0.3, out=out) for out in (torch.empty_like(x), strided, empty)),
        torch.stack([function(one, two, alpha=0.3) for one, two in zip(x, other, strict=True)]),
    )
    for form in forms:
        assert torch.equal(form, expected)
    exact = x.double().cpu() + (0.3 if name == "add" else -0.3) * other.double().cpu()
    assert (expected.double().cpu() - exact).abs().max() < 2 * torch.finfo(dtype).eps * exact.abs().max()


@pytest.mark.parametrize("name", ["gelu", "avg_pool3d", "narrow_copy"])
def test_strided_out_is_written(name: str) -> None:
    x = torch.randn(4, 4, 4, 4).npu()
    call = {
        "gelu": lambda **out: torch._C._nn.gelu(x, **out),
        "avg_pool3d": lambda **out: torch._C._nn.avg_pool3d(x, 2, **out),
        "narrow_copy": lambda **out: torch.narrow_copy(x, 0, 1, 2, **out),
    }[name]
    expected = call()
    out = torch.full((*expected.shape, 2), 7.0).npu()[..., 1]
    assert torch.equal(call(out=out), expected)
    assert torch.equal(out, expected)


def test_group_norm_of_doubles_keeps_their_precision() -> None:
    x = torch.randn(2, 4, 3, dtype=torch.float64)
    for actual, expected in zip(
        torch.native_group_norm(x.npu(), None, None, 2, 4, 3, 2, 1e-5),
        torch.native_group_norm(x, None, None, 2, 4, 3, 2, 1e-5),
        strict=True,
    ):
        torch.testing.assert_close(actual.cpu(), expected, rtol=1e-13, atol=1e-13)


def test_out_that_the_cpu_marks_as_conjugate_holds_conjugate_values() -> None:
    generator = torch.Generator().manual_seed(1)
    matrix, other = (torch.randn(3, 3, dtype=torch.complex64, generator=generator).npu() for _ in range(2))
    factors, pivots = torch.linalg.lu_factor(matrix)
    out = torch.empty_like(other)
    torch.linalg.lu_solve(factors, pivots, other, left=False, out=out)
    assert torch.equal(out, torch.linalg.lu_solve(factors, pivots, other, left=False))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("numbers", [0.9, [0.9, 0.1]], ids=["one", "list"])
def test_lists_multiplied_in_place_have_the_bits_of_the_other_form(numbers: Any, dtype: torch.dtype) -> None:
    """PyTorch's CPU kernel rounds the number to the dtype of the tensors in the in-place form alone."""
    generator = torch.Generator().manual_seed(1)
    tensors = [torch.randn(67, generator=generator).to(dtype).npu(), torch.tensor(0.7, dtype=dtype).npu()]
    expected = torch._foreach_mul(tensors, numbers)
    strided = [torch.stack((tensor, tensor), -1)[..., 1] for tensor in tensors]
    for written in ([tensor.clone() for tensor in tensors], strided):
        torch._foreach_mul_(written, numbers)
        assert all(torch.equal(one, other) for one, other in zip(written, expected, strict=True))
