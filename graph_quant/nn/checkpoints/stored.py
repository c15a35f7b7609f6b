"""A weight as a checkpoint stores it, whatever the checkpoint's format."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from torch import Tensor


class CheckpointError(ValueError):
    """A checkpoint has an unknown tensor or scheme, or lacks a tensor.

    Examples:
        >>> try:
        ...     load_quantised(model, folder)
        ... except CheckpointError as error:
        ...     print(error)
    """


class Activations(Enum):
    """How a module's input activations are quantised."""

    FLOAT = "not"
    DYNAMIC = "by token, at run time"
    STATIC = "with a stored scale"


@dataclass(frozen=True)
class Stored:
    """A symmetric integer weight.

    ``integers`` is int8 (n, k) with values of ``bits``; ``scale`` is float32 (n, groups), with one group for the whole
    channel unless the format has more. Static activations have an input scale and offset, and may have the scale of
    the product (``result_scale``, float32 (n,)) and the bias added before it (``integer_bias``, int32 (n,)).
    ``assist``, float32 (n,), is the correction term of the int8 by int4 kernel.
    """

    bits: int
    integers: Tensor
    scale: Tensor
    activations: Activations
    activation_bits: int = 16
    input_scale: Tensor | None = None
    input_offset: Tensor | None = None
    result_scale: Tensor | None = None
    integer_bias: Tensor | None = None
    assist: Tensor | None = None

    @property
    def group_size(self) -> int | None:
        """How many input channels share a scale; None if all do."""
        groups = self.scale.size(1)
        return None if groups == 1 else self.integers.size(1) // groups

    @property
    def name(self) -> str:
        """The usual name of the scheme: W8A8, W4A16."""
        return f"W{self.bits}A{self.activation_bits}"

    def check(self, linear: str) -> None:
        """Raise if the parts are inconsistent; the error names the linear."""
        outputs, inputs = self.integers.shape
        low, high = -(2 ** (self.bits - 1)), 2 ** (self.bits - 1) - 1
        if self.integers.numel() and not low <= self.integers.min() <= self.integers.max() <= high:
            raise CheckpointError(f"{linear}.weight: integers of {self.bits} bits must lie in [{low}, {high}]")
        if inputs % self.scale.size(1):
            raise CheckpointError(f"{linear}: {self.scale.size(1)} groups of scales must divide {inputs} inputs")
        if self.activations is Activations.STATIC and self.group_size is not None:
            raise CheckpointError(f"{linear}: stored scales of activations go with one scale for each output")
        per_output = {
            "scale of the result": self.result_scale,
            "integer bias": self.integer_bias,
            "assist": self.assist,
        }
        for name, tensor in per_output.items():
            if tensor is not None and tensor.numel() != outputs:
                raise CheckpointError(f"{linear}: its {name} must have {outputs} elements, got {tensor.numel()}")
        for name, tensor in {"scale": self.scale, "scale of inputs": self.input_scale, **per_output}.items():
            if tensor is not None and not bool(tensor.isfinite().all()):
                raise CheckpointError(f"{linear}: its {name} must be finite")
        if self.input_scale is not None and not self.input_scale > 0:
            raise CheckpointError(f"{linear}: its scale of inputs must be above 0, got {self.input_scale.item()}")

        offset = self.input_offset
        if offset is not None and not (-128 <= offset <= 127 and offset == offset.round()):
            raise CheckpointError(f"{linear}: its offset of inputs must be an integer of 8 bits, got {offset.item()}")

    def restored(self) -> Tensor:
        """Return the weight in float32 (n, k)."""
        scale = self.scale.repeat_interleave(self.integers.size(1) // self.scale.size(1), 1)
        return self.integers.float() * scale
