"""npu_quant_matmul with scales for groups of k, and with an int4 weight for int8 rows: what may be passed.

====== =========== ============================== ================ ================ ================ ===========
form   x1          x2                             scale            pertoken_scale   offset           group_sizes
====== =========== ============================== ================ ================ ================ ===========
a4w4   int32 m,k/8 int32 k/8,n, a transposed view float32 k/256,n  float32 m,1      float16 k/256,n  0/1,0/1,256
a8w4   int8 m,k    int32 k,n/8                    packed k/256,n   float32 m,1      float32 n        0,0,256
a8w4   int8 m,k    int32 k,n/8                    packed n         float32 m        float32 n        none
blocks int8 m,k    int8 k,n, a transposed view    float32          float32 m,k/128  none; bias       1,128,128
                                                  k/128,n/128,                      float32 n
                                                  a transposed view
====== =========== ============================== ================ ================ ================ ===========

The document has pertoken_scale (m,) for a4w4; the kernel takes (m, 1) alone. y_scale is for Ascend 950. No operand is
in FRACTAL_NZ.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from graph_quant.destination import BFLOAT16, FLOAT16, INT4, Destination
from graph_quant.meta.rules import ND, Rules, Size
from graph_quant.reference.matmul.quant_matmul_groups import A4W4, A8W4, BLOCKS, WHOLE
from torch import Tensor

GROUP, BLOCK = 256, 128
_NONE = (0, 0, 0)
# The largest k of a8w4 that fits the kernel's buffer.
_DEEPEST = 29576
_LARGEST_GROUP = 65535


def form_of(x1: Tensor, x2: Tensor, scale: Tensor, pertoken_scale: Tensor | None) -> str:
    """The form of a call, by dtypes and the dimensions of its scales."""
    if (x1.dtype, x2.dtype) == (torch.int8, torch.int32):
        return A8W4
    if pertoken_scale is None or scale.dtype != torch.float32 or scale.dim() != 2:
        return WHOLE
    return A4W4 if x1.dtype == torch.int32 else BLOCKS


def check_group_sizes(rules: Rules, group_sizes: Sequence[int] | None, form: str, scale: Tensor) -> int:
    """The node's group_size: the group sizes along m, n and k, sixteen bits each."""
    sizes = tuple(group_sizes or _NONE)
    rules.require(len(sizes) == 3, lambda: f"group_sizes must have 3 elements, got {list(sizes)}")
    rules.require(
        all(0 <= size <= _LARGEST_GROUP for size in sizes),
        lambda: f"group_sizes must be from 0 to {_LARGEST_GROUP}, got {list(sizes)}",
    )
    allowed: dict[str, tuple[tuple[int, ...], ...]] = {
        WHOLE: (_NONE,),
        A4W4: ((0, 0, GROUP), (1, 1, GROUP)),
        A8W4: ((0, 0, GROUP),) if scale.dim() == 2 else (_NONE,),
        BLOCKS: ((1, BLOCK, BLOCK),),
    }
    words = " or ".join(str(list(choice)) for choice in allowed[form])
    why = f"scale {list(scale.shape)}"
    rules.require(sizes in allowed[form], lambda: f"group_sizes must be {words} for {why}, got {list(sizes)}")
    m, n, k = sizes
    return (m << 32) | (n << 16) | k


def check_groups(
    rules: Rules,
    form: str,
    x1: Tensor,
    x2: Tensor,
    scale: Tensor,
    offset: Tensor | None,
    pertoken_scale: Tensor | None,
    bias: Tensor | None,
    output: Destination,
) -> tuple[Size, Size]:
    """Check a call of a form other than WHOLE, and return the shape of its result."""
    halves = (BFLOAT16,) if form == BLOCKS else (FLOAT16, BFLOAT16)
    rules.one_of("output_dtype", output.storage, [half.storage for half in halves], _with(scale))
    rules.rank("x1", x1, 2)
    rules.rank("x2", x2, 2)
    rules.format("x1", x1, ND)
    rules.format("x2", x2, ND, why=_with(scale))
    if pertoken_scale is None:
        rules.refuse("pertoken_scale must be given for int8 x1 and int4 x2, got None")
    rules.dtype("pertoken_scale", pertoken_scale, (torch.float32,))
    if form == BLOCKS:
        return _blocks(rules, x1, x2, scale, offset, pertoken_scale, bias)
    if bias is not None:
        rules.refuse(f"bias must be None{_with(scale)}, got {list(bias.shape)}")
    if offset is None:
        rules.refuse(f"offset must be given{_with(scale)}, got None")
    check = _a8w4 if form == A8W4 else _a4w4
    return x1.size(0), check(rules, x1, x2, scale, offset, pertoken_scale)


