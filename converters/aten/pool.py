"""Pooling: what TorchAir lacks, and 2-d pooling, where its means and indices are wrong."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from graph_quant.chip import is_950
from graph_quant.converters import UPSTREAM
from graph_quant.converters.decompositions import decomposes
from graph_quant.converters.lowering import converts, in_type
from graph_quant.ge import TO_DESC
from torchair._ge_concrete_graph import ge_apis as ge
from torchair._ge_concrete_graph.compat_ir import ge_op
from torchair._ge_concrete_graph.utils import specific_op_input_layout, specific_op_output_layout
from torchair.ge import attr
from torchair.ge._ge_graph import DataType, Tensor

aten = torch.ops.aten


def _expand(sizes: Sequence[int], count: int) -> list[int]:
    return list(sizes) * count if len(sizes) == 1 else list(sizes)


@converts(aten.avg_pool3d.default)
def avg_pool3d(
    x: Tensor,
    kernel_size: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0, 0, 0),
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
    meta_outputs: Any = None,  # noqa: ARG001
) -> Tensor:
    """AvgPool3D."""
    window, pads = _expand(kernel_size, 3), _expand(padding, 3)
    batch = x if x.rank == 5 else ge.Unsqueeze(x, axes=[0])
    pooled = ge.AvgPool3D(
        batch,
        ksize=[1, 1, *window],
        strides=[1, 1, *(_expand(stride, 3) or window)],
        pads=[side for side in pads for _ in range(2)],
        ceil_mode=ceil_mode,
        count_include_pad=count_include_pad,
        divisor_override=divisor_override or 0,
        data_format="NCDHW",
    )
    return pooled if x.rank == 5 else ge.Squeeze(pooled, axis=[0])


@converts(aten._adaptive_avg_pool3d.default)
def adaptive_avg_pool3d(x: Tensor, output_size: Any, meta_outputs: Any = None) -> Tensor:  # noqa: ARG001
    """AdaptiveAvgPool3d, which TorchAir has no function for."""
    _check_known("_adaptive_avg_pool3d", output_size)
    batch = x if x.rank == 5 else ge.Unsqueeze(x, axes=[0])
    pooled: Tensor = ge_op(
        op_type="AdaptiveAvgPool3d",
        inputs={"x": batch},
        attrs={"output_size": attr.ListInt(list(output_size)), "data_format": attr.Str("NCDHW")},
        outputs=["y"],
    )
    pooled.desc.dtype = x.desc.dtype
    return pooled if x.rank == 5 else ge.Squeeze(pooled, axis=[0])


def _check_known(name: str, output_size: Any) -> None:
    if isinstance(output_size, Tensor):
        raise NotImplementedError(
            f"aten.{name} is lowered to sizes that are known when the graph is built: pass integers"
        )


@converts(aten.adaptive_max_pool2d.default)
def adaptive_max_pool2d(x: Tensor, output_size: Any, meta_outputs: Any = None) -> tuple[Tensor, Tensor]:  # noqa: ARG001
    """AdaptiveMaxPool3d with depth 1: A2 and A3 have no kernel for images."""
    _check_known("adaptive_max_pool2d", output_size)
    batch = ge.Unsqueeze(x, axes=[2] if x.rank == 4 else [0, 2])
    values, indices = _adaptive_maxima(batch, [1, *output_size])
    axes = [2] if x.rank == 4 else [0, 2]
    return ge.Squeeze(values, axis=axes), ge.Cast(ge.Squeeze(indices, axis=axes), dst_type=DataType.DT_INT64)


@converts(aten.adaptive_max_pool3d.default)
def adaptive_max_pool3d(x: Tensor, output_size: Any, meta_outputs: Any = None) -> tuple[Tensor, Tensor]:  # noqa: ARG001
    """AdaptiveMaxPool3d, which TorchAir has no function for."""
    _check_known("adaptive_max_pool3d", output_size)
    results = _adaptive_maxima(x if x.rank == 5 else ge.Unsqueeze(x, axes=[0]), list(output_size))
    values, indices = results if x.rank == 5 else (ge.Squeeze(result, axis=[0]) for result in results)
    return values, ge.Cast(indices, dst_type=DataType.DT_INT64)


def _adaptive_maxima(batch: Tensor, output_size: list[int]) -> tuple[Tensor, Tensor]:
    """The maxima of volumes, and where they are in INT32."""
    values, indices = ge_op(
        op_type="AdaptiveMaxPool3d",
        inputs={"x": batch},
        attrs={"output_size": attr.ListInt(output_size), "indices_dtype": attr.Int(3)},
        outputs=["y", "indices"],
    )
    values.desc.dtype, indices.desc.dtype = batch.desc.dtype, TO_DESC["int32"]
    specific_op_input_layout(values, indices=0, layout="NCDHW")
    specific_op_output_layout(values, indices=[0, 1], layout="NCDHW")
    return values, indices


@converts(aten.avg_pool2d.default)
def avg_pool2d(
    x: Tensor,
    kernel_size: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0, 0),
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
    meta_outputs: Any = None,  # noqa: ARG001
) -> Tensor:
    """AvgPoolV2, in float32 where padding counts: in float16 TorchAir always ignores count_include_pad."""
    window, pads = _expand(kernel_size, 2), _expand(padding, 2)
    inner = DataType.DT_FLOAT if x.dtype != DataType.DT_FLOAT and (any(pads) or ceil_mode) else x.dtype
    batch = in_type(inner, x)
    pooled = ge.AvgPoolV2(
        batch if x.rank == 4 else ge.Unsqueeze(batch, axes=[0]),
        ksize=[1, 1, *window],
        strides=[1, 1, *(_expand(stride, 2) or window)],
        pads=[side for side in pads for _ in range(2)],
        ceil_mode=ceil_mode,
        exclusive=not count_include_pad,
        divisor_override=divisor_override or 0,
    )
    specific_op_input_layout(pooled, indices=[0], layout="NCHW")
    specific_op_output_layout(pooled, indices=0, layout="NCHW")
    pooled = pooled if x.rank == 4 else ge.Squeeze(pooled, axis=[0])
    return pooled if inner == x.dtype else ge.Cast(pooled, dst_type=x.dtype)


@converts(aten.max_pool2d_with_indices.default)
def max_pool2d(
    x: Tensor,
    kernel_size: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0, 0),
    dilation: Sequence[int] = (1, 1),
    ceil_mode: bool = False,
    meta_outputs: Any = None,
) -> Any:
    """MaxPool3DWithArgmaxV2 with depth 1, whose indices are ATen's; TorchAir returns the pooled values as indices."""
    if is_950():
        arguments = (x, kernel_size, stride, padding, dilation, ceil_mode)
        return UPSTREAM[aten.max_pool2d_with_indices.default](*arguments, meta_outputs=meta_outputs)
    window = _expand(kernel_size, 2)
    batch = x if x.rank == 4 else ge.Unsqueeze(x, axes=[0])
    results = ge.MaxPool3DWithArgmaxV2(
        ge.Unsqueeze(batch, axes=[2]),
        ksize=[1, *window],
        strides=[1, *(_expand(stride, 2) or window)],
        pads=[0, *_expand(padding, 2)],
        dilation=[1, *_expand(dilation, 2)],
        ceil_mode=ceil_mode,
    )
    specific_op_input_layout(results[0], indices=0, layout="NCDHW")
    specific_op_output_layout(results[0], indices=[0, 1], layout="NCDHW")
    values, indices = (ge.Squeeze(result, axis=[2] if x.rank == 4 else [0, 2]) for result in results)
    return values, ge.Cast(indices, dst_type=DataType.DT_INT64)


@decomposes(aten.max_pool2d_with_indices_backward.default)
def max_pool2d_backward(
    grad_output: torch.Tensor, x: torch.Tensor, *geometry: Any, indices: torch.Tensor | None = None
) -> torch.Tensor:
    """Scatter-add the gradients to the positions of the maxima."""
    return _add_to_maxima(grad_output, x, geometry[-1] if indices is None else indices, 2)


@decomposes(aten.adaptive_max_pool2d_backward.default)
def adaptive_max_pool2d_backward(grad_output: torch.Tensor, x: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
    """The same, of windows of several sizes."""
    return _add_to_maxima(grad_output, x, indices, 2)


@decomposes(aten.adaptive_max_pool3d_backward.default)
def adaptive_max_pool3d_backward(grad_output: torch.Tensor, x: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
    """The same of volumes."""
    return _add_to_maxima(grad_output, x, indices, 3)


def _add_to_maxima(grad_output: torch.Tensor, x: torch.Tensor, indices: torch.Tensor, dims: int) -> torch.Tensor:
    flat = torch.zeros_like(x).flatten(-dims)
    return flat.scatter_add(-1, indices.flatten(-dims), grad_output.flatten(-dims)).reshape(x.shape)
