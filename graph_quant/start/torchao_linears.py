"""Lowers linears that torchao quantised to npu operators where a graph is traced for an NPU and fusions are on.

torchao's weights are tensor subclasses, whose ``linear`` is a chain of operators: quantise each row by absmax / 127.5,
multiply integers, rescale twice. The npu operators round differently (npu_dynamic_quant has absmax / 127), so that
this is a fusion: off unless GRAPH_QUANT_FUSE is on. Eager calls stay torchao's.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch
from torch._subclasses.functional_tensor import FunctionalTensor
from torch.nn.functional import linear

from .. import fusions
from ..refusals import Refusal

_HALVES = (torch.float16, torch.bfloat16)
Linear = Callable[[Any, Any, tuple[Any, ...], dict[str, Any]], Any]


def patch(module: ModuleType) -> None:
    """Replace the linears of the tensor subclasses that a module of torchao defines."""
    for name, lower in (("Int8Tensor", _lower_int8), ("IntxUnpackedToInt8Tensor", _lower_intx)):
        kind = vars(module).get(name)
        if kind is None:
            continue
        for function, table in (
            (linear, kind._TORCH_FN_TABLE),
            (torch.ops.aten.linear.default, kind._ATEN_OP_TABLE),
        ):
            if function in table[kind]:
                table[kind][function] = _lowering(table[kind][function], lower)


def _lowering(original: Linear, lower: Callable[[Any, Any, Any], Any]) -> Linear:
    def lowered(function: Any, types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        x, weight, bias = (*args, None)[:3]
        is_traced = isinstance(x, FunctionalTensor) and x.device.type == "npu" and x.dtype in _HALVES
        if is_traced and not kwargs and fusions.current():
            try:
                result = lower(x.reshape(-1, x.shape[-1]), weight, bias)
            except Refusal:
                result = None
            if result is not None:
                return result.reshape(*x.shape[:-1], result.shape[-1])
        return original(function, types, args, kwargs)

    return lowered


def _lower_int8(x: Any, weight: Any, bias: Any) -> Any:
    """Rows of int8 weights; None for static and asymmetric activations."""
    if weight.act_pre_scale is not None or weight.act_quant_scale is not None:
        return None
    dynamic = weight.act_quant_kwargs
    if dynamic is None:
        return _weight_only(x, weight.qdata, weight.scale, None, bias)
    by_row = weight.scale.numel() == weight.qdata.shape[0]
    symmetric = type(dynamic.granularity).__name__ == "PerRow" and dynamic.mapping_type.name == "SYMMETRIC"
    if not by_row or not symmetric:
        return None
    rows, tokens = torch.ops.npu.npu_dynamic_quant(x)
    return torch.ops.npu.npu_quant_matmul(
        rows,
        weight.qdata.t(),
        weight.scale.reshape(-1).float(),
        pertoken_scale=tokens,
        bias=None if bias is None else bias.float(),
        output_dtype=x.dtype,
    )


def _lower_intx(x: Any, weight: Any, bias: Any) -> Any:
    """Weights of fewer bits, which torchao keeps as int8, with an offset; None for quantised activations."""
    if weight.activation_quantization is not None:
        return None
    return _weight_only(x, weight.qdata, weight.scale, weight.zero_point, bias)


def _weight_only(x: Any, integers: Any, scale: Any, zero: Any, bias: Any) -> Any:
    rows, depth = integers.shape
    if scale.numel() % rows:
        return None
    groups = scale.numel() // rows
    shape = (rows, groups) if groups > 1 else (rows,)
    step = scale.reshape(shape).to(x.dtype)
    offset = None if zero is None else -zero.reshape(shape).to(x.dtype)
    if groups > 1:
        step, offset = step.t(), None if offset is None else offset.t()
    return torch.ops.npu.npu_weight_quant_batchmatmul(
        x,
        integers.t(),
        step,
        antiquant_offset=offset,
        bias=bias if bias is None or x.dtype == torch.float16 else bias.float(),
        antiquant_group_size=depth // groups if groups > 1 else 0,
    )
