"""Eager calls of the operators: the rules of ``meta``, the values of an index, then the reference.

CPU tensors are served everywhere. Tensors on ``npu`` are served where the NPU is the host; with CANN they are
torch_npu's own business.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from graph_quant import meta, reference
from graph_quant.host.preload import HOST, chosen
from graph_quant.meta.rules import Rules
from torch import Tensor
from torch._prims_common import make_contiguous_strides_for

Kernel = Callable[..., Any]


def npu_group_quant(
    x: Tensor, scale: Tensor, group_index: Tensor, *, offset: Any = None, dst_dtype: Any = None
) -> Tensor:
    """Quantises rows by group."""
    destination = meta.group_quant.check(x, scale, group_index, offset=offset, dst_dtype=dst_dtype)
    reference.group_quant.check_index(x, group_index)
    return reference.group_quant.group_quant(x, scale, group_index, offset, destination)


def npu_quantize(
    x: Tensor, scales: Tensor, zero_points: Tensor | None, dtype: int, axis: int = 1, div_mode: bool = True
) -> Tensor:
    """Quantises along an axis."""
    plan = meta.quantize.check(x, scales, zero_points, dtype, axis, div_mode)
    return reference.quantize.quantize(x, scales, zero_points, plan.axis, plan.destination, divide=plan.divide)


def npu_trans_quant_param(scale: Tensor, offset: Tensor | None = None, round_mode: int | None = 0) -> Tensor:
    """Packs a scale and an offset."""
    plan = meta.trans_quant_param.check(scale, offset, round_mode)
    return reference.trans_quant_param.trans_quant_param(scale, offset, plan.round_mode)


def npu_dynamic_quant_asymmetric(x: Tensor, **options: Any) -> tuple[Tensor, ...]:
    """Quantises between the extremes of each token, channel or tensor."""
    plan = meta.dynamic_quant_asymmetric.check(x, **options)
    return reference.dynamic_quant_asymmetric.dynamic_quant_asymmetric(x, *_dynamic_inputs(x, plan, options))


def npu_dynamic_quant(x: Tensor, **options: Any) -> tuple[Tensor, ...]:
    """Quantises by the largest magnitude of each token, channel or tensor."""
    plan = meta.dynamic_quant.check(x, **options)
    return reference.dynamic_quant.dynamic_quant(x, *_dynamic_inputs(x, plan, options))


def _dynamic_inputs(x: Tensor, plan: meta.dynamic.Plan, options: dict[str, Any]) -> tuple[Any, ...]:
    group_index = options.get("group_index")
    if group_index is not None:
        reference.dynamic.check_index(plan.op, x, group_index)
    return options.get("smooth_scales"), group_index, plan.destination, plan.mode, plan.dst_type_max


def npu_quant_matmul(x1: Tensor, x2: Tensor, scale: Tensor, **options: Any) -> Tensor:
    """Multiplies integer matrices and rescales the product."""
    plan = meta.quant_matmul.check(x1, x2, scale, **options)
    return reference.quant_matmul.quant_matmul(
        x1,
        x2,
        scale,
        offset=options.get("offset"),
        pertoken_scale=options.get("pertoken_scale"),
        bias=options.get("bias"),
        output=plan.output,
        packed_along_k=plan.packed_along_k,
    )


KERNELS: tuple[Kernel, ...] = (
    npu_group_quant,
    npu_quantize,
    npu_trans_quant_param,
    npu_dynamic_quant_asymmetric,
    npu_dynamic_quant,
    npu_quant_matmul,
)

_libraries: list[torch.library.Library] = []


def register() -> None:
    """Serves eager calls. Calling it again changes nothing."""
    if _libraries:
        return
    library = torch.library.Library("npu", "IMPL")
    for kernel in KERNELS:
        library.impl(kernel.__name__, _on_cpu(kernel), "CPU")
    if chosen() is HOST:
        from graph_quant import format_cast

        format_cast.register(library)
        for kernel in KERNELS:
            library.impl(kernel.__name__, _over_npu_memory(kernel), "PrivateUse1", allow_override=True)
    _libraries.append(library)


def _on_cpu(kernel: Kernel) -> Kernel:
    """``kernel`` with the strides that inference promises, also where a size of 0 or 1 would allow others."""

    def on_cpu(*args: Any, **kwargs: Any) -> Any:
        results = kernel(*args, **kwargs)
        return _settled(results) if isinstance(results, Tensor) else tuple(map(_settled, results))

    return on_cpu


def _settled(result: Tensor) -> Tensor:
    strides = make_contiguous_strides_for(result.shape)
    return result if result.stride() == strides else result.contiguous().as_strided(result.shape, strides)


def _over_npu_memory(kernel: Kernel) -> Kernel:
    """``kernel`` for tensors of the host NPU, whose memory a CPU tensor can share."""
    from graph_quant.host.alias import as_cpu, to_npu

    on_cpu = _on_cpu(kernel)
    rules = Rules(kernel.__name__)
    schema = getattr(torch.ops.npu, kernel.__name__).default._schema
    names = [argument.name for argument in schema.arguments]

    def on_npu(*args: Any, **kwargs: Any) -> Any:
        given = {**dict(zip(names, args, strict=False)), **kwargs}
        rules.one_device(**{name: value for name, value in given.items() if isinstance(value, Tensor)})
        shared = {name: as_cpu(value) if isinstance(value, Tensor) else value for name, value in given.items()}
        positional = [shared.pop(name) for name in names[: len(args)]]
        results = on_cpu(*positional, **shared)
        return to_npu(results) if isinstance(results, Tensor) else tuple(map(to_npu, results))

    return on_npu
