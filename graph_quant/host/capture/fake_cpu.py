"""What operators keep for their gradients differs between devices: PyTorch infers it for the CPU from fake tensors."""

from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._pytree import tree_map

# The meta device takes these to run on another device than the CPU, which keeps less, or in another dtype.
NAMES = frozenset({
    "aten::_batch_norm_with_update", "aten::_embedding_bag", "aten::_embedding_bag_forward_only",
    "aten::_native_batch_norm_legit", "aten::native_batch_norm", "aten::native_layer_norm",
})  # fmt: skip


def on_the_cpu(op: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return what a call on meta tensors gives, in meta tensors of the sizes and dtypes that the CPU gives."""
    with FakeTensorMode():
        results = op(*_made_on("cpu", args), **_made_on("cpu", kwargs))
    return _made_on("meta", results)


def _made_on(device: str, values: Any) -> Any:
    def made(value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        return torch.empty_strided(value.size(), value.stride(), dtype=value.dtype, device=device)

    return tree_map(made, values)
