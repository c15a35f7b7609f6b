"""npu_quant_conv2d in static graphs, the one mode that its document allows."""

import pytest
import torch
import torch_npu
import torchair
from torch_npu.contrib.module import QuantConv2d

from operators.matmul.quant_conv2d import FILTERS, HALF, IMAGE, PLAIN, SCALE, expected
from support.tensors import i32


def convolved(x: torch.Tensor, weight: torch.Tensor, scale: torch.Tensor, bias: torch.Tensor) -> list[torch.Tensor]:
    few = torch_npu.npu_quant_conv2d(x, weight, scale, *PLAIN)
    many = torch_npu.npu_quant_conv2d(x, weight, scale, [2, 1], [1, 3], [1, 2], 1, -7, "rint", HALF, bias)
    return [few, many]


def on_npu() -> list[torch.Tensor]:
    return [IMAGE.npu(), FILTERS.npu(), SCALE.npu(), (i32(4) // 2**12).npu()]


def test_a_static_graph_gives_the_bits_of_the_statement() -> None:
    inputs = on_npu()
    results = torch.compile(convolved, backend=torchair.get_npu_backend(), dynamic=False)(*inputs)
    x, weight, scale, bias = (tensor.cpu() for tensor in inputs)
    few = expected(x, weight, scale, None, strides=[1, 1], pads=[0, 0], dilations=[1, 1], offset_x=0)
    many = expected(x, weight, scale, bias, strides=[2, 1], pads=[1, 3], dilations=[1, 2], offset_x=-7)
    for result, stated in zip(results, (few, many), strict=True):
        assert result.is_contiguous()
        assert torch.equal(result.cpu().view(torch.int16), stated.view(torch.int16))


@pytest.mark.parametrize("device", ["cpu", "npu"])
def test_eager_calls_are_refused(device: str) -> None:
    with pytest.raises(RuntimeError, match=r"npu_quant_conv2d: it must be called in a static graph.*got a call"):
        torch_npu.npu_quant_conv2d(IMAGE.to(device), FILTERS.to(device), SCALE.to(device), *PLAIN)


def test_dynamic_sizes_are_refused() -> None:
    graph = torch.compile(convolved, backend=torchair.get_npu_backend(), dynamic=True)
    with pytest.raises(Exception, match=r"called in a static graph.*got input.size\(0\) left open"):
        graph(*on_npu())


def test_a_module_with_weights_in_the_device_format() -> None:
    """As the document's example, and TorchAir's own preparation of such modules."""
    module = QuantConv2d(3, 4, (3, 2), torch.float16).npu()
    scale = torch.tensor([0.5, 1.0, 0.25, 2.0])
    module.weight.data, module.scale.data, module.bias.data = FILTERS.npu(), scale.npu(), torch.ones(4).int().npu()
    torchair.experimental.inference.use_internal_format_weight(module)
    with torch.no_grad():
        result = torch.compile(module, backend=torchair.get_npu_backend(), dynamic=False)(IMAGE.npu())
    bits = scale.view(torch.int32).long()
    stated = expected(
        IMAGE, FILTERS, bits, torch.ones(4).int(), strides=[1, 1], pads=[0, 0], dilations=[1, 1], offset_x=0
    )
    assert torch.equal(result.cpu(), stated)
