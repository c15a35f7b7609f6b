"""npu_grouped_matmul on Ascend 950, quantised: what may be passed, and what comes back.

x (m, k) and weight (E, k, n), or for group_type 2 a transposed view (m, k) and (k, n), are one tensor each: both int8,
both float8 (e4m3 and e5m2 may be mixed), both HiFloat8 (x_dtype and weight_dtype 290), or both float4 (296), two to a
byte: along k of x, along n of the weight, or, in a transposed view, along k.

====== ======================= ================== ================================ ==============================
form   scale                   per_token_scale    bias (E, n)                      results
====== ======================= ================== ================================ ==============================
int8   packed (E, n)           none               int32                            int8, float16, bfloat16
int8   packed (E,) or (E, 1)   none               int32                            float16, bfloat16
int8   none or packed          none               int32                            int32
int8   float32: (E,), (E, 1)   none or            int32, float32, that of the      float16, bfloat16
       or (E, n)               float32 (m,)       result
int8   bfloat16                the same           the same                         bfloat16
float8 packed: (E,), (E, 1)    none               none                             float16, bfloat16, float32
       or (E, n)
float8 float32                 none, float32      none                             float16, bfloat16, float32
                               (E,), (E, 1), (m,)
float8 float32 (E, ceil(k/128),float32            none                             float16, bfloat16, float32
       ceil(n/128))            (m, ceil(k/128))
MX     (E, ceil(k/64), n, 2)   (m, ceil(k/64), 2) float32, of float4 alone         float16, bfloat16, float32
====== ======================= ================== ================================ ==============================

float8 stands for HiFloat8 too, except in MX. With group_type 2, for float8 and HiFloat8: packed scales are refused,
scales for tokens are (E, m), for blocks (k // 128 + E, ceil(n/128)) and (m, k // 128 + E), and for MX
(k // 64 + E, n, 2) and (m, k // 64 + E, 2); scales of x are transposed views as x is. A scale that may be both of
tensors and of blocks is of blocks. Activations are for int8 with float scales (E, n) and float results.

In FRACTAL_NZ, neither k nor n may be 1, and results are not int8; the weight is int8, or, with MX scales,
float8_e4m3fn or float4. S8S4, S4S4 and float8 rows of float4 weights are not described yet.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from graph_quant.destination import SCALAR_TYPES, describe
from graph_quant.meta.matmul.grouped_layout import check_group_list
from graph_quant.meta.matmul.quant_matmul_950 import describe_operand, is_codes
from graph_quant.meta.matmul.shapes import is_transposed
from graph_quant.meta.operator import Result
from graph_quant.meta.rules import ND, NZ, Rules, Size, guard_or_false, sym_or
from graph_quant.narrow_floats import E2M1, E4M3
from graph_quant.reference.matmul.grouped_matmul import nonempty
from graph_quant.reference.matmul.grouped_narrow import COLUMNS, MX_PAIR, ROWS, GroupedForm
from graph_quant.reference.matmul.narrow_products import HIFLOAT8
from graph_quant.reference.matmul.quant_matmul_950 import INT4, INT8, K_BLOCK, N_BLOCK
from graph_quant.refusals import UndescribedError
from torch import Tensor

Tensors = Sequence[Tensor]
HALVES = (torch.float16, torch.bfloat16)
_FLOAT_RESULTS = (*HALVES, torch.float32)
_MOST_GROUPS, _PAIRS, _SPARSE = 1024, 2, 2
_PACKED = (torch.int64, torch.uint64)


def is_quantised(x: Tensors, weight: Tensors) -> bool:
    """Whether a call is of elements of eight bits or less on both sides."""
    return (
        bool(x) and bool(weight) and all(tensor[0].element_size() == 1 or _is_int4(tensor[0]) for tensor in (x, weight))
    )


def _is_int4(tensor: Tensor) -> bool:
    return tensor.dtype == torch.int32


class QuantisedCall:
    """Checks one call; the tensors of lists are those of x and weight, one each."""

    def __init__(
        self, rules: Rules, x: Tensors, weight: Tensors, group_type: int, x_dtype: int | None, weight_dtype: int | None
    ) -> None:
        self.rules, self.group_type = rules, group_type
        self.x_name = self._name("x", x[0], x_dtype)
        self.weight_name = self._name("weight", weight[0], weight_dtype)
        self._check_pair()
        rules.one_of("group_type", group_type, (ROWS, COLUMNS), f" for {self.x_name} x and weights")
        rules.require(
            len(x) == len(weight) == 1,
            lambda: f"x and weight must be one tensor each for {self.x_name}, got {len(x)} and {len(weight)}",
        )
        self.x, self.weight = x[0], weight[0]
        why = f" for group_type {group_type}"
        rules.rank("x[0]", self.x, 2, why=why)
        rules.rank("weight[0]", self.weight, 3 if group_type == ROWS else 2, why=why)
        self.weight_is_view = not self._is_one(self.weight) and self._is_view(self.weight)
        self._check_orders()
        fours = self.x_name == E2M1.name
        self.m = self.x.size(0)
        self.k = self.x.size(1) * (_PAIRS if fours else 1)
        along_k = fours and self.weight_is_view
        depth = self.weight.size(-2) * (_PAIRS if along_k else 1)
        self.n = self.weight.size(-1) * (_PAIRS if fours and not along_k else 1)
        rules.equal("k of weight[0]", depth, "k of x[0]", self.k)
        rules.at_least("k", self.k, 3 if fours else 1)
        self.form = GroupedForm(self.x_name, self.weight_name, along_k)

    def _name(self, argument: str, tensor: Tensor, requested: int | None) -> str:
        name = describe_operand(self.rules, argument, tensor, requested)
        self.rules.require(
            requested is None or name in (HIFLOAT8, E2M1.name),
            lambda: f"{argument}_dtype must be torch_npu.hifloat8, torch_npu.float4_e2m1fn_x2 or None, got {requested}",
        )
        return name

    def _check_pair(self) -> None:
        one, other = self.x_name, self.weight_name
        is_float8 = one.startswith("float8")
        if (one, other) in ((INT8, INT4), (INT4, INT4), (E4M3.name, E2M1.name)):
            raise UndescribedError(f"{self.rules.op}: {one} x with {other} weights is not described for Ascend 950 yet")
        self.rules.require(
            other == one or (is_float8 and other.startswith("float8")),
            lambda: f"weight must be {'float8' if is_float8 else one} as x is, got {other}",
        )

    @staticmethod
    def _is_one(tensor: Tensor) -> bool:
        return guard_or_false(tensor.size(-1) == 1) and guard_or_false(tensor.size(-2) == 1)

    @staticmethod
    def _is_view(weight: Tensor) -> bool:
        whole = weight.dim() == 2 or guard_or_false(weight.stride(0) == weight.size(1) * weight.size(2))
        return is_transposed(weight) and whole

    def _check_orders(self) -> None:
        """Require that x is a transposed view exactly where its columns are divided, and the weight is none there."""
        x_is_view = is_transposed(self.x) and not self._is_one(self.x)
        strides = list(self.x.stride())
        if self.group_type == ROWS:
            self.rules.require(
                not x_is_view, lambda: f"x[0] must not be a transposed view for group_type 0, got strides {strides}"
            )
            return
        if self.x_name in (INT8, E2M1.name):
            self.rules.refuse(f"group_type must be 0 for {self.x_name} x and weights, got {self.group_type}")
        self.rules.require(
            is_transposed(self.x), lambda: f"x[0] must be a transposed view for group_type 2, got strides {strides}"
        )
        if self.weight_is_view:
            self.rules.refuse("weight[0] must not be a transposed view for group_type 2")

    def check_groups(self, group_list: Tensor | None, kind: int) -> Size:
        """The number of groups."""
        self.rules.one_of("group_list_type", kind, (0, 1, 2) if self.group_type == ROWS else (0, 1))
        groups = self.weight.size(0) if self.group_type == ROWS else None
        check_group_list(self.rules, group_list, kind, groups, _MOST_GROUPS, required=True)
        assert group_list is not None
        return group_list.size(0)

    def check_format(self, output: torch.dtype, is_mx: bool) -> None:
        """Check a weight in FRACTAL_NZ."""
        self.rules.format("x[0]", self.x, ND)
        if self.rules.format("weight[0]", self.weight, ND, NZ) is not NZ:
            return
        taken = self.x_name == INT8 or (is_mx and {self.x_name, self.weight_name} in ({E4M3.name}, {E2M1.name}))
        self.rules.require(
            taken,
            lambda: (
                "weight[0] must be int8, or float8_e4m3fn or float4 with MX scales, where it is in FRACTAL_NZ, "
                f"got {self.weight_name}"
            ),
        )
        self.rules.require(self.group_type == ROWS, lambda: "weight must be in ND for group_type 2, got FRACTAL_NZ")
        self.rules.require(
            output != torch.int8, lambda: "output_dtype must not be int8 where weight[0] is in FRACTAL_NZ"
        )
        for name, size in (("k", self.k), ("n", self.n)):
            self.rules.require(size != 1, lambda: f"{name} must not be 1 where weight[0] is in FRACTAL_NZ, got 1")  # noqa: B023

    def find_output(self, requested: int | torch.dtype | None) -> torch.dtype:
        """The dtype of the results."""
        allowed = (torch.int8, torch.int32, *HALVES) if self.x_name == INT8 else _FLOAT_RESULTS
        if requested is None:
            output = self.x.dtype
        else:
            output = SCALAR_TYPES.get(requested) if isinstance(requested, int) else requested  # type: ignore[assignment]
        self.rules.require(
            output in allowed,
            lambda: (
                f"output_dtype must be {', '.join(map(str, allowed))} for {self.x_name} x, got {describe(requested)}"
            ),
        )
        return output

    def results(self, groups: Size, output: torch.dtype) -> tuple[Result, ...]:
        """One result."""
        shape = (self.m, self.n) if self.group_type == ROWS else (groups, self.m, self.n)
        return (Result(shape, output),)

    def check_scales(
        self,
        groups: Size,
        scale: Tensor | None,
        tokens: Tensor | None,
        bias: Tensor | None,
        output: torch.dtype,
        codes: Sequence[bool],
    ) -> None:
        """Check scales and bias; ``codes`` says of scale and per_token_scale whether they are float8_e8m0fnu."""
        is_mx = all(codes)
        self.rules.require(
            is_mx or not any(codes),
            lambda: f"scale and per_token_scale must both be float8_e8m0fnu or both not, got {list(codes)}",
        )
        if is_mx or self.x_name == E2M1.name:
            self._check_mx(groups, scale, tokens, bias, is_mx)
        elif self.x_name == INT8:
            self._check_integers(groups, scale, tokens, bias, output)
        else:
            self._check_floats(groups, scale, tokens, bias)

    def _check_mx(
        self, groups: Size, scale: Tensor | None, tokens: Tensor | None, bias: Tensor | None, is_mx: bool
    ) -> None:
        rules = self.rules
        if scale is None or tokens is None or not is_mx:
            rules.refuse(
                f"scale and per_token_scale must be float8_e8m0fnu for {self.x_name} x, got {_dtype_of(scale)}"
            )
        if self.x_name in (INT8, HIFLOAT8):
            rules.refuse(f"x[0] must be float8 or float4 for scales of float8_e8m0fnu, got {self.x_name}")
        if self.group_type == ROWS:
            pairs = _ceil(self.k, MX_PAIR)
            rules.shape("scale[0]", scale, (groups, pairs, self.n, 2), ("E", "ceil(k/64)", "n", "2"))
            rules.shape("per_token_scale[0]", tokens, (self.m, pairs, 2), ("m", "ceil(k/64)", "2"))
        else:
            pairs = self.k // MX_PAIR + groups
            rules.shape("scale[0]", scale, (pairs, self.n, 2), ("k // 64 + E", "n", "2"))
            rules.shape("per_token_scale[0]", tokens, (self.m, pairs, 2), ("m", "k // 64 + E", "2"))
        self.check_view("scale[0]", scale, "weight[0]", self.weight_is_view, 3)
        self.check_view("per_token_scale[0]", tokens, "x[0]", self.group_type == COLUMNS, 3)
        if bias is not None:
            if self.x_name != E2M1.name:
                rules.refuse(f"bias must be None for {self.x_name} x, got {list(bias.shape)}")
            rules.dtype("bias[0]", bias, (torch.float32,), " for MX operands")
            rules.shape("bias[0]", bias, (groups, self.n), ("E", "n"))

    def check_view(self, name: str, scale: Tensor, of: str, is_view: bool, inner: int) -> None:
        """Require that scales of blocks are a transposed view where their operand is one, in an eager call."""
        first = scale.dim() - inner
        if not self.rules.is_eager or scale.shape[first : first + 2] == (1, 1):
            return
        unit = scale.shape[first + 2 :].numel()
        scale_is_view = scale.stride(first) == unit and scale.stride(first + 1) == scale.size(first) * unit
        self.rules.require(
            scale_is_view == is_view,
            lambda: f"{name} must be a transposed view exactly where {of} is, got strides {list(scale.stride())}",
        )

    def _check_vector(self, groups: Size, scale: Tensor, packed_to_int8: bool = False) -> None:
        """(E,), (E, 1) or (E, n)."""
        self.rules.rank("scale[0]", scale, 2 if packed_to_int8 else 1, 2)
        self.rules.equal("scale[0].size(0)", scale.size(0), "the number of groups", groups)
        if packed_to_int8:
            self.rules.equal("scale[0].size(1)", scale.size(1), "n", self.n)
        elif scale.dim() == 2:
            self.rules.one_or("scale[0].size(1)", scale.size(1), "n", self.n)

    def _check_integers(
        self, groups: Size, scale: Tensor | None, tokens: Tensor | None, bias: Tensor | None, output: torch.dtype
    ) -> None:
        rules = self.rules
        why = f" for int8 x and {output} results"
        if scale is None:
            rules.require(output == torch.int32, lambda: f"scale must be given{why}, got None")
        elif output in HALVES:
            floats = (torch.float32, torch.bfloat16) if output == torch.bfloat16 else (torch.float32,)
            rules.dtype("scale[0]", scale, floats if tokens is not None else (*_PACKED, *floats), why)
            self._check_vector(groups, scale)
        else:
            rules.dtype("scale[0]", scale, _PACKED, why)
            if output == torch.int8:
                self._check_vector(groups, scale, packed_to_int8=True)
        if tokens is not None:
            rules.require(output in HALVES, lambda: f"per_token_scale must be None{why}")
            rules.dtype("per_token_scale[0]", tokens, (torch.float32,))
            rules.shape("per_token_scale[0]", tokens, (self.m,), ("m",))
        if bias is not None:
            is_float = output in HALVES and scale is not None and scale.dtype not in _PACKED
            allowed = (torch.int32, torch.float32, output) if is_float else (torch.int32,)
            rules.dtype("bias[0]", bias, allowed, f" for scale {_dtype_of(scale)} and {output} results")
            rules.shape("bias[0]", bias, (groups, self.n), ("E", "n"))

    def _check_floats(self, groups: Size, scale: Tensor | None, tokens: Tensor | None, bias: Tensor | None) -> None:
        rules = self.rules
        if bias is not None:
            rules.refuse(f"bias must be None for {self.x_name} x, got {list(bias.shape)}")
        if scale is None:
            rules.refuse(f"scale must be given for {self.x_name} x, got None")
        allowed = (*_PACKED, torch.float32) if tokens is None and self.group_type == ROWS else (torch.float32,)
        tokens_given = "without" if tokens is None else "with"
        rules.dtype("scale[0]", scale, allowed, f" {tokens_given} per_token_scale for group_type {self.group_type}")
        if tokens is not None:
            rules.dtype("per_token_scale[0]", tokens, (torch.float32,))
            if self._is_of_blocks(groups, scale, tokens):
                self._check_blocks(groups, scale, tokens)
                return
        self._check_vector(groups, scale)
        if tokens is None:
            return
        name = "per_token_scale[0]"
        rules.rank(name, tokens, 1, 2)
        if self.group_type == COLUMNS:
            rules.equal(f"{name}.size(0)", tokens.size(0), "the number of groups", groups)
            if tokens.dim() == 2:
                rules.one_or(f"{name}.size(1)", tokens.size(1), "m", self.m)
        elif tokens.dim() == 2:
            rules.shape(name, tokens, (groups, 1), ("the number of groups", "1"))
        else:
            size = tokens.size(0)
            rules.require(
                sym_or(size == self.m, size == groups),
                lambda: f"{name}.size(0) must be m or the number of groups, {self.m} or {groups}, got {size}",
            )

    def _is_of_blocks(self, groups: Size, scale: Tensor, tokens: Tensor) -> bool:
        if self.group_type == ROWS:
            return scale.dim() == 3
        if scale.dim() != 2 or tokens.dim() != 2:
            return False
        blocks = self.k // K_BLOCK + groups
        of_weight = guard_or_false(scale.size(0) == blocks) and guard_or_false(scale.size(1) == _ceil(self.n, N_BLOCK))
        as_view = guard_or_false(tokens.size(0) == self.m) and guard_or_false(tokens.size(1) == blocks)
        as_rows = guard_or_false(tokens.size(0) == blocks) and guard_or_false(tokens.size(1) == self.m)
        if of_weight and as_view and as_rows and not is_transposed(tokens):
            raise UndescribedError(
                f"{self.rules.op}: per_token_scale of {list(tokens.shape)}, which may be of rows and of blocks, is not "
                "described for Ascend 950 yet"
            )
        return of_weight and (as_view or as_rows)

    def _check_blocks(self, groups: Size, scale: Tensor, tokens: Tensor) -> None:
        rules = self.rules
        if self.group_type == ROWS:
            blocks = _ceil(self.k, K_BLOCK)
            names = ("E", "ceil(k/128)", "ceil(n/128)")
            rules.shape("scale[0]", scale, (groups, blocks, _ceil(self.n, N_BLOCK)), names)
            rules.shape("per_token_scale[0]", tokens, (self.m, blocks), ("m", "ceil(k/128)"))
        self.check_view("scale[0]", scale, "weight[0]", self.weight_is_view, 2)
        if self.group_type == ROWS or guard_or_false(tokens.size(0) == self.m):
            self.check_view("per_token_scale[0]", tokens, "x[0]", self.group_type == COLUMNS, 2)

    def check_activation(self, activation: int, scale: Tensor | None, output: torch.dtype) -> None:
        """Activations are for int8 with scales (E, n)."""
        rules = self.rules
        rules.one_of("act_type", activation, (0, 1, 2, 4, 5))
        if activation == 0:
            return
        is_wide = self.x_name == INT8 and output in HALVES and scale is not None and scale.dtype not in _PACKED
        if scale is None or not is_wide or scale.dim() != 2:
            rules.refuse(
                f"act_type must be 0 but for int8 x with float scales (E, n) and float results, got {activation}"
            )
        rules.equal("scale[0].size(1)", scale.size(1), "n", self.n)


def _ceil(size: Size, of: int) -> Size:
    return (size + of - 1) // of


def _dtype_of(tensor: Tensor | None) -> str:
    return "None" if tensor is None else str(tensor.dtype)


def only(rules: Rules, name: str, tensors: Tensors | None) -> Tensor | None:
    """The tensor of a list of one, or None."""
    listed = nonempty(tensors)
    rules.require(len(listed) <= 1, lambda: f"{name} must be one tensor on Ascend 950, got {len(listed)}")
    return listed[0] if listed else None


def check_codes(
    rules: Rules, scale: Tensor | None, tokens: Tensor | None, scale_dtype: int | None, tokens_dtype: int | None
) -> tuple[bool, bool]:
    """Whether the scales hold codes of float8_e8m0fnu."""
    return (
        is_codes(rules, "scale", scale, scale_dtype),
        is_codes(rules, "per_token_scale", tokens, tokens_dtype),
    )
