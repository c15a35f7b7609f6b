"""npu_swiglu_group_quant and its gradient: argument rules and results. Only Ascend 950 has them.

x is float32, float16 or bfloat16 of one dimension or more, the last of which is even. weight has a float32 number for
each token, group_index the int64 number of tokens of each group. The result is HiFloat8 in uint8: torch_npu's C++
function allocates it for quant_mode 2, which needs a scale for each group, and 3, and ignores dst_type.
"""

from __future__ import annotations

import torch
from graph_quant.chip import ASCEND_950
from graph_quant.meta.norm.rms import like
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import FLOATS, Rules
from graph_quant.reference.activation.swiglu_group_quant import DYNAMIC, STATIC
from graph_quant.reference.activation.swiglu_group_quant import swiglu_group_quant as reference
from graph_quant.reference.activation.swiglu_group_quant import swiglu_group_quant_backward as backward_reference
from torch import Tensor

_OFF = -1.0


@operator("npu_swiglu_group_quant", reference=reference, chips=(ASCEND_950,))
def swiglu_group_quant(
    rules: Rules,
    x: Tensor,
    weight: Tensor | None,
    group_index: Tensor | None,
    scale: Tensor | None,
    dst_type: int | torch.dtype,  # noqa: ARG001
    quant_mode: int,
    block_size: int,  # noqa: ARG001
    round_scale: bool,  # noqa: ARG001
    clamp_limit: float,
    dst_type_max: float,
    output_origin: bool,
) -> Plan:
    """The plan of a call that the documents and the kernel's checks allow; any other call is refused."""
    _check_input(rules, x, weight, group_index)
    rules.one_of("quant_mode", quant_mode, (STATIC, DYNAMIC), ": torch_npu allocates results of these alone")
    rules.require(
        clamp_limit >= 0 or clamp_limit == _OFF, lambda: f"clamp_limit must be -1 or positive, got {clamp_limit}"
    )
    rules.require(dst_type_max > 0, lambda: f"dst_type_max must be above 0, got {dst_type_max}")
    groups = 1 if group_index is None else group_index.size(0)
    if quant_mode == STATIC:
        if scale is None:
            rules.refuse("quant_mode 2 needs scale, got None")
        rules.dtype("scale", scale, (torch.float32,))
        rules.rank("scale", scale, 1)
        rules.equal("scale.size(0)", scale.size(0), "the number of groups", groups)
    shape = (*x.shape[:-1], x.size(-1) // 2)
    y_scale = Result((groups if quant_mode == DYNAMIC else 0,), torch.float32)
    return Plan((Result(shape, torch.uint8), y_scale, Result(shape if output_origin else (0,), x.dtype)))


def _check_input(rules: Rules, x: Tensor, weight: Tensor | None, group_index: Tensor | None) -> None:
    rules.dtype("x", x, FLOATS)
    rules.rank("x", x, 1, 8)
    rules.not_empty("x", x)
    rules.require(x.size(-1) % 2 == 0, lambda: f"x.size(-1) must be even, got {x.size(-1)}")
    if weight is not None:
        rules.dtype("weight", weight, (torch.float32,))
        tokens = x.shape[:-1].numel()
        rules.equal("weight.numel()", weight.numel(), "the number of tokens", tokens)
    if group_index is not None:
        rules.dtype("group_index", group_index, (torch.int64,))
        rules.rank("group_index", group_index, 1)
        rules.at_least("group_index.size(0)", group_index.size(0), 1)


@operator("npu_swiglu_group_quant_backward", reference=backward_reference, chips=(ASCEND_950,))
def swiglu_group_quant_backward(
    rules: Rules,
    grad_y: Tensor,
    x: Tensor,
    weight: Tensor | None,
    y_origin: Tensor | None,
    group_index: Tensor | None,
    clamp_limit: float,
) -> Plan:
    """The plan of a call that the documents and the kernel's checks allow; any other call is refused."""
    _check_input(rules, x, weight, group_index)
    for name, half in (("grad_y", grad_y), ("y_origin", y_origin)):
        if half is not None:
            rules.dtype(name, half, (x.dtype,), ", the dtype of x")
            rules.rank(name, half, x.dim(), why=", as x has")
            for dim in range(x.dim() - 1):
                rules.equal(f"{name}.size({dim})", half.size(dim), f"x.size({dim})", x.size(dim))
            rules.equal(f"{name}.size(-1)", half.size(-1), "half of x.size(-1)", x.size(-1) // 2)
    rules.require(weight is None or y_origin is not None, lambda: "weight needs y_origin, got None")
    rules.require(
        clamp_limit > 0 or clamp_limit == _OFF,
        lambda: f"clamp_limit must be -1 or above 0: the kernel refuses others, got {clamp_limit}",
    )
    no_weight = Result((0,), torch.float32)
    return Plan((like(x), no_weight if weight is None else like(weight)))
