"""ATB's quantised RMS norm compared with a statement in NumPy."""

from typing import Any

import numpy as np
import pytest
import torch
import torch_npu
from graph_quant.refusals import Refusal

from support.numpy_rules import floats
from support.tensors import bf16, f16, f32, i8


@pytest.mark.parametrize("make", [f16, bf16])
@pytest.mark.parametrize("shape", [(3, 2, 32), (2, 8208)])
def test_norm_is_rounded_to_float16_before_the_integer(make: Any, shape: tuple[int, ...]) -> None:
    width = shape[-1]
    # The sum of squares of integers is exact in any order.
    x, gamma, beta, scale, offset = make(*shape).round(), make(1, width), make(1, width), make(1).abs() + 0.01, i8(1)
    output = torch.zeros(shape, dtype=torch.int8).npu()
    inputs = [tensor.npu() for tensor in (x, gamma, beta, scale, offset)]
    assert torch_npu._npu_quant_rms_norm(*inputs, output, eps=1e-5) is None
    one, unit = floats(x), np.float32(1)
    mean = (one * one).sum(-1, keepdims=True, dtype=np.float64).astype(np.float32) * np.float32(1 / width)
    normed = one * (unit / np.sqrt(mean + np.float32(1e-5))) * floats(gamma) + floats(beta)
    scaled = (normed * (unit / floats(scale)) + np.float32(offset.item())).astype(np.float16)
    wanted = np.rint(np.clip(scaled.astype(np.float32), -128, 127))
    np.testing.assert_array_equal(output.cpu().numpy(), wanted)


def call(**changed: Any) -> Any:
    arguments = {"self": f16(2, 3, 32), "gamma": f16(32), "beta": f16(32), "scale": f16(1), "offset": i8(1)}
    arguments |= {"output": i8(2, 3, 32)} | changed
    return torch.ops.atb._npu_quant_rms_norm(*arguments.values())


WRONG: list[tuple[str, dict[str, Any]]] = [
    ("self must be", {"self": f32(2, 3, 32)}),
    ("self must have", {"self": f16(1, 1, 1, 1, 1, 1, 2, 3, 32)}),
    ("self.size(0)", {"self": f16(0, 3, 32)}),
    ("self.size(-1)", {"self": f16(2, 3, 24)}),
    ("gamma must be", {"gamma": bf16(32)}),
    ("gamma.size(-1)", {"gamma": f16(16)}),
    ("gamma.size(0)", {"gamma": f16(2, 32)}),
    ("beta must be", {"beta": bf16(32)}),
    ("beta must have", {"beta": f16(1, 32)}),
    ("beta.size(0)", {"beta": f16(0)}),
    ("scale must be", {"scale": f32(1)}),
    ("scale must have", {"scale": f16()}),
    ("scale.size(0)", {"scale": f16(32)}),
    ("offset must be", {"offset": f16(1)}),
    ("offset.size(0)", {"offset": i8(32)}),
    ("output must be", {"output": f16(2, 3, 32)}),
    ("output.size(1)", {"output": i8(2, 2, 32)}),
]


@pytest.mark.parametrize(("words", "changed"), WRONG)
def test_wrong_calls_are_refused(words: str, changed: dict[str, Any]) -> None:
    with pytest.raises(Refusal) as refusal:
        call(**changed)
    assert str(refusal.value).startswith(f"_npu_quant_rms_norm: {words}")
