"""one_, npu_one_hot, npu_mish, npu_sign_bits_(un)pack and _npu_dtype_cast: argument rules and results."""

from __future__ import annotations

import torch
from graph_quant.chip import A2_A3_950
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.quant.dtype_cast import NUMBERS
from graph_quant.meta.rules import Rules
from graph_quant.reference.general import elementwise as reference
from torch import Tensor

CLASSES = (torch.int32, torch.int64, torch.int16, torch.int8, torch.uint8)
SIGNED = (torch.float32, torch.float16)


@operator("one_", reference=reference.one, chips=A2_A3_950)
def one(rules: Rules, input: Tensor) -> Plan:  # noqa: A002
    """Check a call against the documented rules and return its plan."""
    rules.dtype("input", input, NUMBERS)
    return Plan(("input",))


@operator("npu_one_hot", reference=reference.one_hot, chips=A2_A3_950)
def one_hot(
    rules: Rules,
    input: Tensor,  # noqa: A002
    num_classes: int,
    depth: int,
    on_value: float,  # noqa: ARG001 - any number
    off_value: float,  # noqa: ARG001 - any number
) -> Plan:
    """Check a call against the documented rules and return its plan.

    num_classes is the axis to fill; the device's result always has it last.
    """
    rules.dtype("input", input, CLASSES)
    rules.rank("input", input, 1, 7)
    rules.one_of("num_classes", num_classes, (-1,), why=", the last axis")
    rules.at_least("depth", depth, 1)
    return Plan((Result((*input.shape, depth), torch.float32),))


@operator("npu_mish", reference=reference.mish)
def mish(rules: Rules, input: Tensor) -> Plan:  # noqa: A002
    """Check a call against the documented rules and return its plan."""
    rules.dtype("input", input, SIGNED)
    rules.rank("input", input, 0, 8)
    return Plan((Result(tuple(input.shape), input.dtype),))


@operator("npu_sign_bits_pack", reference=reference.sign_bits_pack)
def sign_bits_pack(rules: Rules, input: Tensor, size: int) -> Plan:  # noqa: A002
    """Check a call against the documented rules and return its plan."""
    rules.dtype("input", input, SIGNED)
    rules.rank("input", input, 1)
    return Plan((Result(_rows(rules, size, (input.size(0) + 7) // 8), torch.uint8),))


@operator("npu_sign_bits_unpack", reference=reference.sign_bits_unpack)
def sign_bits_unpack(rules: Rules, input: Tensor, size: int, dtype: torch.dtype) -> Plan:  # noqa: A002
    """Check a call against the documented rules and return its plan."""
    rules.dtype("input", input, (torch.uint8,))
    rules.rank("input", input, 1)
    rules.one_of("dtype", dtype, SIGNED)
    return Plan((Result(_rows(rules, size, input.size(0) * 8), dtype),))


def _rows(rules: Rules, size: int, count: int) -> tuple[int, int]:
    rules.at_least("size", size, 1)
    rules.require(count % size == 0, lambda: f"size must divide the number of results, got {size} and {count}")
    return size, count // size


@operator("_npu_dtype_cast", reference=reference.cast, chips=A2_A3_950)
@operator("_npu_dtype_cast_backward", reference=reference.cast, chips=A2_A3_950)
def dtype_cast(rules: Rules, input: Tensor, dtype: torch.dtype) -> Plan:  # noqa: A002
    """Check a call against the documented rules and return its plan."""
    rules.one_of("dtype", dtype, NUMBERS)
    return Plan((Result(tuple(input.shape), dtype),))
