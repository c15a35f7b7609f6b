"""Identity, copy and assignment."""

from __future__ import annotations

from torch import Tensor

from ...ge import kernel


@kernel("Identity", may_alias=True, view=True)
def identity(x: Tensor) -> Tensor:
    return x


@kernel("TensorMove")
def tensor_move(x: Tensor) -> Tensor:
    return x.clone()


@kernel("Assign", may_alias=True, idle=("validate_shape", "use_locking"))
def assign(ref: Tensor, value: Tensor) -> Tensor:
    return ref.copy_(value)


@kernel("NoOp")
def no_op() -> None:
    """Do nothing: the node only joins control edges."""
