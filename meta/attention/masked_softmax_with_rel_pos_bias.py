"""npu_masked_softmax_with_rel_pos_bias: rules and results.

x is (B, W, heads, rows, columns), or of four dimensions (B * W, heads, rows, columns); atten_mask (W, rows, columns)
and relative_pos_bias (heads, rows, columns), with ones where they have more dimensions. All have one dtype. A row must
fit into the 192 KB of a vector core as the kernel keeps it.
"""

from __future__ import annotations

from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import FLOATS, Rules, Size
from graph_quant.reference.attention.masked_softmax_with_rel_pos_bias import masked_softmax as reference
from torch import Tensor

BLOCK, MEMORY, SPARE = 32, 192 * 1024, 288
# The bytes that the kernel keeps for each element of a row, with a mask and without.
MASKED, BARE = 32, 24


@operator("npu_masked_softmax_with_rel_pos_bias", reference=reference)
def masked_softmax(
    rules: Rules,
    x: Tensor,
    atten_mask: Tensor | None,
    relative_pos_bias: Tensor,
    scale_value: float,  # noqa: ARG001 - any
    inner_precision_mode: int,  # noqa: ARG001 - float32 in all of them
) -> Plan:
    """Checks a call against the documented rules, and returns its plan."""
    rules.dtype("x", x, FLOATS)
    rules.rank("x", x, 4, 5)
    rules.not_empty("x", x)
    _check_part(rules, "relative_pos_bias", relative_pos_bias, x, (x.size(-3), *x.shape[-2:]))
    if atten_mask is not None:
        _check_mask(rules, atten_mask, x)
    _check_row(rules, x, BARE if atten_mask is None else MASKED)
    return Plan((Result(tuple(x.shape), x.dtype),))


def _check_part(rules: Rules, name: str, part: Tensor, x: Tensor, sizes: tuple[Size, ...]) -> None:
    rules.dtype(name, part, (x.dtype,), ", the dtype of x")
    rules.rank(name, part, 3, 5)
    leading = part.dim() - len(sizes)
    for dim in range(leading):
        rules.equal(f"{name}.size({dim})", part.size(dim), "one", 1)
    for dim, size in enumerate(sizes, leading):
        rules.equal(f"{name}.size({dim})", part.size(dim), f"x.size({dim - part.dim()})", size)


def _check_mask(rules: Rules, mask: Tensor, x: Tensor) -> None:
    rules.dtype("atten_mask", mask, (x.dtype,), ", the dtype of x")
    rules.rank("atten_mask", mask, 3, 5)
    for dim in (-2, -1):
        rules.equal(f"atten_mask.size({dim})", mask.size(dim), f"x.size({dim})", x.size(dim))
    if mask.dim() > 3:
        rules.equal("atten_mask.size(-3)", mask.size(-3), "one", 1)
    if mask.dim() > 4:
        rules.equal("atten_mask.size(0)", mask.size(0), "one", 1)
    windows = mask.size({3: 0, 4: 0, 5: 1}[mask.dim()])
    if x.dim() == 5:
        rules.equal("the windows of atten_mask", windows, "x.size(1)", x.size(1))
        return
    rules.at_least("the windows of atten_mask", windows, 1)
    rules.require(
        x.size(0) % windows == 0,
        lambda: f"x.size(0) must be a multiple of {windows}, the windows of atten_mask, got {x.size(0)}",
    )


def _check_row(rules: Rules, x: Tensor, kept: int) -> None:
    step = BLOCK // x.element_size()
    columns = (x.size(-1) + step - 1) // step * step
    most = (MEMORY - SPARE) // kept
    rules.require(columns <= most, lambda: f"x.size(-1) must be at most {most // step * step}, got {x.size(-1)}")
