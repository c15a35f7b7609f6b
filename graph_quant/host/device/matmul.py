"""Matrix products on npu tensors as graphs compute them: half precision and operands of two dtypes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload

from ...formats import NZ, storage_format
from ...reference import composed, half_products
from ...reference.composed import scale_and_add
from ...reference.half_precision import HALF_DTYPES
from ...refusals import Refusal
from ..alias import NPU, as_cpu, kept_alias, to_npu
from .kernels import Kernel


def _mm(x1: Tensor, x2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Multiply CPU matrices, or batches of them."""
    if x1.dtype == x2.dtype and x1.dtype not in HALF_DTYPES:
        return torch.mm(x1, x2, out=out) if x1.dim() == 2 else torch.bmm(x1, x2, out=out)
    if not half_products.can_multiply(x1, x2):
        return _into(half_products.multiply(x1, x2, dtype=x1.dtype), out)
    out = x1.new_empty((*x1.shape[:-1], x2.size(-1))) if out is None else out
    half_products.multiply_into(x1, x2, out)
    return out


def _addmm(
    x: Tensor, x1: Tensor, x2: Tensor, *, beta: float = 1, alpha: float = 1, out: Tensor | None = None
) -> Tensor:
    if (beta, alpha) != (1, 1):
        return _into(scale_and_add(x, _mm(x1, x2), beta, alpha), out)
    if _is_added_after_rounding(x):
        return _into(_mm(x1, x2) + x, out)
    if not half_products.can_multiply(x1, x2):
        return _into(half_products.multiply(x1, x2, x, x1.dtype), out)
    out = x1.new_empty((x1.size(0), x2.size(1))) if out is None else out
    half_products.multiply_into(x1, x2, out, x.float().expand(x2.size(1)).contiguous())
    return out


def _into(result: Tensor, out: Tensor | None) -> Tensor:
    return result if out is None else out.copy_(result)


_PRODUCTS: dict[str, Kernel] = {"aten::mm": _mm, "aten::bmm": _mm, "aten::addmm": _addmm}
_RANKS = {"aten::mm": 2, "aten::bmm": 3, "aten::addmm": 2}


GROUPED = "aten::_grouped_mm"
# GroupedMatmul's group_type by the ranks of the operands.
_GROUP_TYPES = {(2, 3): 0, (2, 2): 2}

# Takes operands of two dtypes, as on the device; the result has the dtype of the first.
_MIXED_DTYPES = "aten::mm"
_FLOATS = {torch.float32, *HALF_DTYPES}


def find_product(name: str, args: Sequence[Any]) -> Kernel | None:
    """Return the function that computes a call of ``name`` on CPU tensors as graphs do; None if the CPU kernel does.

    It takes the arguments of the call, and an ``out`` of the result's shape, which overlaps no operand.
    """
    compute = _PRODUCTS.get(name)
    if compute is None or len(args) < 2 or not _have_matching_sizes(name, args):
        return None
    x1, x2 = args[-2:]
    mixed = name == _MIXED_DTYPES and x1.dtype != x2.dtype and {x1.dtype, x2.dtype} <= _FLOATS
    if x1.dtype == x2.dtype and x1.dtype not in HALF_DTYPES:
        # The CPU's addmm accumulates onto the added tensor; integers are exact.
        return compute if name == "aten::addmm" and (x1.is_floating_point() or x1.is_complex()) else None
    is_native = x1.dtype == x2.dtype and not half_products.STRIDES_AFFECT_BITS
    return compute if mixed or is_native or half_products.is_large_half_product(x1, x2) else None


def _have_matching_sizes(name: str, args: Sequence[Any]) -> bool:
    """Whether sizes are right; the CPU kernel refuses wrong ones, and dtypes that differ."""
    *added, x1, x2 = args
    rank = _RANKS[name]
    if x1.dim() != rank or x2.dim() != rank or x1.size(-1) != x2.size(-2) or x1.shape[:-2] != x2.shape[:-2]:
        return False
    if not added:
        return True
    sizes = zip(added[0].shape[::-1], (x2.size(1), x1.size(0)), strict=False)
    return added[0].dtype == x1.dtype and added[0].dim() <= rank and all(size in (1, full) for size, full in sizes)


