"""References give the same bits eagerly, by Inductor, and computed in blocks."""

from collections.abc import Callable

import pytest
import torch
from graph_quant import reference
from graph_quant.destination import INT4, INT8, INT32, Destination
from graph_quant.reference import blocks

from support.tensors import ends, f16, f32

X = f16(64, 64)
X[0, :5] = torch.tensor([float("nan"), float("inf"), float("-inf"), 0.0, 65504.0])
X[1], X[2] = 0, 3
SCALE, SMOOTH, ENDS = f32(3, 64), f16(2, 64), ends(10, 10, 64)


def cases(destination: Destination) -> dict[str, Callable[[torch.Tensor], object]]:
    group_quant, quantize = reference.group_quant.group_quant, reference.quantize.quantize
    asymmetric = reference.dynamic_quant_asymmetric.dynamic_quant_asymmetric
    return {
        "group_quant": lambda x: group_quant(x, SCALE, ENDS, None, destination),
        "quantize": lambda x: quantize(x, SCALE[0], SCALE[1], -1, destination),
        "quantize rows": lambda x: quantize(x, SCALE[0], SCALE[1], 0, destination),
        "quantize dividing": lambda x: quantize(x, SCALE[0], None, 0, INT32, divide=True),
        "dynamic_quant": lambda x: reference.dynamic_quant.dynamic_quant(x, None, None, destination),
        "dynamic_quant_asymmetric": lambda x: asymmetric(x, None, None, destination),
        "groups": lambda x: asymmetric(x, SMOOTH, ends(7, 64), destination),
        "pertensor": lambda x: asymmetric(x[1:], None, None, destination, "pertensor"),
        "perchannel": lambda x: asymmetric(x, None, None, destination, "perchannel"),
    }


def bits(results: object) -> list[torch.Tensor]:
    """The bits of each result; all NaN bit patterns count as one."""
    tensors = [results] if isinstance(results, torch.Tensor) else list(results)  # type: ignore[call-overload]
    return [
        torch.where(tensor.isnan(), torch.nan, tensor).view(torch.int32) if tensor.dtype == torch.float32 else tensor
        for tensor in tensors
    ]


@pytest.mark.parametrize("destination", [INT8, INT4], ids=lambda destination: destination.name)
@pytest.mark.parametrize("name", cases(INT8))
def test_inductor(name: str, destination: Destination) -> None:
    torch._dynamo.reset()
    compute = cases(destination)[name]
    for one, other in zip(bits(compute(X)), bits(torch.compile(compute, fullgraph=True)(X)), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("destination", [INT8, INT4], ids=lambda destination: destination.name)
@pytest.mark.parametrize("name", cases(INT8))
def test_blocks(name: str, destination: Destination, monkeypatch: pytest.MonkeyPatch) -> None:
    compute = cases(destination)[name]
    whole = bits(compute(X))
    monkeypatch.setattr(blocks, "BLOCK_ELEMENTS", 7 * 64)
    for one, other in zip(whole, bits(compute(X)), strict=True):
        assert torch.equal(one, other)
