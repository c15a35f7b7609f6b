"""Linears of Ascend 950 with narrow floats: MX formats, float8 by block and HiFloat8."""

from __future__ import annotations

import torch
from graph_quant.narrow_floats import E2M1, E4M3, NarrowFloat
from graph_quant.nn.rows import as_rows, check_half, like_input
from torch import Tensor, nn

_NUMBERS = {E4M3.name: 292, E2M1.name: 296}
_E8M0, _HIFLOAT8 = 293, 290
_MX_GROUPS, _BLOCK_GROUPS = (1, 1, 32), (1, 128, 128)
_BLOCK = 128
# HiFloat8 has three bits of mantissa up to 15, and fewer for larger magnitudes.
_HIFLOAT8_TOP = 15.0


class _NarrowLinear(nn.Module):
    """The buffers that the linears share."""

    weight: Tensor
    scale: Tensor
    bias: Tensor | None

    def __init__(self, weight: Tensor, scale: Tensor, bias: Tensor | None) -> None:
        super().__init__()
        for name, tensor in {"weight": weight, "scale": scale, "bias": bias}.items():
            self.register_buffer(name, tensor)


class MxLinear(_NarrowLinear):
    """A linear in an MX format: blocks of 32 elements along k share a power of two. Needs Ascend 950.

    Args:
        weight: float8_e4m3fn (n, k), or two float4_e2m1 to a uint8 (n, k/2).
        scale: Codes of float8_e8m0fnu in uint8 (n, ceil(k/64), 2).
        bias: (n,), or None.
        activations: The format of activations: float8_e4m3fn, or float4_e2m1 beside float4 weights.

    Examples:
        >>> linear = MxLinear.from_float(nn.Linear(64, 128).bfloat16().npu())
        >>> linear(torch.randn(4, 64).bfloat16().npu()).shape
        torch.Size([4, 128])
    """

    def __init__(self, weight: Tensor, scale: Tensor, bias: Tensor | None, activations: str = E4M3.name) -> None:
        super().__init__(weight, scale, bias)
        self.activations = activations

    @classmethod
    def from_float(cls, linear: nn.Linear, weights: NarrowFloat = E4M3, activations: NarrowFloat = E4M3) -> MxLinear:
        """Quantise a linear.

        Args:
            linear: A linear with float16 or bfloat16 weights.
            weights: E4M3 or E2M1 of ``graph_quant.narrow_floats``.
            activations: E4M3, or E2M1 beside weights in E2M1.

        Returns:
            The quantised linear.

        Raises:
            TypeError: The weight is neither float16 nor bfloat16.
            ValueError: The formats do not go together, or in_features is not even for E2M1, or no multiple of 8 for
                E2M1 beside E4M3.
        """
        check_half("MxLinear", "linear.weight", linear.weight.dtype)
        if weights.name not in _NUMBERS or activations.name not in _NUMBERS or (weights, activations) == (E4M3, E2M1):
            raise ValueError(f"MxLinear: {weights.name} weights and {activations.name} activations do not go together")
        multiple = 1 if weights is E4M3 else 2 if activations is E2M1 else 8
        if linear.in_features % multiple:
            raise ValueError(
                f"MxLinear: in_features must be a multiple of {multiple} for {weights.name}, got {linear.in_features}"
            )
        weight, scale = torch.ops.npu.npu_dynamic_mx_quant(linear.weight.detach(), dst_type=_NUMBERS[weights.name])
        bias = None if linear.bias is None else linear.bias.detach()
        is_mixed = weights is not activations
        return cls(weight, scale, bias if is_mixed or bias is None else bias.float(), activations.name)

    def forward(self, x: Tensor) -> Tensor:
        """Quantise blocks of each row of ``x``, and multiply.

        Args:
            x: float16 or bfloat16 (…, k).

        Returns:
            The product (…, n), in the dtype of ``x``.
        """
        number = _NUMBERS[self.activations]
        rows, row_scales = torch.ops.npu.npu_dynamic_mx_quant(as_rows(x), dst_type=number)
        is_float4 = self.weight.dtype == torch.uint8
        bias = self.bias
        if bias is not None and is_float4 and self.activations == E4M3.name:
            bias = bias.to(x.dtype).unsqueeze(0)
        y = torch.ops.npu.npu_quant_matmul(
            rows,
            self.weight.t(),
            self.scale.transpose(0, 1),
            pertoken_scale=row_scales,
            bias=bias,
            output_dtype=x.dtype,
            x1_dtype=number if number == _NUMBERS[E2M1.name] else None,
            x2_dtype=_NUMBERS[E2M1.name] if is_float4 else None,
            scale_dtype=_E8M0,
            pertoken_scale_dtype=_E8M0,
            group_sizes=list(_MX_GROUPS),
        )
        return like_input(y, x)

    def extra_repr(self) -> str:
        """Return the text that ``print(model)`` shows."""
        weights = E2M1.name if self.weight.dtype == torch.uint8 else E4M3.name
        return f"out_features={self.weight.size(0)}, weights={weights}, activations={self.activations}"