def check_blocks(name: str, weight: Any) -> None:
    """Refuse a matrix in FRACTAL_NZ with one row or column, as aclnnMatmulWeightNz does."""
    if not isinstance(weight, Tensor) or weight.dim() != 2 or 1 not in weight.shape:
        return
    if storage_format(weight) is NZ:
        raise Refusal(
            f"{name.replace('::', '.')}: mat2 in FRACTAL_NZ must have more than one row and column, "
            f"got {list(weight.shape)}; npu_format_cast(weight, 2) converts it to ND"
        )


def _is_added_after_rounding(x: Tensor) -> bool:
    """Whether graphs add ``x`` to the rounded product; a bias vector in half precision is added before rounding."""
    return x.dtype not in HALF_DTYPES or x.dim() != 1


def _mm_wrapper(op: OpOverload, kernel: Kernel) -> Kernel:
    name = op.name()

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        compute = find_product(name, args)
        if compute is not None and not any(x.is_cpu for x in args):
            x1, x2 = args[-2:]
            out = torch.empty((*x1.shape[:-1], x2.size(-1)), dtype=x1.dtype, device=NPU)
            compute(*map(kept_alias, args), **kwargs, out=kept_alias(out))
            return out
        if name == "aten::addmm" and (kwargs.get("beta", 1), kwargs.get("alpha", 1)) != (1, 1):
            return composed.addmm(*args, **kwargs)
        if name == "aten::addmm" and _is_added_after_rounding(args[0]):
            return torch.mm(*args[1:3]) + args[0]
        return kernel(*args, **kwargs)

    return wrapper


def _mm_out_wrapper(op: OpOverload, kernel: Kernel) -> Kernel:
    """Write what the functional form returns; ``kernel`` resizes and checks ``out``."""
    name = op.name().removesuffix(".out")

    def wrapper(*args: Any, out: Tensor, **kwargs: Any) -> Any:
        compute = find_product(name, args)
        if compute is None or any(x.is_cpu for x in (*args, out)):
            return kernel(*args, out=out, **kwargs)
        result = compute(*map(as_cpu, args), **kwargs)
        if out.dtype != result.dtype or out.size() != result.size():
            kernel(*args, out=out, **kwargs)
        as_cpu(out).copy_(result)
        return out

    return wrapper


def _grouped_mm(_op: OpOverload, kernel: Kernel) -> Kernel:
    """Compute the forms that GroupedMatmul has by its kernel, as graphs do; leave the others to ``kernel``."""

    def wrapper(
        x: Tensor,
        mat2: Tensor,
        offs: Tensor | None = None,
        bias: Tensor | None = None,
        out_dtype: torch.dtype | None = None,
    ) -> Any:
        group_type = _GROUP_TYPES.get((x.dim(), mat2.dim()))
        if offs is None or group_type is None or bias is not None or out_dtype not in (None, x.dtype):
            return kernel(x, mat2, offs, bias, out_dtype)
        from graph_quant.reference.matmul.grouped_matmul_node import grouped_matmul_node

        rows, matrices, ends = map(as_cpu, (x, mat2, offs))
        none: list[Tensor] = []
        (result,) = grouped_matmul_node(
            [rows], [matrices], none, none, none, none, none, ends.long(), split_item=3, dtype=-1, group_type=group_type
        )
        return to_npu(result)

    return wrapper


WRAPPERS = {
    **dict.fromkeys(_PRODUCTS, _mm_wrapper),
    **dict.fromkeys((f"{name}.out" for name in _PRODUCTS), _mm_out_wrapper),
    GROUPED: _grouped_mm,
}
# Operators whose last argument is a matrix that may be in FRACTAL_NZ.
TAKE_BLOCKS = frozenset(("aten::mm", "aten::mm.out", "aten::addmm", "aten::addmm.out"))
