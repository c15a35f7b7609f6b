"""npu_ffn: what may be passed, and what comes back.

x is (…, K1), weight1 (K1, N1) and weight2 (K2, K1); for E experts, at most 256, weights have a dimension E before
these and expert_tokens the rows of each, or expert_tokens_index where they end. N1 is K2, for gated activations twice
that.

========= ======== ======= ======= ==================================================================================
form      x        weights biases  parameters
========= ======== ======= ======= ==================================================================================
float     float16  float16 float16 none. Gated activations are of this form alone, fast and without experts
float     bfloat16 alike   float32 none; inner_precise is 0
antiquant float16  int8    float16 antiquant scales and offsets float16 (E, N)
antiquant bfloat16 int8    float32 antiquant scales and offsets bfloat16 (E, N)
quant     int8     int8    int32   scale (E,) or (E, N1) and offset (E,) float32; deq_scales (E, N) packed or, with
                                   scale (E,), float32 for float16 results, bfloat16 for bfloat16
========= ======== ======= ======= ==================================================================================

Without experts parameters lack the dimension E, and scale and offset of one number are (1,).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import ND, Rules, Size
from graph_quant.reference.matmul.ffn import ACTIVATIONS, FAST, GATES, PRECISE, QUANT, precision_of
from graph_quant.reference.matmul.ffn import ffn as reference
from graph_quant.reference.matmul.grouped_products import ANTIQUANT, FLOAT
from torch import Tensor

MOST_EXPERTS, LONGEST = 256, 65536
_FORMS = {
    (torch.float16, torch.float16): FLOAT,
    (torch.bfloat16, torch.bfloat16): FLOAT,
    (torch.float16, torch.int8): ANTIQUANT,
    (torch.bfloat16, torch.int8): ANTIQUANT,
    (torch.int8, torch.int8): QUANT,
}
_BIASES = {torch.float16: torch.float16, torch.bfloat16: torch.float32, torch.int8: torch.int32}


@dataclass(frozen=True)
class FfnPlan(Plan):
    """``tokens`` are the rows of each expert, ``precision`` how values between the products are rounded."""

    form: str
    tokens: tuple[int, ...] | None
    precision: int
    dtype: torch.dtype


@operator("npu_ffn", reference=reference)
def ffn(
    rules: Rules,
    x: Tensor,
    weight1: Tensor,
    weight2: Tensor,
    activation: str,
    expert_tokens: Sequence[int] | None,
    expert_tokens_index: Sequence[int] | None,
    bias1: Tensor | None,
    bias2: Tensor | None,
    scale: Tensor | None,
    offset: Tensor | None,
    deq_scale1: Tensor | None,
    deq_scale2: Tensor | None,
    antiquant_scale1: Tensor | None,
    antiquant_scale2: Tensor | None,
    antiquant_offset1: Tensor | None,
    antiquant_offset2: Tensor | None,
    inner_precise: int | None,
    output_dtype: torch.dtype | None,
) -> FfnPlan:
    """The plan of a call that the documents allow; any other call is refused."""
    rules.dtype("x", x, tuple(_BIASES))
    rules.rank("x", x, 2, 8)
    rules.dtype("weight1", weight1, (x.dtype, torch.int8), f" for x {x.dtype}")
    rules.dtype("weight2", weight2, (weight1.dtype,), ", the dtype of weight1")
    form = _FORMS[x.dtype, weight1.dtype]
    rules.one_of("activation", activation, (*ACTIVATIONS, *GATES))
    precise = inner_precise or 0
    rules.one_of("inner_precise", precise, (PRECISE, FAST))
    tokens = _tokens(rules, x, expert_tokens, expert_tokens_index)
    experts = None if tokens is None else len(tokens)
    _check_weights(rules, x, weight1, weight2, activation, experts)
    if form == FLOAT and x.dtype == torch.bfloat16:
        rules.require(precise == PRECISE, lambda: f"inner_precise must be 0 for torch.bfloat16, got {precise}")
    if activation in GATES:
        fast = form == FLOAT and x.dtype == torch.float16 and precise == FAST and tokens is None
        rules.require(
            fast,
            lambda: (
                f"activation must be {', '.join(ACTIVATIONS)} but for float16 with inner_precise 1 and no experts, "
                f"got {activation}"
            ),
        )
    dtype = _result(rules, form, x.dtype, output_dtype)
    check = _Parameters(
        rules, experts, weight1.size(-1), weight2.size(-1), f" for x {x.dtype} and weights {weight1.dtype}"
    )
    check.biases(_BIASES[x.dtype], bias1, bias2)
    check.quantised(form, dtype, scale, offset, deq_scale1, deq_scale2)
    restoring = {
        "antiquant_scale1": (antiquant_scale1, check.n1),
        "antiquant_scale2": (antiquant_scale2, check.n2),
        "antiquant_offset1": (antiquant_offset1, check.n1),
        "antiquant_offset2": (antiquant_offset2, check.n2),
    }
    for name, (tensor, size) in restoring.items():
        check.one(name, tensor, form == ANTIQUANT, (x.dtype,), (size,))
    for name, tensor in (("x", x), ("weight1", weight1), ("weight2", weight2)):
        rules.format(name, tensor, ND)
    result = Result((*x.shape[:-1], weight2.size(-1)), dtype)
    return FfnPlan((result,), form, tokens, precision_of(form, x.dtype, precise), dtype)


def _tokens(
    rules: Rules, x: Tensor, counts: Sequence[int] | None, ends: Sequence[int] | None
) -> tuple[int, ...] | None:
    rules.require(
        not (counts and ends), lambda: "expert_tokens and expert_tokens_index must not be given both, got both"
    )
    name, values = ("expert_tokens", counts) if counts else ("expert_tokens_index", ends)
    if not values:
        return None
    listed = list(values)
    tokens = listed if counts else [end - start for start, end in zip([0, *listed], listed, strict=False)]
    rules.require(len(listed) <= MOST_EXPERTS, lambda: f"{name} must have at most 256 elements, got {len(listed)}")
    rules.require(
        min(tokens) >= 0, lambda: f"{name} must not be negative{'' if counts else ' and not fall'}, got {listed}"
    )
    rows: Size = x.shape[:-1].numel()
    rules.require(sum(tokens) == rows, lambda: f"{name} must be of all rows of x, got {sum(tokens)} and {rows}")
    return tuple(tokens)


def _check_weights(
    rules: Rules, x: Tensor, weight1: Tensor, weight2: Tensor, activation: str, experts: int | None
) -> None:
    why = " without experts" if experts is None else f" for {experts} experts"
    for name, weight in (("weight1", weight1), ("weight2", weight2)):
        rules.rank(name, weight, 2 if experts is None else 3, why=why)
        if experts is not None:
            rules.equal(f"{name}.size(0)", weight.size(0), "the experts", experts)
    depth, between = x.size(-1), weight2.size(-2)
    rules.equal("weight1.size(-2)", weight1.size(-2), "x.size(-1)", depth)
    rules.equal("weight2.size(-1)", weight2.size(-1), "x.size(-1)", depth)
    wide, words = (2 * between, "2 * weight2.size(-2)") if activation in GATES else (between, "weight2.size(-2)")
    rules.equal("weight1.size(-1)", weight1.size(-1), f"{words} for {activation}", wide)
    for name, size in (("x.size(-1)", depth), ("weight2.size(-2)", between)):
        rules.require(size < LONGEST, lambda: f"{name} must be less than {LONGEST}, got {size}")  # noqa: B023


def _result(rules: Rules, form: str, dtype: torch.dtype, requested: torch.dtype | None) -> torch.dtype:
    if form != QUANT:
        return dtype
    rules.one_of("output_dtype", requested, (None, torch.float16, torch.bfloat16))
    return requested or torch.float16


@dataclass(frozen=True)
class _Parameters:
    rules: Rules
    experts: int | None
    n1: Size
    n2: Size
    why: str

    def one(
        self, name: str, tensor: Tensor | None, wanted: bool, dtypes: tuple[torch.dtype, ...], shape: tuple[Size, ...]
    ) -> None:
        """Require a parameter exactly if ``wanted``, of one of ``dtypes`` and of ``shape`` for each expert."""
        if not wanted or tensor is None:
            words = "given" if wanted else "None"
            missing = wanted == (tensor is not None)
            got = None if tensor is None else list(tensor.shape)
            self.rules.require(missing, lambda: f"{name} must be {words}{self.why}, got {got}")
            return
        self.rules.dtype(name, tensor, dtypes, self.why)
        whole = shape if self.experts is None else (self.experts, *shape)
        self.rules.shape(name, tensor, whole, ["that of the weights"] * len(whole))

    def biases(self, dtype: torch.dtype, bias1: Tensor | None, bias2: Tensor | None) -> None:
        """Check the biases, both of which may be absent."""
        for name, bias, size in (("bias1", bias1, self.n1), ("bias2", bias2, self.n2)):
            if bias is not None:
                self.one(name, bias, True, (dtype,), (size,))

    def quantised(
        self,
        form: str,
        dtype: torch.dtype,
        scale: Tensor | None,
        offset: Tensor | None,
        deq_scale1: Tensor | None,
        deq_scale2: Tensor | None,
    ) -> None:
        """Check the scale and offset between the two products, and the dequantisation scales after each."""
        wanted, single = form == QUANT, () if self.experts is not None else (1,)
        by_column = scale is not None and self._is_by_column(scale)
        self.one("scale", scale, wanted, (torch.float32,), (self.n1,) if by_column else single)
        self.one("offset", offset, wanted, (torch.float32,), single)
        packed = (torch.int64,) if by_column else (torch.int64, torch.float32)
        allowed = (torch.bfloat16,) if dtype == torch.bfloat16 else packed
        self.one("deq_scale1", deq_scale1, wanted, allowed, (self.n1,))
        same = allowed if deq_scale1 is None else (deq_scale1.dtype,)
        self.one("deq_scale2", deq_scale2, wanted, same, (self.n2,))

    def _is_by_column(self, scale: Tensor) -> bool:
        if self.experts is not None:
            return scale.dim() == 2
        return scale.dim() == 1 and not (isinstance(scale.size(0), int) and scale.size(0) == 1)
