"""Cached metadata of a call is not used for other calls of the same shapes where values matter."""

import pytest
import torch
from torch.nn import functional


def test_masked_select_size_depends_on_values() -> None:
    x = torch.arange(5.0)
    for mask in ([1, 1, 1, 0, 0], [1, 0, 0, 0, 0], [0, 0, 0, 0, 0], [1, 1, 1, 1, 1]):
        chosen = torch.tensor(mask, dtype=torch.bool)
        assert torch.equal(x.npu()[chosen.npu()].cpu(), x[chosen])


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize(
    "loss",
    [
        functional.mse_loss,
        functional.smooth_l1_loss,
        functional.huber_loss,
        functional.l1_loss,
        functional.soft_margin_loss,
    ],
)
def test_loss_can_be_computed_repeatedly(loss, reduction, recwarn) -> None:
    for _ in range(3):
        x, y = torch.randn(4, 5), torch.randn(4, 5)
        assert torch.equal(loss(x.npu(), y.npu(), reduction=reduction).cpu(), loss(x, y, reduction=reduction))
    assert not [str(warning.message) for warning in recwarn if "resized" in str(warning.message)]


def test_empty_tensors_can_be_concatenated_and_moved_repeatedly() -> None:
    empty, index = torch.empty(0, 4, device="npu"), torch.empty(0, 4, dtype=torch.int64, device="npu")
    for _ in range(3):
        assert torch.cat((empty, empty)).shape == (0, 4)
        assert torch.gather(empty, 0, index).shape == (0, 4)
        assert torch.scatter(empty, 0, index, empty).shape == (0, 4)
        assert torch.cat((empty, torch.ones(2, 4, device="npu"))).tolist() == [[1.0] * 4] * 2


def test_conjugate_bit_of_result_is_kept() -> None:
    lu, pivots = torch.linalg.lu_factor(torch.randn(3, 3, dtype=torch.complex64))
    for _ in range(3):
        b = torch.randn(3, 3, dtype=torch.complex64)
        solved = torch.linalg.lu_solve(lu.npu(), pivots.npu(), b.npu(), left=False, adjoint=True)
        assert torch.equal(solved.cpu(), torch.linalg.lu_solve(lu, pivots, b, left=False, adjoint=True))


@pytest.mark.parametrize(
    "operator",
    [torch.sqrt, torch.exp, torch.sin, torch.sigmoid, lambda x: x / 2, lambda x: x * 0.5, lambda x: torch.div(x, x)],
)
def test_default_dtype_is_read_in_each_call(operator) -> None:
    x = torch.arange(4)
    kept = torch.get_default_dtype()
    try:
        for dtype in (torch.float32, torch.float64, torch.float32):
            torch.set_default_dtype(dtype)
            assert operator(x.npu()).dtype == dtype
    finally:
        torch.set_default_dtype(kept)


def test_wrong_call_does_not_affect_later_calls() -> None:
    x, good, bad = torch.arange(4.0).npu(), torch.tensor([3, 0]).npu(), torch.tensor([3, 9]).npu()
    for _ in range(2):
        assert x.gather(0, good).tolist() == [3, 0]
        with pytest.raises(RuntimeError, match="out of bounds"):
            x.gather(0, bad)
