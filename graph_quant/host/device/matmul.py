"""Matrix products on npu tensors: large ones of half precision, and those of two precisions, are float32 products."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ...reference import composed
from ...reference.composed import scale_and_add
from ..alias import as_cpu, to_npu
from ..half_precision import HALF_DTYPES, is_large_half_product
from .kernels import Kernel


def _mm(x1: Tensor, x2: Tensor) -> Tensor:
    return _product(x1, x2).to(x1.dtype)


def _addmm(x: Tensor, x1: Tensor, x2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    if (beta, alpha) != (1, 1):
        return scale_and_add(x, _mm(x1, x2), beta, alpha)
    return _mm(x1, x2) + x if _is_no_bias(x) else (_product(x1, x2) + x).to(x1.dtype)


def _product(x1: Tensor, x2: Tensor) -> Tensor:
    return torch.matmul(x1.float(), x2.float())


IN_FLOAT32: dict[str, Kernel] = {"aten::mm": _mm, "aten::bmm": _mm, "aten::addmm": _addmm}


GROUPED = "aten::_grouped_mm"
# What GroupedMatmul cuts into groups, by the ranks of the factors.
_GROUP_TYPES = {(2, 3): 0, (2, 2): 2}

# As on the device, this takes factors of two precisions, and gives the first one's.
_OF_TWO_PRECISIONS = "aten::mm"
_FLOATS = {torch.float32, *HALF_DTYPES}


def find_float32_product(name: str, args: Sequence[Any]) -> Kernel | None:
    """How a call of ``name`` is computed in float32, if it is."""
    compute = IN_FLOAT32.get(name)
    if compute is None or len(args) < 2:
        return None
    x1, x2 = args[-2:]
    mixed = name == _OF_TWO_PRECISIONS and x1.dtype != x2.dtype and {x1.dtype, x2.dtype} <= _FLOATS
    return compute if mixed or is_large_half_product(x1, x2) else None


def _is_no_bias(x: Tensor) -> bool:
    """Whether graphs add it to the product when that is rounded; a product of half precision takes a vector before."""
    return x.dtype not in HALF_DTYPES or x.dim() != 1


def product(name: str, inner: Kernel) -> Kernel:
    """The kernel of ``name``: ``inner``, except for what is computed in float32."""

    def kernel(*args: Any, **kwargs: Any) -> Any:
        compute = find_float32_product(name, args)
        if compute is not None:
            return to_npu(compute(*map(as_cpu, args), **kwargs))
        if name == "aten::addmm" and (kwargs.get("beta", 1), kwargs.get("alpha", 1)) != (1, 1):
            return composed.addmm(*args, **kwargs)
        if name == "aten::addmm" and _is_no_bias(args[0]):
            return torch.mm(*args[1:3]) + args[0]
        return inner(*args, **kwargs)

    return kernel


def by_groups(inner: Kernel) -> Kernel:
    """The rows of experts, multiplied as graphs do, by GroupedMatmul; ``inner`` has the other forms."""

    def kernel(
        x: Tensor,
        mat2: Tensor,
        offs: Tensor | None = None,
        bias: Tensor | None = None,
        out_dtype: torch.dtype | None = None,
    ) -> Any:
        group_type = _GROUP_TYPES.get((x.dim(), mat2.dim()))
        if offs is None or group_type is None or bias is not None or out_dtype not in (None, x.dtype):
            return inner(x, mat2, offs, bias, out_dtype)
        from graph_quant.reference.matmul.grouped_matmul_node import grouped_matmul_node

        rows, matrices, ends = (as_cpu(each) for each in (x, mat2, offs))
        none: list[Tensor] = []
        (result,) = grouped_matmul_node(
            [rows], [matrices], none, none, none, none, none, ends.long(), split_item=3, dtype=-1, group_type=group_type
        )
        return to_npu(result)

    return kernel
