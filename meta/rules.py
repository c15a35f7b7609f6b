"""Rules of operators: a condition that a call must meet, and the error message if it does not.

Sizes may be symbols. A rule is then a guard, or a runtime assertion if the size is known only at run time; it is never
a Python branch on a size.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

import torch
from graph_quant import chip
from graph_quant.destination import Destination, resolve
from graph_quant.formats import ND, NZ, Format, storage_format
from graph_quant.mistakes import warn_once
from graph_quant.refusals import PARAM_INVALID, TILING_ERROR, Refusal, UndescribedError
from graph_quant.releases import cann
from graph_quant.releases.alternatives import guard_or_false, sym_or
from torch._subclasses.fake_tensor import FakeTensor, in_kernel_invocation_manager
from torch.fx.experimental.symbolic_shapes import statically_known_true

__all__ = [
    "FLOATS",
    "ND",
    "NZ",
    "TILING_ERROR",
    "Condition",
    "Refusal",
    "Rules",
    "Size",
    "guard_or_false",
    "statically_known_true",
    "sym_or",
]

Condition = bool | torch.SymBool
Size = int | torch.SymInt

FLOATS = (torch.float32, torch.float16, torch.bfloat16)


def _listed(values: Sequence[object]) -> str:
    names = [str(value) for value in values]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"


def _one_symbol(size: Size, other: Size) -> bool:
    """Whether two sizes are the same symbol, as after a guard that made them equal."""
    if isinstance(size, torch.SymInt) and isinstance(other, torch.SymInt):
        return bool(size.node.expr == other.node.expr)
    return False


@dataclass(frozen=True)
class Rules:
    """Checks the arguments of one call; every check raises ``Refusal`` with the rule, the argument and the value.

    Args:
        op: The operator's name; each message starts with it.
        is_eager: Whether the call runs at once, on data. Eager kernels take fewer combinations of dtypes than graphs,
            into which a lowering can insert casts.

    Examples:
        >>> def scale_rules(rules: Rules, x: Tensor, scale: Tensor) -> Plan:
        ...     rules.dtype("x", x, (torch.float16, torch.bfloat16))
        ...     rules.rank("scale", scale, 1)
        ...     rules.equal("scale.size(0)", scale.size(0), "x.size(-1)", x.size(-1))
        ...     return Plan((Result(tuple(x.shape), x.dtype),))
    """

    op: str
    is_eager: bool = False

    @property
    def chip(self) -> chip.Chip:
        """The chip that the call is checked for."""
        return chip.current()

    def require(self, holds: Condition, message: Callable[[], str], code: int = PARAM_INVALID) -> None:
        """Refuse the call unless ``holds``.

        Args:
            holds: The condition; a symbolic one becomes a guard or a runtime assertion.
            message: Makes the message, without the operator's name; called only if the condition does not hold.
            code: The error code of a device: ``TILING_ERROR`` for what only the tiling of the kernel refuses.

        Raises:
            Refusal: The condition does not hold.
        """
        if holds is True:
            return
        if holds is False:
            self.refuse(message(), code)
        try:
            torch._check(holds, lambda: f"{self.op}: {message()}")
        except RuntimeError as error:
            if str(error).startswith(f"{self.op}: "):
                raise Refusal(str(error), code) from None
            raise

    def refuse(self, message: str, code: int = PARAM_INVALID) -> NoReturn:
        """Refuse the call with a message that follows the operator's name."""
        raise Refusal(f"{self.op}: {message}", code)

    def since(self, release: str, message: Callable[[], str]) -> None:
        """Refuse, for releases of CANN before ``release``, what that one is the first to take.

        Args:
            release: The release, such as ``9.0``.
            message: Makes the rule of earlier releases; the release is appended.

        Raises:
            Refusal: The host's release of CANN is an earlier one. A device has kernels that answer.

        Examples:
            >>> rules.since("9.0", lambda: f"key must have 3 dimensions in layout BSH, got {key.dim()}")
        """
        if not chip.kernels_answer() and not cann.is_at_least(release):
            self.refuse(f"{message()} (CANN {cann.version()}; {release} takes it: GRAPH_QUANT_CANN)", TILING_ERROR)

    def warn(self, argument: str, message: str) -> None:
        """Warn, once, of a call that a device takes and that is nearly always a mistake."""
        warn_once(self.op, argument, message)

    def refuse_for(self, chip: str) -> NoReturn:
        """Refuse every call, because only ``chip`` has a kernel for the operator."""
        self.refuse(f"it must run on {chip}, which alone has a kernel for it, got Ascend A2 or A3")

    def refuse_950(self, **arguments: object) -> None:
        """Require that arguments which only Ascend 950 supports, and which are not described for it, are None."""
        for name, value in arguments.items():
            if value is not None:
                if self.chip is chip.ASCEND_950:
                    raise UndescribedError(f"{self.op}: {name} is not described for Ascend 950 yet")
                passed = "a tensor" if isinstance(value, torch.Tensor) else value
                self.refuse(f"{name} is for Ascend 950, leave it None on A2 and A3, got {passed}")

    def one_device(self, tensors: Mapping[str, torch.Tensor]) -> None:
        """Require that all tensors are on one device."""
        expected = None
        for name, tensor in tensors.items():
            if expected is None:
                first, expected = name, tensor.device
            elif tensor.device != expected:
                self.refuse(f"{name} must be on {expected}, as {first} is, got {tensor.device}")

    def dtype(self, argument: str, tensor: torch.Tensor, allowed: Sequence[torch.dtype], why: str = "") -> None:
        """Require that the dtype of ``tensor`` is one of ``allowed``; ``why`` follows the list in the message."""
        self.require(tensor.dtype in allowed, lambda: f"{argument} must be {_listed(allowed)}{why}, got {tensor.dtype}")

    def format(self, argument: str, tensor: torch.Tensor, *allowed: Format, why: str = "") -> Format | None:
        """Require that the storage format of ``tensor`` is one of ``allowed``.

        Args:
            argument: The name of the argument.
            tensor: The tensor; a traced one has no format and meets every such rule, because GE converts formats.
            *allowed: The formats that the kernel takes.
            why: Follows the list in the message.

        Returns:
            The format of the tensor, for rules about sizes that it demands; ``None`` for a traced tensor.

        Raises:
            Refusal: The tensor has another format.

        Examples:
            >>> if rules.format("weight", weight, ND, NZ) is NZ:
            ...     rules.multiple("weight.size(0)", weight.size(0), 16, " in FRACTAL_NZ")
        """
        stored = storage_format(tensor)
        self.require(
            stored is None or stored in allowed,
            lambda: f"{argument} must be in {_listed(allowed)}{why}, got {stored}; npu_format_cast converts it",
        )
        return stored

    def multiple(self, name: str, size: Size, of: int, why: str = "") -> None:
        """Require that a size is a multiple of ``of``."""
        self.require(size % of == 0, lambda: f"{name} must be a multiple of {of}{why}, got {size}")

    def same_dtype_eagerly(self, argument: str, tensor: torch.Tensor, like_name: str, like: torch.Tensor) -> None:
        """Require that two dtypes are equal in an eager call; a lowering can insert a cast instead."""
        self.require(
            not self.is_eager or tensor.dtype == like.dtype,
            lambda: (
                f"{argument} must be {like.dtype} when run eagerly, the dtype of {like_name}, got {tensor.dtype}; "
                "convert it first, or compile: a graph converts it"
            ),
        )

    def one_of(self, argument: str, value: object, allowed: Sequence[object], why: str = "") -> None:
        """Require that a number or string is one of ``allowed``."""
        self.require(value in allowed, lambda: f"{argument} must be {_listed(allowed)}{why}, got {value}")

    def rank(self, argument: str, tensor: torch.Tensor, low: int, high: int | None = None, why: str = "") -> None:
        """Require that ``tensor`` has ``low`` dimensions, or from ``low`` to ``high`` of them."""
        allowed = f"{low}" if high is None else f"{low} to {high}"
        self.require(
            low <= tensor.dim() <= (low if high is None else high),
            lambda: f"{argument} must have {allowed} dimensions{why}, got {tensor.dim()}: {list(tensor.shape)}",
        )

    def equal(self, name: str, size: Size, other_name: str, other: Size) -> None:
        """Require that two sizes are equal."""
        if not _one_symbol(size, other):
            self.require(size == other, lambda: f"{name} must equal {other_name}, got {size} and {other}")

    def shape(
        self, argument: str, tensor: torch.Tensor, sizes: Sequence[Size], names: Sequence[str] | None = None
    ) -> None:
        """Require that ``tensor`` has the shape ``sizes``; ``names`` are what the sizes are called in messages."""
        self.rank(argument, tensor, len(sizes))
        for dim, (size, name) in enumerate(zip(sizes, names or map(str, sizes), strict=True)):
            self.equal(f"{argument}.size({dim})", tensor.size(dim), name, size)

    def same_shape(self, argument: str, tensor: torch.Tensor, other_name: str, other: torch.Tensor) -> None:
        """Require that two tensors have the same shape."""
        self.rank(argument, tensor, other.dim(), why=f", as {other_name} has")
        for dim, size in enumerate(other.shape):
            self.equal(f"{argument}.size({dim})", tensor.size(dim), f"{other_name}.size({dim})", size)

    def like(self, argument: str, tensor: torch.Tensor, other_name: str, other: torch.Tensor) -> None:
        """Require that two tensors have the same dtype and shape."""
        self.dtype(argument, tensor, (other.dtype,), f", the dtype of {other_name}")
        self.same_shape(argument, tensor, other_name, other)

    def one_or(self, name: str, size: Size, other_name: str, other: Size) -> None:
        """Require that a size is 1 or equal to another."""
        if not _one_symbol(size, other):
            self.require(
                sym_or(size == 1, size == other),
                lambda: f"{name} must be 1 or equal {other_name}, got {size} and {other}",
            )

    def not_empty(self, argument: str, tensor: torch.Tensor) -> None:
        """Require that every size of ``tensor`` is at least 1."""
        for dim, size in enumerate(tensor.shape):
            self.at_least(f"{argument}.size({dim})", size, 1)

    def at_least(self, name: str, size: Size, least: int) -> None:
        """Require that a size is at least ``least``."""
        self.require(size >= least, lambda: f"{name} must be at least {least}, got {size}")

    def destination(
        self, argument: str, requested: torch.dtype | int | None, allowed: Sequence[Destination]
    ) -> Destination:
        """The destination of a requested dtype.

        Args:
            argument: The name of the dtype argument.
            requested: A torch dtype, or the integer that stands for it in torch_npu; ``None`` for the default.
            allowed: The destinations that the operator supports.

        Returns:
            The one of ``allowed`` that ``requested`` stands for.

        Raises:
            Refusal: It is none of them.
        """
        return resolve(self.op, argument, requested, allowed)

    def packable(self, name: str, size: Size, destination: Destination) -> None:
        """Require that ``size`` is a multiple of eight for a destination that packs int4."""
        if destination.is_packed:
            self.require(
                size % destination.packing == 0,
                lambda: f"{name} must be a multiple of 8 for torch.quint4x2, which packs eight elements, got {size}",
            )


def empty(like: torch.Tensor, shape: Sequence[Size], dtype: torch.dtype) -> torch.Tensor:
    """A contiguous tensor without values, on the device and in the fake mode of ``like``."""
    if isinstance(like, FakeTensor):
        # As the mode itself calls kernels on meta tensors; dispatched through it, the call would be inferred twice.
        with in_kernel_invocation_manager(like.fake_mode):
            result = torch.empty(tuple(shape), dtype=dtype, device="meta")
        return FakeTensor(like.fake_mode, result, like.fake_device)
    return like.new_empty(tuple(shape), dtype=dtype)
