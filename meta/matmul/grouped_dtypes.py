"""The combinations of dtypes in npu_grouped_matmul: the form of the product, its output and its bias."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from graph_quant.destination import SCALAR_TYPES, describe
from graph_quant.meta.rules import Rules
from graph_quant.reference.matmul.grouped_products import A4W4, A8W4, A8W8, ANTIQUANT, FLOAT
from torch import Tensor

HALVES = (torch.float16, torch.bfloat16)

FORMS = {
    (torch.float16, torch.float16): FLOAT,
    (torch.bfloat16, torch.bfloat16): FLOAT,
    (torch.float32, torch.float32): FLOAT,
    (torch.int8, torch.int8): A8W8,
    (torch.int8, torch.int32): A8W4,
    (torch.int32, torch.int32): A4W4,
    **{(x, weight): ANTIQUANT for x in HALVES for weight in (torch.int8, torch.int32)},
}


def form_of(rules: Rules, x: Sequence[Tensor], weight: Sequence[Tensor]) -> str:
    """The form of the products, from the dtypes that all x and all weights share."""
    for name, tensors in (("x", x), ("weight", weight)):
        for index, tensor in enumerate(tensors):
            rules.dtype(f"{name}[{index}]", tensor, (tensors[0].dtype,), f", the dtype of {name}[0]")
    pair = (x[0].dtype, weight[0].dtype)
    rules.require(
        pair in FORMS,
        lambda: (
            f"x and weight must be alike and floating, int8 and int8, int8 and int32 (int4), int32 and int32 (int4), "
            f"or half and int8 or int32 (int4), got {pair[0]} and {pair[1]}"
        ),
    )
    return FORMS[pair]


def output_of(rules: Rules, form: str, x: Tensor, output_dtype: torch.dtype | int | None) -> torch.dtype:
    """The dtype of the results."""
    if output_dtype is None and form not in (A8W4, A4W4):
        return x.dtype
    allowed = {A8W8: (torch.int8, torch.int32, *HALVES), A8W4: HALVES, A4W4: HALVES}.get(form, (x.dtype,))
    requested = SCALAR_TYPES.get(output_dtype) if isinstance(output_dtype, int) else output_dtype
    rules.require(
        requested in allowed,
        lambda: f"output_dtype must be {', '.join(map(str, allowed))} for x {x.dtype}, got {describe(output_dtype)}",
    )
    assert requested is not None
    return requested


def bias_dtypes_950(form: str, x: Tensor) -> tuple[torch.dtype, ...]:
    """The dtypes of a bias of float x on Ascend 950."""
    return (x.dtype,) if form == ANTIQUANT and x.dtype == torch.float16 else (x.dtype, torch.float32)


def bias_dtypes(form: str, x: Tensor, output: torch.dtype, has_tokens: bool) -> tuple[torch.dtype, ...]:
    """The dtypes of a bias; empty if the product takes none.

    The A2/A3 kernel adds a bfloat16 bias of int8 products with per-token scales, and drops it without them.
    """
    if form == A8W8:
        return (torch.int32, torch.bfloat16) if has_tokens and output in HALVES else (torch.int32,)
    if form == A4W4:
        return ()
    return (torch.float16,) if x.dtype == torch.float16 else (torch.float32,)


def scale_dtypes(form: str, output: torch.dtype, has_tokens: bool) -> tuple[torch.dtype, ...]:
    """The dtypes of a scale; empty if the product takes none."""
    if form in (A8W4, A4W4):
        return (torch.int64, torch.uint64)
    if form != A8W8 or output == torch.int32:
        return ()
    if output == torch.int8:
        return () if has_tokens else (torch.int64,)
    return (torch.bfloat16,) if output == torch.bfloat16 else (torch.float32,)
