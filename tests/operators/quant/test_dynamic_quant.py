"""Tests of symmetric and asymmetric dynamic quantisation beyond the shared ones."""

import numpy as np
import pytest
import torch
import torch_npu

from support.tensors import bf16, ends, f16

ONE, MOST = np.float32(1), np.float32(127)


def stored_scales(x: torch.Tensor, reciprocal: bool) -> np.ndarray:  # type: ignore[type-arg]
    largest = np.abs(x.float().numpy()).max(-1)
    return ONE / (MOST / largest) if reciprocal else largest * (ONE / MOST)


# By the tiling of the A2 kernel: whole eights up to 16,320 (12,800 with smooth scales), other lengths while 13 (19)
# bytes an element, padded to 16, fit 192 KiB less 1 KiB.
@pytest.mark.parametrize(
    ("length", "smoothed", "reciprocal"),
    [
        (64, False, False),
        (16320, False, False),
        (16328, False, True),
        (15040, False, False),
        (15037, False, False),
        (15041, False, True),
        (12800, True, False),
        (12808, True, True),
        (10283, True, False),
        (10289, True, True),
    ],
)
def test_the_length_selects_the_kernel_and_so_the_bits_of_scale(length: int, smoothed: bool, reciprocal: bool) -> None:
    x = f16(64, length)
    assert not np.array_equal(stored_scales(x, True), stored_scales(x, False))
    smooth = torch.ones(length, dtype=torch.float16) if smoothed else None
    _, scale = torch_npu.npu_dynamic_quant(x, smooth_scales=smooth)
    np.testing.assert_array_equal(scale.numpy(), stored_scales(x, reciprocal))


def test_groups_store_the_reciprocal() -> None:
    x = f16(64, 32)
    assert not np.array_equal(stored_scales(x, True), stored_scales(x, False))
    smooth, groups = torch.ones(2, 32, dtype=torch.float16), ends(20, 64)
    _, scale = torch_npu.npu_dynamic_quant(x, smooth_scales=smooth, group_index=groups)
    np.testing.assert_array_equal(scale.numpy(), stored_scales(x, True))


@pytest.mark.parametrize("op", [torch_npu.npu_dynamic_quant, torch_npu.npu_dynamic_quant_asymmetric])
def test_a_graph_converts_smooth_scales_of_another_dtype(op: object) -> None:
    x, smooth = f16(6, 16), bf16(16)
    torch._dynamo.reset()
    compiled = torch.compile(lambda x, smooth: op(x, smooth_scales=smooth), backend="npu", fullgraph=True)  # type: ignore[operator]
    for one, other in zip(compiled(x, smooth), op(x, smooth_scales=smooth.half()), strict=True):  # type: ignore[operator]
        assert torch.equal(one, other)
