"""Matrix products on npu tensors: large products in half precision, and products of two dtypes, use float32."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload

from ...reference import composed
from ...reference.composed import scale_and_add
from ...reference.half_precision import HALF_DTYPES, is_large_half_product
from ..alias import as_cpu, to_npu
from .kernels import Kernel


def _mm(x1: Tensor, x2: Tensor) -> Tensor:
    return _product(x1, x2).to(x1.dtype)


def _addmm(x: Tensor, x1: Tensor, x2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    if (beta, alpha) != (1, 1):
        return scale_and_add(x, _mm(x1, x2), beta, alpha)
    return _mm(x1, x2) + x if _is_added_after_rounding(x) else (_product(x1, x2) + x).to(x1.dtype)


def _product(x1: Tensor, x2: Tensor) -> Tensor:
    return torch.matmul(x1.float(), x2.float())


_FLOAT32_PRODUCTS: dict[str, Kernel] = {"aten::mm": _mm, "aten::bmm": _mm, "aten::addmm": _addmm}


GROUPED = "aten::_grouped_mm"
# GroupedMatmul's group_type by the ranks of the operands.
_GROUP_TYPES = {(2, 3): 0, (2, 2): 2}

# Takes operands of two dtypes, as on the device; the result has the dtype of the first.
_MIXED_DTYPES = "aten::mm"
_FLOATS = {torch.float32, *HALF_DTYPES}


def find_float32_product(name: str, args: Sequence[Any]) -> Kernel | None:
    """Return the function that computes a call of ``name`` in float32; None where that is not needed."""
    compute = _FLOAT32_PRODUCTS.get(name)
    if compute is None or len(args) < 2:
        return None
    x1, x2 = args[-2:]
    mixed = name == _MIXED_DTYPES and x1.dtype != x2.dtype and {x1.dtype, x2.dtype} <= _FLOATS
    return compute if mixed or is_large_half_product(x1, x2) else None


def _is_added_after_rounding(x: Tensor) -> bool:
    """Whether graphs add ``x`` to the rounded product; a bias vector in half precision is added before rounding."""
    return x.dtype not in HALF_DTYPES or x.dim() != 1


def _mm_wrapper(op: OpOverload, kernel: Kernel) -> Kernel:
    name = op.name()

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        compute = find_float32_product(name, args)
        if compute is not None:
            return to_npu(compute(*map(as_cpu, args), **kwargs))
        if name == "aten::addmm" and (kwargs.get("beta", 1), kwargs.get("alpha", 1)) != (1, 1):
            return composed.addmm(*args, **kwargs)
        if name == "aten::addmm" and _is_added_after_rounding(args[0]):
            return torch.mm(*args[1:3]) + args[0]
        return kernel(*args, **kwargs)

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


WRAPPERS = {**dict.fromkeys(_FLOAT32_PRODUCTS, _mm_wrapper), GROUPED: _grouped_mm}
