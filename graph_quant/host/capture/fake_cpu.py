"""Infers on fake CPU tensors the results that operators save for backward: they differ between devices."""

from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._pytree import tree_map

from ...reference.half_precision import HALF_DTYPES

# On the meta device these return what other devices save: the CPU saves less, or in another dtype.
NAMES = frozenset({
    "aten::_batch_norm_with_update", "aten::_embedding_bag", "aten::_embedding_bag_forward_only",
    "aten::_native_batch_norm_legit", "aten::_weight_norm_interface", "aten::native_batch_norm",
    "aten::native_layer_norm",
})  # fmt: skip
_BAGS = ("aten::_embedding_bag", "aten::_embedding_bag_forward_only")
_WEIGHT_NORM = torch.ops.aten._weight_norm_interface.default


def infer_on_cpu(op: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return the results of a call as meta tensors with the sizes and dtypes that the CPU gives."""
    if op is _WEIGHT_NORM:  # PyTorch infers norms in half precision on each device; the CPU's are float32
        result, norms = op(*args, **kwargs)
        return result, norms.float() if norms.dtype in HALF_DTYPES else norms
    if op.name() in _BAGS and args[0].dtype == torch.bfloat16:  # PyTorch infers as if it took the CPU another path
        results = infer_on_cpu(op, _cast(args, torch.bfloat16, torch.float16), kwargs)
        return _cast(results, torch.float16, torch.bfloat16)
    with FakeTensorMode():
        results = op(*_convert("cpu", args), **_convert("cpu", kwargs))
    return _convert("meta", results)


def _cast(values: Any, dtype: torch.dtype, to: torch.dtype) -> Any:
    return tree_map(lambda value: value.to(to) if isinstance(value, Tensor) and value.dtype == dtype else value, values)


def _convert(device: str, values: Any) -> Any:
    def convert(value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        return torch.empty_strided(value.size(), value.stride(), dtype=value.dtype, device=device)

    return tree_map(convert, values)
