"""npu_quant_conv2d: what may be passed, and what comes back.

input (n, c, h, w) and weight (channels, c, kernel_h, kernel_w) are int8, scale the packed int64 of
npu_trans_quant_param and bias int32, with one element for each channel of the result, which is float16. Groups, offset
and dtypes of other chips are refused. Its document allows static graphs only: neither eager calls nor dynamic sizes.

According to op-plugin's document A2 and A3 have a kernel, and GE registers its node for int8. According to ops-nn,
which holds only the kernel of Ascend 950, only that chip has one.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from graph_quant.destination import FLOAT16
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import Rules, Size
from torch import Tensor
from torch.fx.experimental.symbolic_shapes import free_symbols

_HEIGHT, _WIDTH = 2, 3


@operator("npu_quant_conv2d")
def quant_conv2d(
    rules: Rules,
    input: Tensor,  # noqa: A002
    weight: Tensor,
    scale: Tensor,
    strides: Sequence[int],
    pads: Sequence[int],
    dilations: Sequence[int],
    groups: int,
    offset_x: int,
    round_mode: str,  # noqa: ARG001 (reserved)
    output_dtype: int | None,
    bias: Tensor | None,
    offset: Tensor | None,
    input_dtype: int | None,
    weight_dtype: int | None,
) -> Plan:
    """The plan of a call that the documents allow; any other call is refused."""
    rules.require(offset is None, lambda: "offset must be None, got a tensor")
    for name, code in (("input_dtype", input_dtype), ("weight_dtype", weight_dtype)):
        rules.require(code is None, lambda name=name, code=code: f"{name} must be None, got {code}")  # type: ignore[misc]
    for name, image in (("input", input), ("weight", weight)):
        rules.dtype(name, image, (torch.int8,))
        rules.rank(name, image, 4)
        rules.not_empty(name, image)
    rules.one_of("groups", groups, (1,))
    rules.equal("weight.size(1)", weight.size(1), "input.size(1)", input.size(1))
    _check_channels(rules, "scale", scale, torch.int64, weight)
    if bias is not None:
        _check_channels(rules, "bias", bias, torch.int32, weight)
    for axis, name in ((_HEIGHT, "weight.size(2)"), (_WIDTH, "weight.size(3)")):
        _check_range(rules, name, weight.size(axis), 1, 255)
    for name, pair, low, high in (
        ("strides", strides, 1, 63),
        ("pads", pads, 0, 255),
        ("dilations", dilations, 1, 255),
    ):
        rules.require(len(pair) == 2, lambda name=name, pair=pair: f"{name} must have 2 values, got {len(pair)}")  # type: ignore[misc]
        for index, value in enumerate(pair):
            _check_range(rules, f"{name}[{index}]", value, low, high)
    _check_range(rules, "offset_x", offset_x, -128, 127)
    rules.destination("output_dtype", output_dtype, (FLOAT16,))
    height, width = (
        _result_size(rules, input.size(axis), weight.size(axis), pads[index], dilations[index], strides[index], axis)
        for index, axis in enumerate((_HEIGHT, _WIDTH))
    )
    _check_static(rules, (("input", input), ("weight", weight)))
    return Plan((Result((input.size(0), weight.size(0), height, width), torch.float16),))


def _check_channels(rules: Rules, name: str, tensor: Tensor, dtype: torch.dtype, weight: Tensor) -> None:
    rules.dtype(name, tensor, (dtype,))
    rules.rank(name, tensor, 1)
    rules.equal(f"{name}.size(0)", tensor.size(0), "weight.size(0)", weight.size(0))


def _check_range(rules: Rules, name: str, value: Size, low: int, high: int) -> None:
    for holds in (value >= low, value <= high):
        rules.require(holds, lambda: f"{name} must be from {low} to {high}, got {value}")


def _result_size(rules: Rules, size: Size, kernel: Size, pad: int, dilation: int, stride: int, axis: int) -> Size:
    span = dilation * (kernel - 1) + 1
    rules.require(
        size + 2 * pad >= span,
        lambda: (
            f"input.size({axis}) with its padding must be at least the {span} that a filter spans, got {size + 2 * pad}"
        ),
    )
    return (size + 2 * pad - span) // stride + 1


def _check_static(rules: Rules, images: Sequence[tuple[str, Tensor]]) -> None:
    """Refuse eager calls and dynamic sizes: the document allows static graphs only."""
    words = (
        "it must be called in a static graph, the one mode that its document allows: torch.compile(..., dynamic=False)"
    )
    rules.require(not rules.is_eager, lambda: f"{words}, got a call when run eagerly")
    for name, image in images:
        for axis, size in enumerate(image.shape):
            rules.require(not free_symbols(size), lambda: f"{words}, got {name}.size({axis}) left open")  # noqa: B023
