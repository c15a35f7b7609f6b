"""Sparse tensors: refused where they are created on the device, which has no kernels for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

# The operators that create sparse tensors on the device, and their dispatch keys.
_FACTORIES = (
    ("aten::_sparse_coo_tensor_with_dims", "SparsePrivateUse1"),
    ("aten::_sparse_coo_tensor_with_dims_and_tensors", "SparsePrivateUse1"),
    ("aten::_sparse_compressed_tensor_unsafe", "PrivateUse1"),
    ("aten::_to_copy", "SparseCsrPrivateUse1"),
)


def register(aten: Any) -> None:
    """Register kernels that raise."""
    for name, key in _FACTORIES:
        aten.impl(name, key, _refusal(name), False)


def _refusal(name: str) -> Callable[..., Any]:
    def refuse(*_args: Any, **_kwargs: Any) -> Any:
        raise NotImplementedError(f"{name}: sparse tensors are not supported on the host NPU")

    return refuse