def _a4w4(rules: Rules, x1: Tensor, x2: Tensor, scale: Tensor, offset: Tensor, pertoken_scale: Tensor) -> Size:
    depth, columns = x1.size(1) * INT4.packing, x2.size(1)
    rules.equal("x2.size(0)", x2.size(0), "x1.size(1), as in a transposed view", x1.size(1))
    _multiple(rules, "k", depth, 4 * GROUP)
    _multiple(rules, "n", columns, GROUP)
    rules.shape("scale", scale, (depth // GROUP, columns), ("k/256", "n"))
    rules.dtype("offset", offset, (torch.float16,), _with(scale))
    rules.shape("offset", offset, (depth // GROUP, columns), ("k/256", "n"))
    rules.shape("pertoken_scale", pertoken_scale, (x1.size(0), 1), ("m", "1"))
    return columns


def _a8w4(rules: Rules, x1: Tensor, x2: Tensor, scale: Tensor, offset: Tensor, pertoken_scale: Tensor) -> Size:
    depth, columns = x1.size(1), x2.size(1) * INT4.packing
    rules.equal("x2.size(0)", x2.size(0), "x1.size(1)", depth)
    rules.require(depth <= _DEEPEST, lambda: f"k must be at most {_DEEPEST}, got {depth}")
    rules.dtype("scale", scale, (torch.int64,), " for int8 x1 and int4 x2")
    rules.rank("scale", scale, 1, 2)
    has_groups = scale.dim() == 2
    _multiple(rules, "k", depth, GROUP if has_groups else 2)
    if has_groups:
        rules.shape("scale", scale, (depth // GROUP, columns), ("k/256", "n"))
        rules.shape("pertoken_scale", pertoken_scale, (x1.size(0), 1), ("m", "1"))
    else:
        rules.shape("scale", scale, (columns,), ("n",))
        rules.shape("pertoken_scale", pertoken_scale, (x1.size(0),), ("m",))
    rules.dtype("offset", offset, (torch.float32,), _with(scale))
    rules.shape("offset", offset, (columns,), ("n",))
    return columns


def _blocks(
    rules: Rules,
    x1: Tensor,
    x2: Tensor,
    scale: Tensor,
    offset: Tensor | None,
    pertoken_scale: Tensor,
    bias: Tensor | None,
) -> tuple[Size, Size]:
    (rows, depth), columns = x1.shape, x2.size(1)
    rules.equal("x2.size(0)", x2.size(0), "x1.size(1)", depth)
    _multiple(rules, "k", depth, 4 * BLOCK)
    _multiple(rules, "n", columns, 2 * BLOCK)
    _check_transposed(rules, "x2", x2)
    rules.shape("scale", scale, (depth // BLOCK, columns // BLOCK), ("k/128", "n/128"))
    _check_transposed(rules, "scale", scale)
    rules.shape("pertoken_scale", pertoken_scale, (rows, depth // BLOCK), ("m", "k/128"))
    if offset is not None:
        rules.refuse(f"offset must be None{_with(scale)}, got {list(offset.shape)}")
    if bias is None:
        rules.refuse(f"bias must be given{_with(scale)}, got None")
    rules.dtype("bias", bias, (torch.float32,), _with(scale))
    rules.shape("bias", bias, (columns,), ("n",))
    return rows, columns


def _with(scale: Tensor) -> str:
    return f" for scale {scale.dtype} of {scale.dim()} dimensions"


def _multiple(rules: Rules, name: str, size: Size, of: int) -> None:
    rules.require(size % of == 0, lambda: f"x1 and x2: {name} must be a multiple of {of}, got {size}")


def _check_transposed(rules: Rules, argument: str, tensor: Tensor) -> None:
    rules.require(
        tensor.stride(0) == 1,
        lambda: f"{argument} must be a transposed view, whose columns lie in one piece, got strides {tensor.stride()}",
    )