class BlockFP8Linear(_NarrowLinear):
    """A linear in float8_e4m3fn, with blocks of 128 by 128 in weights and 1 by 128 in activations. Needs Ascend 950.

    Args:
        weight: float8_e4m3fn (n, k).
        scale: float32 (ceil(n/128), ceil(k/128)).
        bias: (n,), or None.

    Examples:
        >>> linear = BlockFP8Linear.from_float(nn.Linear(256, 128).bfloat16().npu())
        >>> linear.scale.shape
        torch.Size([1, 2])
    """

    @classmethod
    def from_float(cls, linear: nn.Linear) -> BlockFP8Linear:
        """Quantise a linear.

        Args:
            linear: A linear with float16 or bfloat16 weights.

        Returns:
            The quantised linear.

        Raises:
            TypeError: The weight is neither float16 nor bfloat16.
        """
        check_half("BlockFP8Linear", "linear.weight", linear.weight.dtype)
        weight, scale = torch.ops.npu.npu_dynamic_block_quant(
            linear.weight.detach(), dst_type=_NUMBERS[E4M3.name], row_block_size=_BLOCK, col_block_size=_BLOCK
        )
        return cls(weight, scale, None if linear.bias is None else linear.bias.detach())

    def forward(self, x: Tensor) -> Tensor:
        """Quantise every 128 columns of each row of ``x``, multiply and add the bias.

        Args:
            x: float16 or bfloat16 (…, k).

        Returns:
            The product (…, n), in the dtype of ``x``.
        """
        rows, row_scales = torch.ops.npu.npu_dynamic_block_quant(as_rows(x), dst_type=_NUMBERS[E4M3.name])
        y = torch.ops.npu.npu_quant_matmul(
            rows,
            self.weight.t(),
            self.scale.t(),
            pertoken_scale=row_scales,
            output_dtype=x.dtype,
            group_sizes=list(_BLOCK_GROUPS),
        )
        return like_input(y if self.bias is None else y + self.bias.to(y.dtype), x)

    def extra_repr(self) -> str:
        """Return the text that ``print(model)`` shows."""
        return f"in_features={self.weight.size(1)}, out_features={self.weight.size(0)}, bias={self.bias is not None}"


class HiF8Linear(_NarrowLinear):
    """A linear in HiFloat8, with a scale for each channel of weights and each token. Needs Ascend 950.

    Args:
        weight: HiFloat8 in uint8 (n, k).
        scale: float32 (n,).
        bias: float32 (n,), or None.

    Examples:
        >>> linear = HiF8Linear.from_float(nn.Linear(64, 128).bfloat16().npu())
        >>> linear.weight.dtype
        torch.uint8
    """

    @classmethod
    def from_float(cls, linear: nn.Linear) -> HiF8Linear:
        """Quantise a linear.

        Args:
            linear: A linear with float16 or bfloat16 weights.

        Returns:
            The quantised linear.

        Raises:
            TypeError: The weight is neither float16 nor bfloat16.
        """
        check_half("HiF8Linear", "linear.weight", linear.weight.dtype)
        weight, scale = _to_hifloat8(linear.weight.detach())
        return cls(weight, scale, None if linear.bias is None else linear.bias.detach().float())

    def forward(self, x: Tensor) -> Tensor:
        """Quantise each row of ``x`` by its largest magnitude, and multiply.

        Args:
            x: float16 or bfloat16 (…, k).

        Returns:
            The product (…, n), in the dtype of ``x``.
        """
        rows, token_scales = _to_hifloat8(as_rows(x))
        y = torch.ops.npu.npu_quant_matmul(
            rows,
            self.weight.t(),
            self.scale,
            pertoken_scale=token_scales,
            bias=self.bias,
            output_dtype=x.dtype,
            x1_dtype=_HIFLOAT8,
            x2_dtype=_HIFLOAT8,
        )
        return like_input(y, x)

    def extra_repr(self) -> str:
        """Return the text that ``print(model)`` shows."""
        return f"in_features={self.weight.size(1)}, out_features={self.weight.size(0)}, bias={self.bias is not None}"


def _to_hifloat8(rows: Tensor) -> tuple[Tensor, Tensor]:
    values, scales = torch.ops.npu.npu_dynamic_quant(rows, dst_type=_HIFLOAT8, dst_type_max=_HIFLOAT8_TOP)
    return values, scales
