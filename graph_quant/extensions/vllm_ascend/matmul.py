"""batch_matmul_transpose: ``c[m, b] = a[m, b] @ b[b]``, written into c.

Products are summed in float32 and rounded once. The kernel reads memory by address, so that every tensor must be
contiguous, and takes at most 1024 rows. Weights in blocks of FRACTAL_NZ (``format_mode`` NZ) are (b, n/16, k, 16).
"""

from __future__ import annotations

import torch
from graph_quant.meta import Plan, Rules, operator
from graph_quant.meta.attention.sparse_rules import HALVES
from torch import Tensor

_MOST_ROWS, _BLOCK = 1024, 16
_QUANT_MODES = ("per_channel_symm", "per_channel_asymm", "per_token_symm")


def batch_matmul_transpose(tensor_a: Tensor, tensor_b: Tensor, tensor_c: Tensor) -> tuple[()]:
    """Write the products."""
    weight = tensor_b if tensor_b.dim() == 3 else tensor_b.transpose(1, 2).flatten(2)
    tensor_c.copy_(torch.bmm(tensor_a.transpose(0, 1).float(), weight.float()).transpose(0, 1))
    return ()


@operator("_C_ascend::batch_matmul_transpose", reference=batch_matmul_transpose)
def rules_of_batch_matmul_transpose(
    rules: Rules,
    tensor_a: Tensor,
    tensor_b: Tensor,
    tensor_c: Tensor,
    format_mode: str | None,
    quant_mode: str | None,
) -> Plan:
    """Check a call by the extension's host code; it returns nothing."""
    rules.one_of("format_mode", format_mode or "ND", ("ND", "NZ"))
    rules.one_of("quant_mode", quant_mode or _QUANT_MODES[0], _QUANT_MODES)
    rules.dtype("tensor_a", tensor_a, HALVES)
    for name, tensor in (("tensor_b", tensor_b), ("tensor_c", tensor_c)):
        rules.dtype(name, tensor, (tensor_a.dtype,), ", the dtype of tensor_a")
    for name, tensor in (("tensor_a", tensor_a), ("tensor_b", tensor_b), ("tensor_c", tensor_c)):
        rules.require(tensor.is_contiguous(), lambda: f"{name} must be contiguous, got {list(tensor.stride())}")  # noqa: B023
    rules.rank("tensor_a", tensor_a, 3)
    blocks = format_mode == "NZ"
    rules.rank("tensor_b", tensor_b, 4 if blocks else 3, why=f" in format {format_mode or 'ND'}")
    rows, batches, depth = tensor_a.shape
    rules.require(1 <= rows <= _MOST_ROWS, lambda: f"tensor_a.size(0) must lie in [1, {_MOST_ROWS}], got {rows}")
    rules.equal("tensor_b.size(0)", tensor_b.size(0), "tensor_a.size(1)", batches)
    rules.equal(f"tensor_b.size({2 if blocks else 1})", tensor_b.size(2 if blocks else 1), "tensor_a.size(2)", depth)
    if blocks:
        rules.equal("tensor_b.size(3)", tensor_b.size(3), str(_BLOCK), _BLOCK)
    columns = tensor_b.size(1) * tensor_b.size(3) if blocks else tensor_b.size(2)
    rules.shape("tensor_c", tensor_c, (rows, batches, columns), ("tensor_a.size(0)", "tensor_a.size(1)", "n"))
    return Plan(())
