"""The parameters of npu_grouped_matmul: bias, scales and offsets, one for each weight.

With one weight (E, k, n) they are one tensor that starts with E, with several weights one tensor for each.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from graph_quant.chip import ASCEND_950
from graph_quant.meta.matmul.grouped_dtypes import bias_dtypes, bias_dtypes_950, scale_dtypes
from graph_quant.meta.matmul.grouped_layout import GroupedLayout
from graph_quant.meta.rules import Rules, Size, sym_or
from graph_quant.reference.matmul.grouped_matmul import nonempty
from graph_quant.reference.matmul.grouped_products import A4W4, A8W4, A8W8, ANTIQUANT
from torch import Tensor

Tensors = Sequence[Tensor]
_DEEPEST_SPLIT, _SPLIT_UNIT = 18432, 64
_GROUP_LENGTHS_950 = (32, 64, 128, 256)


class Parameters:
    """Checks the parameter lists of one call."""

    def __init__(self, rules: Rules, form: str, layout: GroupedLayout, weights: Tensors, output: torch.dtype) -> None:
        self.rules, self.form, self.layout, self.output = rules, form, layout, output
        self.weights = weights
        self.lead: tuple[Size, ...] = (weights[0].size(0),) if layout.one_weight else ()

    def _one_per_weight(self, name: str, tensors: Tensors) -> None:
        self.rules.require(
            len(tensors) == len(self.weights),
            lambda: f"{name} must have as many tensors as weight, got {len(tensors)} and {len(self.weights)}",
        )

    def absent(self, **lists: Tensors | None) -> None:
        """Require that none of ``lists`` is passed, because the form takes none of them."""
        for name, tensors in lists.items():
            if nonempty(tensors):
                self.rules.refuse(f"{name} must be None for {self.weights[0].dtype} weights and {self.output} results")

    def bias(self, bias: Tensors, x: Tensor, has_tokens: bool) -> None:
        """(n,) for each weight, or (E, n)."""
        if not bias:
            self.rules.require(self.form != A8W4, lambda: "bias must be given for int8 x and int4 weights, got None")
            return
        is_950 = self.rules.chip is ASCEND_950
        allowed = bias_dtypes_950(self.form, x) if is_950 else bias_dtypes(self.form, x, self.output, has_tokens)
        self.rules.require(bool(allowed), lambda: "bias must be None for int4 x")
        self._one_per_weight("bias", bias)
        for index, (tensor, width) in enumerate(zip(bias, self.layout.widths, strict=True)):
            self.rules.dtype(f"bias[{index}]", tensor, allowed, f" for {self.output} results")
            self.rules.shape(f"bias[{index}]", tensor, (*self.lead, width))

    def scale(self, scale: Tensors, has_tokens: bool) -> None:
        """(n,) for each weight, or (E, n); with int4 weights also (E, G, n), a row for each of G groups of k."""
        allowed = scale_dtypes(self.form, self.output, has_tokens)
        if not allowed:
            self.absent(scale=scale)
            return
        self.rules.require(bool(scale), lambda: f"scale must be given for {self.output} results, got None")
        self._one_per_weight("scale", scale)
        for index, (tensor, width) in enumerate(zip(scale, self.layout.widths, strict=True)):
            self.rules.dtype(f"scale[{index}]", tensor, allowed, f" for {self.output} results")
            if self.form == A8W8:
                self.rules.shape(f"scale[{index}]", tensor, (*self.lead, width))
            else:
                self._check_groups(tensor, width)

    def _check_groups(self, scale: Tensor, width: Size) -> None:
        depth, a8w4 = self.layout.depths[0], self.form == A8W4
        self.rules.rank("scale[0]", scale, 3 if a8w4 else 2, 3)
        groups = scale.size(1) if scale.dim() == 3 else 1
        self.rules.shape("scale[0]", scale, (*self.lead, *((groups,) if scale.dim() == 3 else ()), width))
        self._divides("scale[0].size(1)", groups, depth)
        if a8w4:
            self.rules.require(
                depth % _SPLIT_UNIT == 0, lambda: f"k must be a multiple of {_SPLIT_UNIT} for int4 weights, got {depth}"
            )
            self.rules.require(
                depth <= _DEEPEST_SPLIT, lambda: f"k must be at most {_DEEPEST_SPLIT} for int4 weights, got {depth}"
            )
        elif scale.dim() == 3:
            self.rules.require(
                (depth // groups) % 2 == 0, lambda: f"k / scale[0].size(1) must be even, got {depth} / {groups}"
            )

    def _divides(self, name: str, parts: Size, depth: Size) -> None:
        self.rules.at_least(name, parts, 1)
        self.rules.require(
            depth % parts == 0,  # type: ignore[operator]
            lambda: f"{name} must divide k, got {parts} and {depth}",
        )

    def tokens(self, tokens: Tensors, x: Tensors, with_offset: bool) -> bool:
        """Whether there are per-token scales: (m,), with int4 weights also (m, 1), which an offset requires."""
        if not tokens:
            self.rules.require(
                self.form != A8W4, lambda: "per_token_scale must be given for int8 x and int4 weights, got None"
            )
            return False
        if self.form not in (A8W8, A8W4, A4W4) or self.output not in (torch.float16, torch.bfloat16):
            self.absent(per_token_scale=tokens)
        one = len(tokens) == len(x) == len(self.layout.shapes) == 1
        self.rules.require(
            one, lambda: f"per_token_scale and x must be one tensor each, got {len(tokens)} and {len(x)}"
        )
        self.rules.dtype("per_token_scale[0]", tokens[0], (torch.float32,))
        column = with_offset or (self.form == A8W4 and tokens[0].dim() == 2)
        self.rules.shape("per_token_scale[0]", tokens[0], (x[0].size(0), 1) if column else (x[0].size(0),))
        return True

    def offset(self, offset: Tensors, scale: Tensors) -> None:
        """(E, 1, n) for int8 x, int4 weights and float16 results, with scales of the same shape."""
        if not offset:
            return
        if self.form != A8W4 or self.output != torch.float16:
            self.absent(offset=offset)
        self._one_per_weight("offset", offset)
        self.rules.dtype("offset[0]", offset[0], (torch.float32,))
        for name, tensor in (("offset[0]", offset[0]), ("scale[0]", scale[0])):
            self.rules.shape(name, tensor, (*self.lead, 1, self.layout.widths[0]))

    def antiquant(self, scale: Tensors, offset: Tensors, x: Tensor) -> None:
        """(n,) for each weight, or (E, n); with int4 weights also (G, n) or (E, G, n), alike for all weights."""
        if self.form != ANTIQUANT:
            self.absent(antiquant_scale=scale, antiquant_offset=offset)
            return
        int4 = self.weights[0].dtype == torch.int32
        self.rules.require(bool(scale), lambda: "antiquant_scale must be given for integer weights, got None")
        if not (int4 and self.layout.one_weight) and self.rules.chip is not ASCEND_950:
            self.rules.require(
                bool(offset), lambda: "antiquant_offset must be given, but for one int4 weight, got None"
            )
        for name, tensors in (("antiquant_scale", scale), ("antiquant_offset", offset)):
            if tensors:
                self._one_per_weight(name, tensors)
            for index, (tensor, width) in enumerate(zip(tensors, self.layout.widths, strict=bool(tensors))):
                where = f"{name}[{index}]"
                self.rules.dtype(where, tensor, (x.dtype,), ", the dtype of x")
                self.rules.rank(where, tensor, len(self.lead) + 1, len(self.lead) + (2 if int4 else 1))
                grouped = tensor.dim() > len(self.lead) + 1
                self.rules.shape(where, tensor, (*self.lead, *((tensor.size(-2),) if grouped else ()), width))
                self._check_same_groups(where, tensor, scale[index], scale[0], index)

    def _check_same_groups(self, where: str, tensor: Tensor, scale: Tensor, first: Tensor, index: int) -> None:
        """Require that all parameters divide k into groups of the same length."""
        for name, other in (("antiquant_scale[0]", first), (f"antiquant_scale[{index}]", scale)):
            if tensor.dim() != other.dim():
                self.rules.refuse(
                    f"{where} must have as many dimensions as {name}, got {tensor.dim()} and {other.dim()}"
                )
        if tensor.dim() == len(self.lead) + 1:
            return
        self.rules.equal(f"{where}.size(-2)", tensor.size(-2), f"antiquant_scale[{index}].size(-2)", scale.size(-2))
        depth = self.layout.depths[index]
        self._divides(f"{where}.size(-2)", tensor.size(-2), depth)
        length = depth // tensor.size(-2)
        self.rules.equal(
            f"k / {where}.size(-2)", length, "that of antiquant_scale[0]", self.layout.depths[0] // first.size(-2)
        )
        if self.rules.chip is ASCEND_950:
            self._check_group_length(length)
        if self.layout.packed_along_k:
            self.rules.require(
                length % 2 == 0, lambda: f"k / {where}.size(-2) must be even for weights packed along k, got {length}"
            )

    def _check_group_length(self, length: Size) -> None:
        self.rules.require(
            sym_or(*(length == known for known in _GROUP_LENGTHS_950)),
            lambda: f"k / antiquant_scale[0].size(-2) must be 32, 64, 128 or 256 on Ascend 950, got {length}",
        )
