"""How a rule of the documents is stated: what must hold, and the words for the caller when it does not.

Sizes may be symbols. A rule is then a guard, or a runtime assertion where the size is known only at run
time; it is never a Python branch on a size.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

import torch
from graph_quant.destination import Destination, resolve
from graph_quant.refusals import Refusal
from torch._subclasses.fake_tensor import FakeTensor, in_kernel_invocation_manager
from torch.fx.experimental.symbolic_shapes import guard_or_false, statically_known_true, sym_or

__all__ = ["FLOATS", "Condition", "Refusal", "Rules", "Size", "guard_or_false", "statically_known_true", "sym_or"]

Condition = bool | torch.SymBool
Size = int | torch.SymInt

FLOATS = (torch.float32, torch.float16, torch.bfloat16)


def _listed(values: Sequence[object]) -> str:
    names = [str(value) for value in values]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"


def _one_symbol(size: Size, other: Size) -> bool:
    """Whether two sizes are the same symbol, as they are once a rule made them so."""
    if isinstance(size, torch.SymInt) and isinstance(other, torch.SymInt):
        return bool(size.node.expr == other.node.expr)
    return False


@dataclass(frozen=True)
class Rules:
    """The rules of one operator; each message starts with its name.

    ``is_eager`` when the call is carried out at once, on data: kernels called eagerly take fewer mixtures of dtypes
    than graphs do, into which a lowering can put casts.
    """

    op: str
    is_eager: bool = False

    def require(self, holds: Condition, message: Callable[[], str]) -> None:
        """Refuses the call unless ``holds``."""
        if holds is True:
            return
        if holds is False:
            self.refuse(message())
        try:
            torch._check(holds, lambda: f"{self.op}: {message()}")
        except RuntimeError as error:
            if str(error).startswith(f"{self.op}: "):
                raise Refusal(str(error)) from None
            raise

    def refuse(self, message: str) -> NoReturn:
        """Refuses the call."""
        raise Refusal(f"{self.op}: {message}")

    def refuse_for(self, chip: str) -> NoReturn:
        """Refuses every call, because ``chip`` alone has a kernel for the operator."""
        self.refuse(f"it must run on {chip}, which alone has a kernel for it, got Ascend A2 or A3")

    def one_device(self, tensors: Mapping[str, torch.Tensor]) -> None:
        """All tensors of the call are on one device."""
        expected = None
        for name, tensor in tensors.items():
            if expected is None:
                first, expected = name, tensor.device
            elif tensor.device != expected:
                self.refuse(f"{name} must be on {expected}, as {first} is, got {tensor.device}")

    def dtype(self, argument: str, tensor: torch.Tensor, allowed: Sequence[torch.dtype], why: str = "") -> None:
        """The dtype of ``tensor`` is one of ``allowed``."""
        self.require(tensor.dtype in allowed, lambda: f"{argument} must be {_listed(allowed)}{why}, got {tensor.dtype}")

    def same_dtype_eagerly(self, argument: str, tensor: torch.Tensor, like_name: str, like: torch.Tensor) -> None:
        """Two dtypes are the same where no lowering can put a cast between."""
        self.require(
            not self.is_eager or tensor.dtype == like.dtype,
            lambda: (
                f"{argument} must be {like.dtype} when run eagerly, the dtype of {like_name}, got {tensor.dtype}; "
                "convert it first, or compile: a graph converts it"
            ),
        )

    def one_of(self, argument: str, value: object, allowed: Sequence[object], why: str = "") -> None:
        """A number or word is one of ``allowed``."""
        self.require(value in allowed, lambda: f"{argument} must be {_listed(allowed)}{why}, got {value}")

    def rank(self, argument: str, tensor: torch.Tensor, low: int, high: int | None = None, why: str = "") -> None:
        """``tensor`` has ``low`` dimensions, or from ``low`` to ``high`` of them."""
        allowed = f"{low}" if high is None else f"{low} to {high}"
        self.require(
            low <= tensor.dim() <= (low if high is None else high),
            lambda: f"{argument} must have {allowed} dimensions{why}, got {tensor.dim()}: {list(tensor.shape)}",
        )

    def equal(self, name: str, size: Size, other_name: str, other: Size) -> None:
        """Two sizes are the same."""
        if not _one_symbol(size, other):
            self.require(size == other, lambda: f"{name} must equal {other_name}, got {size} and {other}")

    def same_shape(self, argument: str, tensor: torch.Tensor, other_name: str, other: torch.Tensor) -> None:
        """Two tensors have the same sizes."""
        self.rank(argument, tensor, other.dim(), why=f", as {other_name} has")
        for dim, size in enumerate(other.shape):
            self.equal(f"{argument}.size({dim})", tensor.size(dim), f"{other_name}.size({dim})", size)

    def like(self, argument: str, tensor: torch.Tensor, other_name: str, other: torch.Tensor) -> None:
        """Two tensors have the same dtype and sizes."""
        self.dtype(argument, tensor, (other.dtype,), f", the dtype of {other_name}")
        self.same_shape(argument, tensor, other_name, other)

    def one_or(self, name: str, size: Size, other_name: str, other: Size) -> None:
        """A size is one, or the same as another."""
        if not _one_symbol(size, other):
            self.require(
                sym_or(size == 1, size == other),
                lambda: f"{name} must be 1 or equal {other_name}, got {size} and {other}",
            )

    def not_empty(self, argument: str, tensor: torch.Tensor) -> None:
        """Every size is at least one."""
        for dim, size in enumerate(tensor.shape):
            self.at_least(f"{argument}.size({dim})", size, 1)

    def at_least(self, name: str, size: Size, least: int) -> None:
        """A size is no smaller than ``least``."""
        self.require(size >= least, lambda: f"{name} must be at least {least}, got {size}")

    def destination(
        self, argument: str, requested: torch.dtype | int | None, allowed: Sequence[Destination]
    ) -> Destination:
        """The destination that ``requested`` spells is one of ``allowed``."""
        return resolve(self.op, argument, requested, allowed)

    def packable(self, name: str, size: Size, destination: Destination) -> None:
        """A packed destination fills its storage elements."""
        if destination.is_packed:
            self.require(
                size % destination.packing == 0,
                lambda: f"{name} must be a multiple of 8 for torch.quint4x2, which packs eight elements, got {size}",
            )


def empty(like: torch.Tensor, shape: Sequence[Size], dtype: torch.dtype) -> torch.Tensor:
    """A contiguous result, whatever the strides of the inputs."""
    if isinstance(like, FakeTensor):
        # What the mode does itself for kernels on meta tensors; sent through it, a call would be inferred twice.
        with in_kernel_invocation_manager(like.fake_mode):
            result = torch.empty(tuple(shape), dtype=dtype, device="meta")
        return FakeTensor(like.fake_mode, result, like.fake_device)
    return like.new_empty(tuple(shape), dtype=dtype)
