"""npu_dequant_swiglu_quant: argument rules and results.

x is (…, 2H) of int32, float16 or bfloat16. Without group_index a parameter is identified by its number of elements;
with it x is int32 or bfloat16, and parameters have a row for each group. The kernels of A2 and A3 support more than the
operator's document: a bias with groups, floating-point parameters of static quantisation, and group_index as rows
``[group, count]``.

Ascend 950 also has float8 and HiFloat8, halves of float16 in groups, and group_index of int32. Its parameters of
quantisation are float32, and quant_offset may be left out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from graph_quant.chip import A2_A3_950, ASCEND_950
from graph_quant.destination import HIFLOAT8, INT8, NARROW, Destination, find
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import FLOATS, Rules, Size
from graph_quant.reference.activation.dequant_swiglu_quant import dequant_swiglu_quant as compute
from graph_quant.refusals import UndescribedError
from torch import Tensor

_BIASES = (torch.int32, *FLOATS)
# The bytes that the kernel for groups has for a row and its parameters, and the alignment of x.size(-1).
_ROOM, _ALIGNED = 196352 - 1024 - 32 - 64 - 4, 64


@dataclass(frozen=True)
class DequantSwigluPlan(Plan):
    """``destination`` is what the result is quantised to."""

    destination: Destination


@operator("npu_dequant_swiglu_quant", reference=compute, chips=A2_A3_950)
def dequant_swiglu_quant(
    rules: Rules,
    x: Tensor,
    weight_scale: Tensor | None,
    activation_scale: Tensor | None,
    bias: Tensor | None,
    quant_scale: Tensor | None,
    quant_offset: Tensor | None,
    group_index: Tensor | None,
    activate_left: bool,  # noqa: ARG001
    quant_mode: int,
    dst_type: int | None,
    round_mode: int | None,
    activate_dim: int | None,
    swiglu_mode: int,
    clamp_limit: float,
    glu_alpha: float,
    glu_bias: float,
) -> DequantSwigluPlan:
    """Check a call against the documented rules and return its plan."""
    grouped = group_index is not None
    if rules.chip is ASCEND_950:
        gate = swiglu_mode, clamp_limit, glu_alpha, glu_bias
        destination = _check_950(rules, x, group_index, dst_type, round_mode, activate_dim, quant_mode, gate)
        call = _Call(rules, x, grouped, 1 if group_index is None else group_index.size(0), quant_mode == 1)
        call.check_dequant(weight_scale, activation_scale, bias)
        call.check_quant_950(weight_scale, quant_scale, quant_offset)
        y = Result((*x.shape[:-1], x.size(-1) // 2), destination.storage)
        return DequantSwigluPlan((y, Result(tuple(x.shape[:-1]), torch.float32)), destination)
    rules.rank("x", x, 2, 2 if grouped else 8)
    rules.dtype("x", x, (torch.int32, torch.bfloat16) if grouped else (torch.int32, torch.float16, torch.bfloat16))
    rules.require(x.size(-1) % 2 == 0, lambda: f"x.size(-1) must be even, got {x.size(-1)}")
    rules.at_least("x.size(-1)", x.size(-1), 2)
    rules.require(quant_mode in (0, 1), lambda: f"quant_mode must be 0 or 1, got {quant_mode}")
    _check_gate(rules, grouped, swiglu_mode, clamp_limit, glu_alpha, glu_bias)
    rules.require(dst_type is None or find(dst_type) is INT8, lambda: f"dst_type must be None or int8, got {dst_type}")
    rules.require(not round_mode, lambda: f"round_mode must be None or 0, got {round_mode}")
    last = activate_dim in (None, -1, x.dim() - 1)
    rules.require(last, lambda: f"activate_dim must be None or the last dimension of x, got {activate_dim}")
    if group_index is not None:
        _check_groups(rules, x, group_index, bias, swiglu_mode, quant_mode)
    call = _Call(rules, x, grouped, 1 if group_index is None else group_index.size(0), quant_mode == 1)
    call.check_dequant(weight_scale, activation_scale, bias)
    call.check_quant(quant_scale, quant_offset)
    shape = (*x.shape[:-1], x.size(-1) // 2)
    return DequantSwigluPlan((Result(shape, torch.int8), Result(tuple(x.shape[:-1]), torch.float32)), INT8)


def _check_950(
    rules: Rules,
    x: Tensor,
    group_index: Tensor | None,
    dst_type: int | None,
    round_mode: int | None,
    activate_dim: int | None,
    quant_mode: int,
    gate: tuple[int, float, float, float],
) -> Destination:
    """Check all but the parameters, and return what the result is quantised to."""
    rules.rank("x", x, 2, 2 if group_index is not None else 8)
    rules.dtype("x", x, (torch.int32, torch.float16, torch.bfloat16))
    rules.not_empty("x", x)
    rules.require(x.size(-1) % 2 == 0, lambda: f"x.size(-1) must be even, got {x.size(-1)}")
    rules.require(quant_mode in (0, 1), lambda: f"quant_mode must be 0 or 1, got {quant_mode}")
    rules.one_of("swiglu_mode", gate[0], (0, 1))
    _check_gate(rules, True, *gate)
    destination = rules.destination("dst_type", dst_type, (INT8, *NARROW))
    mode = 1 if destination is HIFLOAT8 else 0
    rules.one_of("round_mode", round_mode or 0, (mode,), f" for {destination.name}")
    if activate_dim not in (None, -1, x.dim() - 1):
        raise UndescribedError(f"{rules.op}: activate_dim {activate_dim} is not described for Ascend 950 yet")
    if group_index is not None:
        rules.dtype("group_index", group_index, (torch.int64, torch.int32))
        rules.rank("group_index", group_index, 1, 2)
        rules.at_least("group_index.size(0)", group_index.size(0), 1)
        if group_index.dim() == 2:
            rules.equal("group_index.size(1)", group_index.size(1), "2", 2)
    return destination


def _check_gate(rules: Rules, grouped: bool, mode: int, limit: float, alpha: float, bias: float) -> None:
    rules.require(mode in (0, 1, 2), lambda: f"swiglu_mode must be 0, 1 or 2, got {mode}")
    # Without groups the kernel ignores swiglu_mode.
    rules.require(grouped or mode == 0, lambda: f"swiglu_mode must be 0 without group_index, got {mode}")
    positive = math.isfinite(limit) and limit > 0
    rules.require(positive, lambda: f"clamp_limit must be finite and positive, got {limit}")
    for name, value in (("glu_alpha", alpha), ("glu_bias", bias)):
        if not math.isfinite(value):
            rules.refuse(f"{name} must be finite, got {value}")


def _check_groups(
    rules: Rules, x: Tensor, group_index: Tensor, bias: Tensor | None, mode: int, quant_mode: int
) -> None:
    rules.dtype("group_index", group_index, (torch.int64,))
    rules.rank("group_index", group_index, 1, 2)
    rules.at_least("group_index.size(0)", group_index.size(0), 1)
    if group_index.dim() == 2:
        rules.equal("group_index.size(1)", group_index.size(1), "2", 2)
        plain = x.dtype == torch.int32 and bias is None and mode == 0
        rules.require(
            plain, lambda: "group_index must have 1 dimension but for int32 x, no bias and swiglu_mode 0, got 2"
        )
    width = x.size(-1)
    rules.require(
        width % _ALIGNED == 0, lambda: f"x.size(-1) must be a multiple of {_ALIGNED} with groups, got {width}"
    )
    column = 37 + (0 if bias is None else 8) + (5 if mode == 1 else 0) + (0 if quant_mode else 4)
    widest = _ROOM // column // 32 * 32 * 2
    rules.require(width <= widest, lambda: f"x.size(-1) must be at most {widest} with groups, got {width}")


@dataclass(frozen=True)
class _Call:
    rules: Rules
    x: Tensor
    grouped: bool
    groups: Size
    dynamic: bool

    def check_dequant(self, weight_scale: Tensor | None, activation_scale: Tensor | None, bias: Tensor | None) -> None:
        """Check the parameters that dequantise int32 x; half precision takes none but an ignored weight_scale."""
        rules, width = self.rules, self.x.size(-1)
        if self.x.dtype != torch.int32:
            for name, value in (("activation_scale", activation_scale), ("bias", bias)):
                if value is not None:
                    rules.refuse(f"{name} must be None for {self.x.dtype} x, got a tensor")
            return
        if weight_scale is None:
            rules.refuse("weight_scale must be given for int32 x, got None")
        rules.dtype("weight_scale", weight_scale, (torch.float32,))
        self._check_rows("weight_scale", weight_scale, width)
        if activation_scale is not None:
            rules.dtype("activation_scale", activation_scale, (torch.float32,))
            rows = self.x.numel() // width
            rules.equal("activation_scale.numel()", activation_scale.numel(), "the rows of x", rows)
        if bias is not None:
            rules.dtype("bias", bias, _BIASES)
            self._check_rows("bias", bias, width)

    def check_quant(self, scale: Tensor | None, offset: Tensor | None) -> None:
        """Check the scale and offset: dynamic takes a scale of (groups, H) or none, static both of 1 or H per group."""
        rules, half = self.rules, self.x.size(-1) // 2
        static = not self.dynamic
        rules.require(offset is None or static, lambda: "quant_offset must be None for quant_mode 1, got a tensor")
        if scale is None:
            rules.require(
                not (static and self.grouped), lambda: "quant_scale must be given for quant_mode 0 and groups, got None"
            )
            rules.require(offset is None, lambda: "quant_offset must be None without quant_scale, got a tensor")
            return
        allowed = FLOATS if self.grouped else (torch.float32,)
        rules.dtype("quant_scale", scale, allowed)
        if static:
            if offset is None:
                rules.refuse("quant_offset must be given with quant_scale for quant_mode 0, got None")
            rules.dtype("quant_offset", offset, (scale.dtype,), ", the dtype of quant_scale")
            rules.require(
                scale.dim() == offset.dim() or not self.grouped,
                lambda: (
                    f"quant_offset must have as many dimensions as quant_scale, got {offset.dim()} and {scale.dim()}"
                ),
            )
            rules.equal("quant_offset.numel()", offset.numel(), "quant_scale.numel()", scale.numel())
        if not self.grouped:
            rules.one_or("quant_scale.numel()", scale.numel(), "H", half)
        elif static and scale.dim() == 1:
            rules.equal("quant_scale.size(0)", scale.size(0), "the groups", self.groups)
        else:
            self._check_rows("quant_scale", scale, half, least=2 if static else 1)

    def check_quant_950(self, weight_scale: Tensor | None, scale: Tensor | None, offset: Tensor | None) -> None:
        """Check the scale and offset of Ascend 950: dynamic takes a scale of H per group, static both of 1 or H."""
        rules, half = self.rules, self.x.size(-1) // 2
        if self.x.dtype != torch.int32 and weight_scale is not None:
            rules.refuse(f"weight_scale must be None for {self.x.dtype} x, got a tensor")
        rules.require(
            offset is None or not self.dynamic, lambda: "quant_offset must be None for quant_mode 1, got a tensor"
        )
        rules.require(scale is not None or self.dynamic, lambda: "quant_scale must be given for quant_mode 0, got None")
        for name, tensor in (("quant_scale", scale), ("quant_offset", offset)):
            if tensor is not None:
                self._check_parameter_950(name, tensor, half)
        if scale is not None and offset is not None:
            rules.equal("quant_offset.numel()", offset.numel(), "quant_scale.numel()", scale.numel())

    def _check_parameter_950(self, name: str, tensor: Tensor, half: Size) -> None:
        rules = self.rules
        rules.dtype(name, tensor, (torch.float32,))
        rules.rank(name, tensor, 1 if not (self.grouped and self.dynamic) else 2, 2)
        if self.grouped or tensor.dim() == 2:
            rules.equal(f"{name}.size(0)", tensor.size(0), "the groups", self.groups)
        if tensor.dim() == 2 or not self.grouped:
            check = rules.equal if self.dynamic else rules.one_or
            check(f"{name}.size(-1)", tensor.size(-1), "H", half)

    def _check_rows(self, name: str, tensor: Tensor, width: Size, least: int = 1) -> None:
        """Check for a row per group or, without groups, ``width`` elements."""
        if not self.grouped:
            self.rules.equal(f"{name}.numel()", tensor.numel(), "its columns", width)
            return
        self.rules.rank(name, tensor, least, 2)
        self.rules.equal(f"{name}.size(-1)", tensor.size(-1), "its columns", width)
        rows: Size = tensor.size(0) if tensor.dim() == 2 else 1
        self.rules.equal(
            f"{name}.size(0)" if tensor.dim() == 2 else f"the rows of {name}", rows, "the groups", self.groups
        )
