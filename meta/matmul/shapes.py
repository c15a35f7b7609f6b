"""Shape checks of npu_quant_matmul: the depth of both operands, their leading dimensions, and the bias."""

from __future__ import annotations

import torch
from graph_quant.destination import INT4
from graph_quant.meta.rules import Rules, Size, guard_or_false, statically_known_true, sym_or

LONGEST = 65535


def is_transposed(tensor: torch.Tensor) -> bool:
    """Whether the tensor is a transposed view of its last two dimensions."""
    return statically_known_true(tensor.stride(-2) == 1) and statically_known_true(tensor.stride(-1) == tensor.size(-2))


def check_depth(rules: Rules, x1: torch.Tensor, x2: torch.Tensor, int4: bool) -> tuple[bool, Size]:
    """Whether int4 x2 is packed along k, which only a transposed view is, and the columns of the product."""
    if not int4:
        rules.equal("x2.size(-2)", x2.size(-2), "x1.size(-1)", x1.size(-1))
        return False, x2.size(-1)
    along_k = is_transposed(x2)
    depth = x1.size(-1) if along_k else x1.size(-1) * INT4.packing
    wanted = "k/8 in a transposed view" if along_k else "k, or k/8 in a transposed view"
    rules.require(x2.size(-2) == depth, lambda: f"x2.size(-2) must equal {wanted}, {depth}, got {x2.size(-2)}")
    return along_k, x2.size(-1) * (1 if along_k else INT4.packing)


def check_inner(rules: Rules, name: str, tensor: torch.Tensor) -> None:
    """Require that the contiguous dimension of an operand has at most 65535 elements; int32 holds eight int4."""
    dim = -2 if is_transposed(tensor) else -1
    size = tensor.size(dim) * (INT4.packing if tensor.dtype == torch.int32 else 1)
    rules.require(
        size <= LONGEST,
        lambda: f"{name}.size({dim}) must be at most {LONGEST}, but for int8 with pertoken_scale, got {size}",
    )


def broadcast(rules: Rules, batch1: torch.Size, batch2: torch.Size) -> tuple[Size, ...]:
    """The broadcast of leading dimensions; a size of 1 broadcasts to any other."""
    longer, shorter = (batch1, batch2) if len(batch1) >= len(batch2) else (batch2, batch1)
    extra = len(longer) - len(shorter)
    shape: list[Size] = list(longer[:extra])
    for one, other in zip(longer[extra:], shorter, strict=True):
        rules.require(
            sym_or(one == other, one == 1, other == 1),
            lambda: f"leading dimensions of x1 and x2 must broadcast, got {list(batch1)} and {list(batch2)}",
        )
        shape.append(other if guard_or_false(one == 1) else one)
    return tuple(shape)


def check_bias(rules: Rules, bias: torch.Tensor, shape: tuple[Size, ...], int4: bool) -> None:
    """Require that the bias is a row, or one row for each matrix of the batch."""
    rules.require(
        bias.dim() == 1 or (bias.dim() == 3 and len(shape) == 3 and not int4),
        lambda: f"bias must have 1 dimension, or 3 for int8 operands and a result of 3, got {list(bias.shape)}",
    )
    rules.equal("bias.size(-1)", bias.size(-1), "n", shape[-1])
    if bias.dim() == 3:
        rules.equal("bias.size(0)", bias.size(0), "the batch", shape[0])
        rules.equal("bias.size(1)", bias.size(1), "1", 1)
