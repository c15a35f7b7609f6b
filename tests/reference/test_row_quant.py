"""Quantisation of rows by native code: the bits of plain torch, for special values and all strides."""

from collections.abc import Callable, Sequence
from itertools import product

import pytest
import torch
from graph_quant import native
from graph_quant.destination import INT4, INT4_ELEMENTS, INT8, Destination
from graph_quant.reference.quant import dynamic_quant, dynamic_quant_asymmetric, group_quant, row_quant
from torch import Tensor

ROWS, ENDS = 37, torch.tensor([0, 10, 10, 30, 37])
pytestmark = pytest.mark.skipif(not native.can_map_rows(torch.empty(1)), reason="no AVX-512")


def _rows(width: int, dtype: torch.dtype) -> Tensor:
    x = torch.randn(ROWS, width).mul(20)
    x[0, 0], x[1, 3], x[2, 2] = torch.nan, torch.inf, -torch.inf
    x[3], x[4] = 0, 1.5
    x[5] *= 1e-7
    return x.to(dtype)


def _with_strides(x: Tensor) -> list[Tensor]:
    return [x, x.t().contiguous().t(), torch.cat([x, x], 1)[:, : x.size(1)]]


def _assert_equal(native_results: Sequence[Tensor], expected: Sequence[Tensor]) -> None:
    for result, other in zip(native_results, expected, strict=True):
        assert (result.shape, result.dtype, result.stride()) == (other.shape, other.dtype, other.stride())
        torch.testing.assert_close(result, other, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("destination", [INT8, INT4, INT4_ELEMENTS], ids=lambda destination: destination.name)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_native_code_has_the_bits_of_torch(
    dtype: torch.dtype, destination: Destination, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[Callable[[], Sequence[Tensor]]] = []
    for width in (8, 24, 72, 1000):
        scale, smooth, offset = (torch.rand(size).mul(4).to(dtype) for size in ((5, width), (width,), (1,)))
        for x, added in product(_with_strides(_rows(width, dtype)), (None, offset)):
            calls.append(lambda x=x, s=scale, o=added: [group_quant.group_quant(x, s, ENDS, o, destination)])  # type: ignore[misc]
        for x, factors, top in product(_with_strides(_rows(width, dtype)), (None, smooth), (0.0, 5.0)):
            calls.append(
                lambda x=x, f=factors, t=top: dynamic_quant_asymmetric.dynamic_quant_asymmetric(  # type: ignore[misc]
                    x, f, None, destination, dst_type_max=t
                )
            )
            calls.append(lambda x=x, f=factors: dynamic_quant.dynamic_quant(x, f, None, destination))  # type: ignore[misc]
    results = [call() for call in calls]
    for module in (group_quant, dynamic_quant_asymmetric):
        monkeypatch.setattr(module, "can_map_rows", lambda *_: False)
    monkeypatch.setattr(native, "can_quantise_rows", lambda _: False)
    for result, call in zip(results, calls, strict=True):
        _assert_equal(result, call())


def test_operators_of_tracers() -> None:
    x, scale = torch.randn(ROWS, 24).half(), torch.rand(5, 24).half()
    torch.library.opcheck(row_quant.SCALE, (x, scale, ENDS, torch.rand(1), -8, 7, True))
    torch.library.opcheck(row_quant.MAP, (x, torch.rand(24), -128, 127, 127.0, False))
